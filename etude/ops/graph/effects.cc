// SPDX-License-Identifier: Apache-2.0
// Calls that the world sees: print and assert_true. Their result holds nothing; a record has one so
// that nodes of graphs have a value to be known by.
#include "etude/stage/effects.h"

#include <cstring>
#include <exception>

#include "etude/base/check.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/op/batching.h"
#include "etude/core/print.h"
#include "etude/ops/families.h"
#include "etude/ops/graph/graph_attrs.h"

namespace etude::ops {
namespace {

// The first axes of all operands are examples of vmaps, the outermost first.
struct EffectParams : KernelParams {
  std::string text;
  std::vector<int64_t> examples;   // how many along each such axis
  int64_t count = 1;               // of all examples
  std::vector<const Type*> types;  // of one example
};

std::size_t example_axes(const Attrs& attrs) {
  return static_cast<std::size_t>(attrs.integer("examples"));
}

Types effect_type(const TypeCall& call) {
  const std::size_t axes = example_axes(call.attrs);
  ETUDE_REQUIRE(axes == 0 || !call.types.empty(), "has examples of nothing");
  std::vector<int64_t> sizes;
  for (std::size_t i = 0; i < call.types.size(); ++i) {
    const auto own = call.shape(i).sizes();
    ETUDE_REQUIRE(own.size() >= axes, "operand {} has {} axes, but {} hold examples", i, own.size(),
                  axes);
    if (i == 0) sizes.assign(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(axes));
    ETUDE_REQUIRE(std::ranges::equal(own.first(axes), sizes),
                  "operands 0 and {} have other numbers of examples", i);
  }
  sizes.push_back(0);
  return {
      intern_type(kBool, Shape(sizes), call.types.empty() ? Device() : call.types[0]->device())};
}

internal::RefPtr<EffectParams> effect_params(const PrepareCall& call, const std::string& text) {
  auto params = internal::make_ref<EffectParams>();
  params->text = text;
  const std::size_t axes = example_axes(call.attrs);
  for (const Type* type : call.types) {
    const auto sizes = type->shape().sizes();
    if (params->types.empty()) {
      params->examples.assign(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(axes));
      for (const int64_t n : params->examples) params->count *= n;
    }
    params->types.push_back(intern_type(type->dtype(), Shape(sizes.subspan(axes)), type->device()));
  }
  return params;
}

// The text with elements of example `i` in the place of each "{}".
std::string line_of(const EffectParams& p, const void* const* in, int64_t i) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < p.text.size(); ++at) {
    const char c = p.text[at];
    out += c;
    if (c != '{' && c != '}') continue;
    const bool is_place = c == '{' && p.text[++at] == '}';
    if (!is_place) {
      at += c == '}' ? 1 : 0;  // the second of two
      continue;
    }
    out.pop_back();
    const Type* type = p.types[next];
    const Tensor x = internal::make_tensor(type);
    const auto bytes = static_cast<std::size_t>(type->bytes());
    if (bytes > 0) {
      std::memcpy(internal::new_host_elements(x),
                  static_cast<const char*>(in[next]) + static_cast<std::size_t>(i) * bytes, bytes);
    }
    out += internal::elements_text(x);
    ++next;
  }
  return out;
}

bool run_print(const KernelCall& call) {
  const auto& p = *static_cast<const EffectParams*>(call.params);
  return guarded([&] {
    try {
      for (int64_t i = 0; i < p.count; ++i) internal::print_line(line_of(p, call.in, i));
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      return report_fault(ErrorCode::kUnavailable,
                          std::string("the print sink threw: ") + error.what());
    }
    return true;
  });
}

// Whether `text` has a "{}" for each operand, and no other single brace.
bool has_places(std::string_view text, std::size_t operands) {
  std::size_t places = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{' && text[at] != '}') continue;
    if (at + 1 == text.size()) return false;
    if (text[at] == '{' && text[at + 1] == '}') {
      ++places;
    } else if (text[at + 1] != text[at]) {
      return false;
    }
    ++at;
  }
  return places == operands;
}

Types print_type(const TypeCall& call) {
  ETUDE_REQUIRE(has_places(call.attrs.text("text"), call.types.size()),
                "text \"{}\" must have a {{}} for each of {} operands, and other braces doubled",
                call.attrs.text("text"), call.types.size());
  return effect_type(call);
}

bool run_assert(const KernelCall& call) {
  const auto& p = *static_cast<const EffectParams*>(call.params);
  const int64_t own = p.types[0]->count();
  const auto* bools = static_cast<const uint8_t*>(call.in[0]);
  const auto* end = bools + p.count * own;
  const auto* found = std::find(bools, end, uint8_t{0});
  if (found == end) return true;
  return guarded([&] {
    const int64_t at = found - bools;
    const auto index = [](int64_t flat, std::span<const int64_t> sizes) {
      std::vector<int64_t> out(sizes.size());
      for (std::size_t axis = sizes.size(); axis-- > 0; flat /= sizes[axis]) {
        out[axis] = flat % sizes[axis];
      }
      return fmt::format("{}", fmt::join(out, ", "));
    };
    std::string what = "the condition is false";
    if (p.types[0]->shape().rank() > 0) {
      what = fmt::format("element [{}] of the condition is false",
                         index(at % own, p.types[0]->shape().sizes()));
    }
    if (!p.examples.empty()) what += fmt::format(" in example {}", index(at / own, p.examples));
    return report_fault(ErrorCode::kFailedPrecondition, p.text + ": " + what);
  });
}

Values effect_batch(const BatchCall& call) {
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < call.in.size(); ++i) operands.push_back(batching::leading(call, i));
  return batching::call_again(call, operands, {{"examples", call.attrs.integer("examples") + 1}});
}

void prepare_print(const PrepareCall& call) {
  call.set(run_print, effect_params(call, call.attrs.text("text")));
}

void prepare_assert_true(const PrepareCall& call) {
  call.set(run_assert, effect_params(call, call.attrs.text("message")));
}

}  // namespace

void define_effects(Registry& r) {
  r.define({
      .name = "print",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Writes a line: a text with operands in the place of each {}.",
      .operands = {{"xs...@host", kAnyDType}},
      .attrs = {{"text", AttrKind::kText}, {"examples", 0}},
      .type = print_type,
      .kernels = {.cpu = prepare_print},
      .batch = effect_batch,
      .effect = Effect::kOutside,
      .no_derivative = "a line that was written is no number",
  });
  r.define({
      .name = "assert_true",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Fails unless all elements are true.",
      .operands = {{"condition@host", kBool}},
      .attrs = {{"message", AttrKind::kText}, {"examples", 0}},
      .type = effect_type,
      .kernels = {.cpu = prepare_assert_true},
      .batch = effect_batch,
      .effect = Effect::kOutside,
      .no_derivative = "that a condition holds is no number",
  });
}

}  // namespace etude::ops
