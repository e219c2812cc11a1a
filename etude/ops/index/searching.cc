// SPDX-License-Identifier: Apache-2.0
// Counting and searching by value.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/index/gather.h"
#include "etude/kernels/cpu/index/sorting.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

Types search_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) == 1, "operand 'sorted' has shape {}, but must have one axis",
                call.shape(0).to_string());
  const std::string& side = call.attrs.text("side");
  ETUDE_REQUIRE(side == "left" || side == "right", "side is \"{}\", but must be left or right",
                side);
  return {call.make(kInt64, call.shape(1))};
}

void prepare_search(const PrepareCall& call) {
  kernels::cpu::prepare_search(call, call.attrs.text("side") == "right");
}

// Only where all examples search in one array.
Values search_batch(const BatchCall& call) {
  if (call.is_batched(0)) return {};
  return batching::call_again(call, {call.in[0], call.in[1]});
}

Types bincount_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) == 1, "operand 'x' has shape {}, but must have one axis",
                call.shape(0).to_string());
  ETUDE_REQUIRE(!call.has(1) || call.shape(1) == call.shape(0),
                "weights have shape {} and operand 'x' {}",
                call.has(1) ? call.shape(1).to_string() : "", call.shape(0).to_string());
  Shape shape{0};
  shape.set(0, kAny);
  return {call.make(call.has(1) ? call.dtype(1) : kInt64, shape)};
}

Values bincount_values(Operands in, const Attrs& attrs) {
  const Type* types[] = {in[0].type(), in.has(1) ? in[1].type() : nullptr};
  bincount_type({op<"bincount">(), types, attrs});
  int64_t bins = attrs.integer("minlength");
  ETUDE_REQUIRE(bins >= 0, "minlength is {}. It is 0 or more", bins);
  const auto [least, largest] = kernels::cpu::integer_range(in[0]);
  ETUDE_REQUIRE(least >= 0 && largest < kMaxCount,
                "operand 'x' holds {}, but bins are counted from 0", least < 0 ? least : largest);
  bins = std::max(bins, largest + 1);
  const Tensor weights = in.has(1) ? in[1] : internal::full(intern_type(kInt64, in[0].shape()), 1);
  return {segment_sum(weights, in[0], bins)};
}

Values bincount_vjp(const VjpCall& call) {
  Values out(call.in.size());
  if (call.in.size() < 2 || !call.wants(1)) return out;
  out[1] = run(op<"segment_rows">(), {&call.ct(), &call.in[0]});
  return out;
}

}  // namespace

void define_searching(Registry& r) {
  r.define({
      .name = "searchsorted",
      .kind = Kind::kGeneral,
      .doc = "The position at which each element of x would be inserted into the ascending "
             "array `sorted`: before equal elements (left) or after them (right). NaN goes "
             "last.",
      .operands = {"sorted", "x"},
      .attrs = {{"side", "left"}},
      .dtypes = kReal,
      .type = search_type,
      .kernels = {.cpu = prepare_search},
      .batch = search_batch,
      .no_derivative = "positions are integers",
      .samples = {.calls = {{{"[1]", "[2,3]"}},
                            {{"[1]", "[2]"}, {{"side", std::string("right")}}},
                            {{"[0]", "[2]"}}}},
      .errors = {{{"float32[2,2]", "float32[2]"}, "operand 'sorted' has shape [2,2]"},
                 {{"float32[2]", "float32[2]"},
                  "must be left or right",
                  {{"side", std::string("up")}}}},
  });
  r.define({
      .name = "bincount",
      .kind = Kind::kGeneral,
      .doc = "The number of occurrences of each of 0, 1, 2, ... in x, or the sum of their weights. "
             "The result has at least `minlength` bins.",
      .operands = {{"x", kIntegers}, {"weights?", kNumeric}},
      .attrs = {{"minlength", 0}},
      .type = bincount_type,
      .data = bincount_values,
      .vjp = bincount_vjp,
      .samples =
          {.calls = {{{"int32[5]", "-"}, {}, {{0, 4}}},
                     {{"int64[4]", "float64[4]"}, {{"minlength", int64_t{6}}}, {{0, 3}, {-2, 2}}}}},
      .errors = {{{"int32[2]", "float32[3]"}, "weights have shape [3] and operand 'x' [2]"},
                 {{"int32[2,2]", "-"}, "must have one axis"}},
  });
}

}  // namespace etude::ops
