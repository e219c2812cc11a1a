// SPDX-License-Identifier: Apache-2.0
// Softmax, its logarithm, and the logarithm of a sum of exponentials.
#include "etude/kernels/cpu/reduce/softmax.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

using kernels::cpu::RowFn;
using Ints = std::vector<int64_t>;

Types softmax_type(const TypeCall& call) {
  axis_of(call.attrs, call.shape(0));
  return {call.types[0]};
}

template <RowFn kFn>
void rows_kernel(const PrepareCall& call) {
  kernels::cpu::prepare_rows(call, kFn, axis_of(call.attrs, call.shape(0)));
}

Tensor row_sum(const Tensor& x, int64_t axis) { return sum(x, {.axis = axis, .keepdims = true}); }

Types softmax_gradient_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.shape(0) == call.shape(1),
                "operand 'y' has shape {} and operand 'ct' has shape {}; they must be equal",
                call.shape(0).to_string(), call.shape(1).to_string());
  return softmax_type(call);
}

// It is linear in ct and its own transpose there.
Values softmax_gradient_vjp(const VjpCall& call) {
  const Tensor &y = call.in[0], &ct = call.in[1], &a = call.ct();
  const int64_t axis = call.attrs.integer("axis");
  Values out(2);
  if (call.wants(0)) out[0] = a * (ct - row_sum(ct * y, axis)) - ct * row_sum(a * y, axis);
  if (call.wants(1)) out[1] = run(op<"softmax_gradient">(), {&y, &a}, {axis});
  return out;
}

Samples softmax_samples() {
  Samples samples;
  samples.calls = {{{"[2,3]"}},
                   {{"[3,4,5]"}, {{"axis", int64_t{1}}}},
                   {{"[4]"}, {{"axis", int64_t{0}}}},
                   {{"[2,70]"}},
                   {{"[0,3]"}}};
  return samples;
}

std::vector<ErrorCase> softmax_errors() {
  return {{{"float32[2,3]"},
           "axis 2 is outside [-2, 2)",
           {{"axis", int64_t{2}}},
           ErrorCode::kOutOfRange},
          {{"int32[2,3]"}, "operand 'x' is int32"}};
}

// The reduced axes moved to the end and made one.
Values lower_logsumexp(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const Shape& shape = x.shape();
  const std::vector<int> axes = axes_of(attrs, shape.rank());
  std::vector<int64_t> order;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  }
  const std::size_t kept = order.size();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) order.push_back(axis);
  }
  Shape rows;
  for (std::size_t i = 0; i < kept; ++i) rows.push_back(shape[static_cast<int>(order[i])]);
  rows.push_back(reduced_count(shape, axes));
  const bool moves = !std::is_sorted(order.begin(), order.end());
  const Tensor moved = moves ? run(op<"permute_dims">(), {&x}, {order}) : x;
  const Tensor flat = reshaped(moved, rows);
  const Tensor y = run(op<"logsumexp_rows">(), {&flat});
  return {reshaped(y, reduced_shape(shape, axes, attrs.flag("keepdims")))};
}

Types logsumexp_type(const TypeCall& call) {
  return {call.make(call.dtype(0), reduced_shape(call.shape(0), axes_of(call.attrs, call.rank(0)),
                                                 call.attrs.flag("keepdims")))};
}

void prepare_softmax_gradient(const PrepareCall& call) {
  kernels::cpu::prepare_softmax_gradient(call, axis_of(call.attrs, call.shape(0)));
}

void prepare_logsumexp_rows(const PrepareCall& call) {
  kernels::cpu::prepare_rows(call, RowFn::kLogSumExp, call.shape(0).rank() - 1);
}

}  // namespace

void define_softmax(Registry& r) {
  r.define({
      .name = "softmax",
      .space = "nn",
      .doc = "exp(x) divided by its sum along an axis. Computed from x - max(x), so nothing "
             "overflows.",
      .operands = {"x"},
      .attrs = {{"axis", -1}},
      .dtypes = kFloating,
      .type = softmax_type,
      .kernels = {.cpu = rows_kernel<RowFn::kSoftmax>},
      .vjp =
          [](const VjpCall& call) {
            return Values{run(op<"softmax_gradient">(), {&call.out[0], &call.ct()},
                              {call.attrs.integer("axis")})};
          },
      .batch = batching::along_axis,
      .samples = softmax_samples(),
      .errors = softmax_errors(),
  });
  r.define({
      .name = "softmax_gradient",
      .space = "internal",
      .doc = "y (ct - sum(y ct)) along an axis: the cotangent of softmax, whose value is y.",
      .operands = {"y", "ct"},
      .attrs = {{"axis", -1}},
      .dtypes = kFloating,
      .type = softmax_gradient_type,
      .kernels = {.cpu = prepare_softmax_gradient},
      .vjp = softmax_gradient_vjp,
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[2,3]", "[2,3]"}},
                            {{"[3,4,5]", "[3,4,5]"}, {{"axis", int64_t{1}}}},
                            {{"[2,70]", "[2,70]"}}},
                  .ulp = 32},
      .errors = {{{"float32[2,3]", "float32[2]"}, "they must be equal"},
                 {{"float32[2]", "float32[2]"},
                  "axis 1 is outside [-1, 1)",
                  {{"axis", int64_t{1}}},
                  ErrorCode::kOutOfRange}},
  });
  r.define({
      .name = "log_softmax",
      .space = "nn",
      .doc = "Logarithm of softmax along an axis. The softmax is not formed, so the result is "
             "finite for all finite x.",
      .operands = {"x"},
      .attrs = {{"axis", -1}},
      .dtypes = kFloating,
      .type = softmax_type,
      .kernels = {.cpu = rows_kernel<RowFn::kLogSoftmax>},
      .vjp =
          [](const VjpCall& call) {
            const Tensor& y = call.out[0];
            const int64_t axis = call.attrs.integer("axis");
            return Values{call.ct() - run(op<"exp">(), {&y}) * row_sum(call.ct(), axis)};
          },
      .batch = batching::along_axis,
      .samples = softmax_samples(),
      .errors = softmax_errors(),
  });
  r.define({
      .name = "logsumexp_rows",
      .space = "internal",
      .doc =
          "log(sum(exp(x))) along the last axis, without overflow; minus infinity of no elements.",
      .operands = {"x"},
      .dtypes = kFloating,
      .type =
          [](const TypeCall& call) {
            ETUDE_REQUIRE(call.rank(0) > 0, "operand 'x' is a scalar, but must have an axis");
            return Types{
                call.make(call.dtype(0), reduced_shape(call.shape(0), {call.rank(0) - 1}, false))};
          },
      .kernels = {.cpu = prepare_logsumexp_rows},
      .vjp =
          [](const VjpCall& call) {
            const std::vector<int> last = {call.in[0].rank() - 1};
            const Shape& shape = call.in[0].shape();
            const Tensor y = with_axes(call.out[0], shape, last),
                         ct = with_axes(call.ct(), shape, last);
            const Tensor shifted = call.in[0] - y;
            return Values{ct * run(op<"exp">(), {&shifted})};
          },
      .batch = batching::same,
      .samples = {.calls = {{{"[2,3]"}}, {{"[5]"}}, {{"[2,3,70]"}}}},
      .errors = {{{"float32[]"}, "operand 'x' is a scalar"}},
  });
  r.define({
      .name = "logsumexp",
      .kind = Kind::kComposition,
      .doc = "log(sum(exp(x))) over the given axes, or over all, without overflow.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInts, none}, {"keepdims", false}},
      .dtypes = kFloating,
      .type = logsumexp_type,
      .lower = lower_logsumexp,
      .samples = {.calls = {{{"[2,3]"}},
                            {{"[2,3,4]"}, {{"axis", Ints{0, 2}}, {"keepdims", true}}},
                            {{"[3,4]"}, {{"axis", Ints{0}}}}}},
      .errors = {{{"float32[2,3]"},
                  "axis 2 is outside [-2, 2)",
                  {{"axis", Ints{2}}},
                  ErrorCode::kOutOfRange}},
  });
}

}  // namespace etude::ops
