// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/cluster.h"

#include <algorithm>

#include <fmt/format.h>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

using CallKind = SmallCall::Kind;

std::string text_of(const SmallCall::List& list) {
  if (list.empty()) return "[]";
  std::string out = "[";
  // Prints runs of consecutive numbers as ranges: most lists are a few ranges.
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
    case CallKind::kProgram:
      out = fmt::format("{{{}}}", scalar::to_string(*call.program));
      // Texts omit operands without a reader, and dtypes.
      out += fmt::format("/{}/{:x}", call.program->operands, call.program->bools);
      break;
    case CallKind::kProduct:
      out = fmt::format("product {} {} {} ", call.depth, call.strides[0], call.strides[1]);
      break;
    case CallKind::kCombine:
      out = fmt::format("fold {} {:a} ", static_cast<int>(call.combine), call.divisor);
      for (const auto& p : call.passes) out += fmt::format("({},{},{})", p.outer, p.size, p.inner);
      break;
    case CallKind::kMove:
      out = "move ";
      break;
  }
  for (const auto& list : call.at) out += text_of(list);
  return out;
}

std::string text_of(const Cluster::Place& place) {
  return fmt::format("v{}@{}+{}*{}", place.value, place.slot, place.offset, place.stride);
}

// The number of operands that a call reads, and the minimum number of elements of each.
void check_call(const Cluster& cluster, const Cluster::Call& call) {
  const SmallCall& what = call.what;
  const std::size_t count = cluster.values[call.result].count;
  const auto reaches = [&](std::size_t list, std::size_t last, std::size_t size) {
    const auto& at = what.at.at(list);
    ETUDE_CHECK(
        at.size() == count || (at.empty() && what.kind == CallKind::kProgram && size == count),
        "a list of a cluster has {} elements, not {}", at.size(), count);
    for (const uint16_t i : at) {
      ETUDE_CHECK(i + last < size, "element {} of {} is read in a cluster", i + last, size);
    }
  };
  const auto size_of = [&](std::size_t o) -> std::size_t {
    return cluster.values[call.operands.at(o)].count;
  };
  if (what.kind == CallKind::kProgram) {
    ETUDE_CHECK(call.operands.size() == static_cast<std::size_t>(what.program->operands) &&
                    what.params.size() >= static_cast<std::size_t>(what.program->params),
                "a program of a cluster has {} operands", call.operands.size());
    for (std::size_t o = 0; o < call.operands.size(); ++o) reaches(o, 0, size_of(o));
  } else if (what.kind == CallKind::kProduct) {
    ETUDE_CHECK(call.operands.size() == 2 && what.depth > 0, "a product of a cluster has {} terms",
                what.depth);
    for (std::size_t o = 0; o < 2; ++o) {
      reaches(o, std::size_t{what.depth - 1} * what.strides[o], size_of(o));
    }
  } else if (what.kind == CallKind::kMove) {
    std::size_t all = 0;
    for (std::size_t o = 0; o < call.operands.size(); ++o) all += size_of(o);
    reaches(0, 0, all);
  } else {
    std::size_t left = size_of(0);
    for (const auto& p : what.passes) {
      ETUDE_CHECK(std::size_t{p.outer} * p.size * p.inner == left && p.size > 1,
                  "a reduction of a cluster has {} of {}", p.outer * p.size * p.inner, left);
      left = std::size_t{p.outer} * p.inner;
    }
    ETUDE_CHECK(call.operands.size() == 1 && left == count, "a reduction of a cluster gives {}",
                left);
  }
}

}  // namespace

std::size_t Cluster::work(const SmallCall& call, std::size_t count) {
  const std::size_t vectors = (count + 15) / 16;
  switch (call.kind) {
    case CallKind::kProgram: {
      std::size_t calls = 0;
      for (int i = 0; i < call.program->size; ++i) {
        calls += scalar::info(call.program->nodes[static_cast<std::size_t>(i)].fn).arity > 0;
      }
      return vectors * calls * 8;  // a polynomial is 20, a sum is 1
    }
    case CallKind::kProduct:
      return vectors * call.depth * 4;
    case CallKind::kCombine: {
      std::size_t out = 0;
      for (const auto& p : call.passes) out += 2 * p.size + 12;
      return out;
    }
    case CallKind::kMove:
      break;
  }
  return vectors * 2;
}

std::vector<double> Cluster::params() const {
  std::vector<double> out;
  for (const Call& call : calls) {
    out.insert(out.end(), call.what.params.begin(), call.what.params.end());
  }
  return out;
}

std::string to_string(const Cluster& cluster) {
  std::string out = !cluster.is_loop ? "cluster\n" : cluster.is_reverse ? "loop back\n" : "loop\n";
  for (std::size_t v = 0; v < cluster.values.size(); ++v) {
    const Cluster::Value& value = cluster.values[v];
    out += fmt::format("v{} {}{} ", v, value.count, value.is_bool ? "b" : "");
  }
  for (const auto& place : cluster.loads) out += "\nload " + text_of(place);
  for (const Cluster::Call& call : cluster.calls) {
    out += fmt::format("\nv{} = {}({})", call.result, text_of(call.what),
                       fmt::join(call.operands, ", "));
    if (!call.what.params.empty()) out += fmt::format("p{}", call.what.params.size());
  }
  for (const auto& place : cluster.stores) out += "\nstore " + text_of(place);
  for (const auto& c : cluster.carried) {
    out += fmt::format("\ncarry v{} v{} {} {}", c.before, c.after, text_of(c.from), text_of(c.to));
  }
  return out;
}

void check(const Cluster& cluster) {
  std::vector<int> given(cluster.values.size(), 0);
  const auto give = [&](uint32_t v) {
    ETUDE_CHECK(v < given.size() && ++given[v] == 1, "value {} of a cluster is given twice", v);
  };
  for (const auto& place : cluster.loads) give(place.value);
  for (const auto& c : cluster.carried) give(c.before);
  for (const Cluster::Call& call : cluster.calls) {
    for (const uint32_t v : call.operands) {
      ETUDE_CHECK(v < given.size() && given[v] == 1, "value {} of a cluster is read before it is",
                  v);
    }
    give(call.result);
    check_call(cluster, call);
  }
  for (const auto& place : cluster.stores) {
    const bool is_result = std::ranges::any_of(
        cluster.calls, [&](const Cluster::Call& call) { return call.result == place.value; });
    ETUDE_CHECK(given.at(place.value) == 1 && (is_result || cluster.is_loop),
                "value {} of a cluster is stored and never given", place.value);
  }
  for (const auto& c : cluster.carried) {
    const Cluster::Value &before = cluster.values[c.before], &after = cluster.values.at(c.after);
    ETUDE_CHECK(
        given[c.after] == 1 && before.count == after.count && before.is_bool == after.is_bool,
        "value {} of a cluster is carried on as another", c.before);
  }
  for (const Cluster::Value& value : cluster.values) {
    ETUDE_CHECK(value.count >= 1 && value.count <= Cluster::kMostElements,
                "a value of a cluster has {} elements", value.count);
  }
  ETUDE_CHECK(cluster.is_loop || cluster.carried.empty(), "a cluster without steps carries values");
}

}  // namespace etude::internal
