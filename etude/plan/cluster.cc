// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/cluster.h"

#include <algorithm>

#include <fmt/format.h>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

using Kind = SmallCall::Kind;

std::string text_of(const SmallCall::List& list) {
  if (list.empty()) return "[]";
  std::string out = "[";
  // Stretches of neighbours as one: most lists are a few of them.
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i + 1;
    while (end < list.size() && list[end] == list[end - 1] + 1) ++end;
    out +=
        end == i + 1 ? fmt::format("{} ", list[i]) : fmt::format("{}..{} ", list[i], list[end - 1]);
    i = end;
  }
  out.back() = ']';
  return out;
}

std::string text_of(const SmallCall& call) {
  std::string out;
  switch (call.kind) {
    case Kind::kProgram:
      out = fmt::format("{{{}}}", scalar::to_string(*call.program));
      // Texts leave out operands that are read nowhere, and dtypes.
      out += fmt::format("/{}/{:x}", call.program->operands, call.program->truths);
      break;
    case Kind::kProduct:
      out = fmt::format("product {} {} {} ", call.depth, call.strides[0], call.strides[1]);
      break;
    case Kind::kFold:
      out = fmt::format("fold {} {:a} ", static_cast<int>(call.fold), call.divisor);
      for (const auto& p : call.passes) out += fmt::format("({},{},{})", p.outer, p.size, p.inner);
      break;
    case Kind::kMove:
      out = "move ";
      break;
  }
  for (const auto& list : call.at) out += text_of(list);
  return out;
}

std::string text_of(const Region::Place& place) {
  return fmt::format("v{}@{}+{}*{}", place.value, place.slot, place.offset, place.stride);
}

// How many operands a call reads, and elements of each at least.
void check_call(const Region& region, const Region::Call& call) {
  const SmallCall& what = call.what;
  const std::size_t count = region.values[call.result].count;
  const auto reaches = [&](std::size_t list, std::size_t last, std::size_t size) {
    const auto& at = what.at.at(list);
    ETUDE_CHECK(at.size() == count || (at.empty() && what.kind == Kind::kProgram && size == count),
                "a list of a region has {} elements, not {}", at.size(), count);
    for (const uint16_t i : at) {
      ETUDE_CHECK(i + last < size, "element {} of {} is read in a region", i + last, size);
    }
  };
  const auto size_of = [&](std::size_t o) -> std::size_t {
    return region.values[call.operands.at(o)].count;
  };
  if (what.kind == Kind::kProgram) {
    ETUDE_CHECK(call.operands.size() == static_cast<std::size_t>(what.program->operands) &&
                    what.params.size() >= static_cast<std::size_t>(what.program->params),
                "a program of a region has {} operands", call.operands.size());
    for (std::size_t o = 0; o < call.operands.size(); ++o) reaches(o, 0, size_of(o));
  } else if (what.kind == Kind::kProduct) {
    ETUDE_CHECK(call.operands.size() == 2 && what.depth > 0, "a product of a region has {} terms",
                what.depth);
    for (std::size_t o = 0; o < 2; ++o) {
      reaches(o, std::size_t{what.depth - 1} * what.strides[o], size_of(o));
    }
  } else if (what.kind == Kind::kMove) {
    std::size_t all = 0;
    for (std::size_t o = 0; o < call.operands.size(); ++o) all += size_of(o);
    reaches(0, 0, all);
  } else {
    std::size_t left = size_of(0);
    for (const auto& p : what.passes) {
      ETUDE_CHECK(std::size_t{p.outer} * p.size * p.inner == left && p.size > 1,
                  "a fold of a region has {} of {}", p.outer * p.size * p.inner, left);
      left = std::size_t{p.outer} * p.inner;
    }
    ETUDE_CHECK(call.operands.size() == 1 && left == count, "a fold of a region gives {}", left);
  }
}

}  // namespace

std::size_t Region::work(const SmallCall& call, std::size_t count) {
  const std::size_t vectors = (count + 15) / 16;
  switch (call.kind) {
    case Kind::kProgram: {
      std::size_t calls = 0;
      for (int i = 0; i < call.program->size; ++i) {
        calls += scalar::info(call.program->nodes[static_cast<std::size_t>(i)].fn).arity > 0;
      }
      return vectors * calls * 8;  // a polynomial is 20, a sum is 1
    }
    case Kind::kProduct:
      return vectors * call.depth * 4;
    case Kind::kFold: {
      std::size_t out = 0;
      for (const auto& p : call.passes) out += 2 * p.size + 12;
      return out;
    }
    case Kind::kMove:
      break;
  }
  return vectors * 2;
}

std::vector<double> Region::params() const {
  std::vector<double> out;
  for (const Call& call : calls) {
    out.insert(out.end(), call.what.params.begin(), call.what.params.end());
  }
  return out;
}

std::string to_string(const Region& region) {
  std::string out = !region.is_loop ? "region\n" : region.is_reverse ? "loop back\n" : "loop\n";
  for (std::size_t v = 0; v < region.values.size(); ++v) {
    const Region::Value& value = region.values[v];
    out += fmt::format("v{} {}{} ", v, value.count, value.is_truth ? "b" : "");
  }
  for (const auto& place : region.loads) out += "\nload " + text_of(place);
  for (const Region::Call& call : region.calls) {
    out += fmt::format("\nv{} = {}({})", call.result, text_of(call.what),
                       fmt::join(call.operands, ", "));
    if (!call.what.params.empty()) out += fmt::format("p{}", call.what.params.size());
  }
  for (const auto& place : region.stores) out += "\nstore " + text_of(place);
  for (const auto& c : region.carried) {
    out += fmt::format("\ncarry v{} v{} {} {}", c.before, c.after, text_of(c.from), text_of(c.to));
  }
  return out;
}

void check(const Region& region) {
  std::vector<int> given(region.values.size(), 0);
  const auto give = [&](uint32_t v) {
    ETUDE_CHECK(v < given.size() && ++given[v] == 1, "value {} of a region is given twice", v);
  };
  for (const auto& place : region.loads) give(place.value);
  for (const auto& c : region.carried) give(c.before);
  for (const Region::Call& call : region.calls) {
    for (const uint32_t v : call.operands) {
      ETUDE_CHECK(v < given.size() && given[v] == 1, "value {} of a region is read before it is",
                  v);
    }
    give(call.result);
    check_call(region, call);
  }
  for (const auto& place : region.stores) {
    const bool is_result = std::ranges::any_of(
        region.calls, [&](const Region::Call& call) { return call.result == place.value; });
    ETUDE_CHECK(given.at(place.value) == 1 && (is_result || region.is_loop),
                "value {} of a region is stored and never given", place.value);
  }
  for (const auto& c : region.carried) {
    const Region::Value &before = region.values[c.before], &after = region.values.at(c.after);
    ETUDE_CHECK(
        given[c.after] == 1 && before.count == after.count && before.is_truth == after.is_truth,
        "value {} of a region is carried on as another", c.before);
  }
  for (const Region::Value& value : region.values) {
    ETUDE_CHECK(value.count >= 1 && value.count <= Region::kMostElements,
                "a value of a region has {} elements", value.count);
  }
  ETUDE_CHECK(region.is_loop || region.carried.empty(), "a region without steps carries values");
}

}  // namespace etude::internal
