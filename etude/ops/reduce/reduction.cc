// SPDX-License-Identifier: Apache-2.0
// Reductions over axes. Sums run along a tree that depends on shapes alone.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/reduce/reduce.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using kernels::cpu::Reduce;
using Ints = std::vector<int64_t>;

std::vector<AttrDef> axis_attrs() { return {{"axis", AttrKind::kInts, none}, {"keepdims", false}}; }

Samples axis_samples() {
  Samples samples;
  samples.calls = {{{"[2,3]"}},
                   {{"[2,3,4]"}, {{"axis", Ints{1}}}},
                   {{"[2,3,4]"}, {{"axis", Ints{0, -1}}, {"keepdims", true}}},
                   {{"[5,17]"}, {{"axis", Ints{0}}}},
                   {{"[3,70]"}, {{"axis", Ints{-1}}}},
                   {{"[]"}}};
  return samples;
}

std::vector<ErrorCase> axis_errors() {
  return {
      {{"float32[2,3]"}, "axis 2 is outside [-2, 2)", {{"axis", Ints{2}}}, ErrorCode::kOutOfRange},
      {{"float32[2,3]"}, "axis -1 is given twice", {{"axis", Ints{1, -1}}}}};
}

template <Reduce kReduce>
Types reduce_type(const TypeCall& call) {
  const Shape& shape = call.shape(0);
  const std::vector<int> axes = axes_of(call.attrs, call.rank(0));
  if constexpr (kReduce == Reduce::kMax || kReduce == Reduce::kMin) {
    ETUDE_REQUIRE(
        reduced_count(shape, axes) != 0,
        "operand 'x' of shape {} has no element along the reduced axes, and nothing is the "
        "{} of none. Check x.size() first",
        shape.to_string(), kReduce == Reduce::kMax ? "largest" : "smallest");
  }
  return {call.make(kernels::cpu::reduced_dtype(kReduce, call.dtype(0)),
                    reduced_shape(shape, axes, call.attrs.flag("keepdims")))};
}

template <Reduce kReduce>
void reduce_kernel(const PrepareCall& call) {
  kernels::cpu::prepare_reduce(call, kReduce, axes_of(call.attrs, call.shape(0).rank()));
}

// Every element of a group gets the cotangent of its sum.
Tensor spread(const Type* type, const Tensor& ct, const Attrs& attrs) {
  const Shape& shape = type->shape();
  return broadcasted(with_axes(ct, shape, axes_of(attrs, shape.rank())), shape);
}

Tensor sum_transpose(Operands in, int, const Tensor& ct, const Attrs& attrs) {
  return spread(in[0].type(), internal::cast(ct, in[0].dtype()), attrs);
}

Tensor mean_transpose(Operands in, int, const Tensor& ct, const Attrs& attrs) {
  const Shape& shape = in[0].shape();
  const auto count = static_cast<double>(reduced_count(shape, axes_of(attrs, shape.rank())));
  return spread(in[0].type(), ct / count, attrs);
}

// k tied elements share the cotangent, 1/k each; so do the operands of maximum and minimum.
Values extreme_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  const Shape& shape = x.shape();
  const std::vector<int> axes = axes_of(call.attrs, shape.rank());
  const Tensor y = with_axes(call.out[0], shape, axes);
  const Tensor ties = internal::cast(x == y, x.dtype());
  const Tensor share = with_axes(call.ct(), shape, axes) / internal::sum_to(ties, y.shape());
  return {ties * share};
}

// The product of all other elements, without dividing: zeros need no special case.
Values prod_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  const Shape& shape = x.shape();
  const std::vector<int> axes = axes_of(call.attrs, shape.rank());
  const Tensor ct = with_axes(call.ct(), shape, axes);
  std::vector<int64_t> order;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  }
  const std::size_t kept = order.size();
  order.insert(order.end(), axes.begin(), axes.end());
  std::vector<int64_t> inverse(order.size()), sizes;
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<int64_t>(i);
  for (const int64_t axis : order) sizes.push_back(shape[static_cast<int>(axis)]);
  const Tensor moved = run(op<"permute_dims">(), {&x}, {order});
  Shape flat(std::span<const int64_t>(sizes).first(kept));
  flat.push_back(reduced_count(shape, axes));
  const Tensor rows = reshaped(moved, flat);
  const auto others = [&](bool reverse) {
    const Op& product = op<"cumulative_prod">();
    return run(
        product, {&rows},
        product.attrs_by_name({{"axis", int64_t{-1}}, {"exclusive", true}, {"reverse", reverse}}));
  };
  const Tensor rest = reshaped(others(false) * others(true), Shape(sizes));
  return {ct * internal::conj(run(op<"permute_dims">(), {&rest}, {inverse}))};
}

Types sum_to_type(const TypeCall& call) {
  const Shape to(call.attrs.ints("shape"));
  const Shape& from = call.shape(0);
  bool fits = to.rank() <= from.rank() && to.is_known();
  for (int back = 1; fits && back <= to.rank(); ++back) {
    fits = to[to.rank() - back] == from[from.rank() - back] || to[to.rank() - back] == 1;
  }
  ETUDE_REQUIRE(fits,
                "operand 'x' of shape {} does not sum to shape {}: {} must broadcast to {}. Each "
                "size must stay, become 1, or go from the front",
                from.to_string(), to.to_string(), to.to_string(), from.to_string());
  return {call.make(call.dtype(0), to)};
}

void sum_to_kernel(const PrepareCall& call) {
  const Shape& from = call.shape(0);
  const Shape& to = call.out.results[0]->shape();
  std::vector<int> axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const int kept = axis - (from.rank() - to.rank());
    if (kept < 0 || (to[kept] == 1 && from[axis] != 1)) axes.push_back(axis);
  }
  kernels::cpu::prepare_reduce(call, Reduce::kSum, axes);
}

Values sum_to_batch(const BatchCall& call) {
  const Ints& to = call.attrs.ints("shape");
  const Shape sizes = batching::with_rank(Shape(to), call.rank(0));
  Values out = batching::call_again(call, {call.in[0]},
                                    {{"shape", batching::behind(call.size, sizes.sizes())}});
  return {batching::with_example_shape(out[0], Shape(to))};
}

}  // namespace

void define_reduction(Registry& r) {
  r.define({
      .name = "sum",
      .kind = Kind::kLinear,
      .doc = "Sum over the given axes, or over all. Narrow integers and bools become int32 or "
             "uint32. Half types accumulate in float32. The sum is pairwise and does not depend on "
             "the number of threads.",
      .operands = {"x"},
      .attrs = axis_attrs(),
      .dtypes = kNumeric | kBool,
      .type = reduce_type<Reduce::kSum>,
      .kernels = {.cpu = reduce_kernel<Reduce::kSum>},
      .transpose = sum_transpose,
      .batch = batching::along_axis,
      .samples = axis_samples(),
      .errors = axis_errors(),
  });
  r.define({
      .name = "mean",
      .kind = Kind::kLinear,
      .doc = "Arithmetic mean over the given axes, or over all. The mean of no elements is NaN. "
             "Integers and bools are accepted.",
      .operands = {"x"},
      .attrs = axis_attrs(),
      .dtypes = kFloatingComplex,
      .casts_integers = true,
      .type = reduce_type<Reduce::kMean>,
      .kernels = {.cpu = reduce_kernel<Reduce::kMean>},
      .transpose = mean_transpose,
      .batch = batching::along_axis,
      .samples = axis_samples(),
      .errors = axis_errors(),
  });
  r.define({
      .name = "sum_to",
      .kind = Kind::kLinear,
      .doc = "Sum over the axes that broadcasting from `shape` would add: the inverse of "
             "broadcast_to.",
      .operands = {"x"},
      .attrs = {{"shape", AttrKind::kInts}},
      .dtypes = kFloatingComplex | kInt32 | kInt64 | kUInt32 | kUInt64,
      .type = sum_to_type,
      .kernels = {.cpu = sum_to_kernel},
      .transpose = [](Operands in, int, const Tensor& ct,
                      const Attrs&) { return broadcasted(ct, in[0].shape()); },
      .batch = sum_to_batch,
      .rewrites = {{.name = "sum_to_own_shape",
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = sum_to(x, shape=[2,3])\n"
                              "  return %1"},
                   {.name = "sum_to_of_sum_to",
                    .inner = "sum_to",
                    .to = "sum_to",
                    .attrs = [](const RewriteCall& call) { return call.attrs; },
                    .dtypes = kIntegers,
                    .sample = "graph f(x: T[2,3]) -> (T[1])\n"
                              "  %1 = sum_to(x, shape=[2,1])\n"
                              "  %2 = sum_to(%1, shape=[1])\n"
                              "  return %2"}},
      .samples = {.calls = {{{"[4,3]"}, {{"shape", Ints{3}}}},
                            {{"[2,3,4]"}, {{"shape", Ints{3, 1}}}},
                            {{"[2,3]"}, {{"shape", Ints{}}}},
                            {{"[2,3]"}, {{"shape", Ints{2, 3}}}}}},
      .errors = {{{"float32[2,3]"}, "shape [2,3] does not sum to shape [2]", {{"shape", Ints{2}}}}},
  });
  r.define({
      .name = "prod",
      .doc = "Product over the given axes, or over all. The product of no elements is 1. Bools "
             "become int32.",
      .operands = {"x"},
      .attrs = axis_attrs(),
      .dtypes = kNumeric | kBool,
      .type = reduce_type<Reduce::kProd>,
      .kernels = {.cpu = reduce_kernel<Reduce::kProd>},
      .vjp = prod_vjp,
      .batch = batching::along_axis,
      .samples = axis_samples(),
      .errors = axis_errors(),
  });
  std::vector<ErrorCase> empty = axis_errors();
  empty.push_back({{"float32[2,0]"}, "has no element along the reduced axes", {{"axis", Ints{1}}}});
  r.define({
      .name = "max",
      .doc = "Largest element along the given axes, or of all. The result is NaN if an element is "
             "NaN. In derivatives, each of k equal largest elements gets 1 / k.",
      .operands = {"x"},
      .attrs = axis_attrs(),
      .dtypes = kReal,
      .type = reduce_type<Reduce::kMax>,
      .kernels = {.cpu = reduce_kernel<Reduce::kMax>},
      .vjp = extreme_vjp,
      .batch = batching::along_axis,
      .samples = axis_samples(),
      .errors = empty,
  });
  r.define({
      .name = "min",
      .doc = "Smallest element along the given axes, or of all. The result is NaN if an element is "
             "NaN. In derivatives, each of k equal smallest elements gets 1 / k.",
      .operands = {"x"},
      .attrs = axis_attrs(),
      .dtypes = kReal,
      .type = reduce_type<Reduce::kMin>,
      .kernels = {.cpu = reduce_kernel<Reduce::kMin>},
      .vjp = extreme_vjp,
      .batch = batching::along_axis,
      .samples = axis_samples(),
      .errors = empty,
  });
  r.define({
      .name = "all",
      .doc = "Whether all elements along the given axes are true (not zero). The result for no "
             "elements is true.",
      .operands = {"x"},
      .attrs = axis_attrs(),
      .type = reduce_type<Reduce::kAll>,
      .kernels = {.cpu = reduce_kernel<Reduce::kAll>},
      .batch = batching::along_axis,
      .no_derivative = kPiecewiseConstant,
      .samples = axis_samples(),
      .errors = axis_errors(),
  });
  r.define({
      .name = "any",
      .doc = "Whether any element along the given axes is true (not zero). The result for no "
             "elements is false.",
      .operands = {"x"},
      .attrs = axis_attrs(),
      .type = reduce_type<Reduce::kAny>,
      .kernels = {.cpu = reduce_kernel<Reduce::kAny>},
      .batch = batching::along_axis,
      .no_derivative = kPiecewiseConstant,
      .samples = axis_samples(),
      .errors = axis_errors(),
  });
  r.define({
      .name = "count_nonzero",
      .doc = "The number of nonzero elements along the given axes, as int64.",
      .operands = {"x"},
      .attrs = axis_attrs(),
      .type = reduce_type<Reduce::kCountNonzero>,
      .kernels = {.cpu = reduce_kernel<Reduce::kCountNonzero>},
      .batch = batching::along_axis,
      .no_derivative = kPiecewiseConstant,
      .samples = axis_samples(),
      .errors = axis_errors(),
  });
}

}  // namespace etude::ops
