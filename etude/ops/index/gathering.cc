// SPDX-License-Identifier: Apache-2.0
// Ops that pick elements by integers or masks. The gradient of take along axis 0 stays sparse.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/op/batching.h"
#include "etude/core/op/slices.h"
#include "etude/kernels/cpu/index/masks.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/index/index_batching.h"
#include "etude/ops/index/index_plan.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// x with `axis` replaced by the axes of the indices.
IndexRegion take_region(int rank, int axis) {
  IndexRegion region = IndexRegion::whole(rank);
  region.axes = {axis};
  region.at = axis;
  return region;
}

Types take_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) > 0, "operand 'x' is a scalar and has no axis to take from");
  const int axis = normalize_axis(call.attrs.integer("axis"), call.rank(0));
  const IndexRegion region = take_region(call.rank(0), axis);
  return {call.make(call.dtype(0), region_shape(region, call.shape(0), call.shape(1)))};
}

void prepare_take(const PrepareCall& call) {
  const Shape& x = call.shape(0);
  const int axis = normalize_axis(call.attrs.integer("axis"), x.rank());
  kernels::cpu::prepare_gather(
      call, plan_walk(take_region(x.rank(), axis), x, call.out.results[0]->shape(),
                      itemsize(call.dtype(0)), call.types.subspan(1)));
}

// Indices from the front, as int32 or int64 and with one axis: the indices of sparse gradients.
Tensor row_numbers(const Tensor& indices, int64_t limit) {
  return run(op<"row_numbers">(), {&indices}, {limit});
}

Tensor take_back(Operands in, int, const Tensor& ct, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  const int axis = normalize_axis(attrs.integer("axis"), x.rank());
  const Tensor& indices = in[1];
  if (axis == 0) {
    Ints sizes = {indices.size()};
    sizes.insert(sizes.end(), x.begin() + 1, x.end());
    return make_slices(
        {row_numbers(indices, x[0]), reshape(ct, sizes), x, internal::rule_call_site()});
  }
  return run(op<"take_spread">(), {&ct, &indices}, {axis, x[axis]});
}

// x as take would have seen it: the axes of the indices, from `axis` on, give way to one of `size`.
IndexRegion spread_region(const Shape& ct, const Shape& indices, const Attrs& attrs, Shape& x) {
  const int64_t given = attrs.integer("axis"), size = attrs.integer("size");
  ETUDE_REQUIRE(given >= 0 && given <= ct.rank() - indices.rank(),
                "axis {} does not fit operand 'x' of shape {} and indices of shape {}", given,
                ct.to_string(), indices.to_string());
  const auto axis = static_cast<int>(given);
  for (int a = 0; a < indices.rank(); ++a) {
    ETUDE_REQUIRE(
        ct[axis + a] == indices[a],
        "operand 'x' has shape {}, but from axis {} on it must have the shape of the indices, {}",
        ct.to_string(), axis, indices.to_string());
  }
  ETUDE_REQUIRE(size >= 0, "size is {}. Sizes are 0 or more", size);
  x = Shape(ct.sizes().first(at(axis)));
  x.push_back(size);
  for (int a = axis + indices.rank(); a < ct.rank(); ++a) x.push_back(ct[a]);
  return take_region(x.rank(), axis);
}

Types spread_type(const TypeCall& call) {
  Shape x;
  spread_region(call.shape(0), call.shape(1), call.attrs, x);
  return {call.make(call.dtype(0), x)};
}

void prepare_spread(const PrepareCall& call) {
  Shape x;
  const IndexRegion region = spread_region(call.shape(0), call.shape(1), call.attrs, x);
  kernels::cpu::prepare_spread(
      call, plan_walk(region, x, call.shape(0), itemsize(call.dtype(0)), call.types.subspan(1)));
}

DType row_dtype(DType dtype) {
  return dtype == kInt32 || dtype == kInt8 || dtype == kInt16 ? kInt32 : kInt64;
}

void prepare_row_numbers(const PrepareCall& call) {
  kernels::cpu::prepare_row_numbers(call, call.attrs.integer("limit"));
}

Values take_batch(const BatchCall& call) {
  const int axis = normalize_axis(call.attrs.integer("axis"), call.rank(0));
  if (!call.is_batched(1)) {
    return batching::call_again(call, {call.in[0], call.in[1]}, {{"axis", int64_t{axis} + 1}});
  }
  return {get_region(batching::leading(call, 0),
                     batch_region(call, take_region(call.rank(0), axis), 1))};
}

Values take_spread_batch(const BatchCall& call) {
  const int64_t axis = call.attrs.integer("axis");
  if (!call.is_batched(1)) {
    return batching::call_again(call, {call.in[0], call.in[1]}, {{"axis", axis + 1}});
  }
  Shape x;
  const IndexRegion one = spread_region(call.shape(0), call.shape(1), call.attrs, x);
  const Type* type = intern_type(call.in[0].dtype(), Shape(batching::behind(call.size, x.sizes())),
                                 call.in[0].device());
  const BatchedRegion region = batch_region(call, one, 1);
  return {update_region(internal::full(type, 0), region.value_for(call.in[0], call.is_batched(0)),
                        region, "add")};
}

Values row_numbers_batch(const BatchCall& call) {
  const Values flat = batching::call_again(call, {call.in[0]});
  return {reshape(flat[0], {call.size, -1})};
}

void define_take(Registry& r) {
  r.define({
      .name = "take",
      .kind = Kind::kLinear,
      .doc = "The slices of x at `indices` along an axis. In the result, the axes of the indices "
             "replace this axis. Negative indices count from the end. Along axis 0 the gradient is "
             "sparse.",
      .operands = {"x", {"indices", kIntegers}},
      .attrs = {{"axis", 0}},
      .type = take_type,
      .kernels = {.cpu = prepare_take},
      .transpose = take_back,
      .batch = take_batch,
      .samples = {.calls = {{{"[4,3]", "int32[2]"}, {}, {{-2, 2}, {-4, 3}}},
                            {{"[2,3]", "int64[2,2]"}, {{"axis", int64_t{1}}}, {{-2, 2}, {-3, 2}}},
                            {{"[3]", "int32[]"}, {}, {{-2, 2}, {0, 2}}},
                            {{"[2,3]", "int32[]"}, {{"axis", int64_t{1}}}, {{-2, 2}, {0, 2}}},
                            {{"[2,3]", "int8[0]"}, {}, {{-2, 2}, {0, 1}}}}},
      .errors = {{{"float32[]", "int32[1]"}, "no axis to take from"},
                 {{"float32[2]", "float32[1]"}, "operand 'indices' is float32"}},
  });
  r.define({
      .name = "take_spread",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "Zeros with `size` slices along an axis, to which those of x are added at `indices`: "
             "the transpose of take.",
      .operands = {"x", {"indices", kIntegers}},
      .attrs = {{"axis", AttrKind::kInt}, {"size", AttrKind::kInt}},
      .dtypes = kNumeric,
      .type = spread_type,
      .kernels = {.cpu = prepare_spread},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs& attrs) {
            return take(ct, in[1], {.axis = attrs.integer("axis")});
          },
      .batch = take_spread_batch,
      .samples = {.calls = {{{"[2,4]", "int32[4]"},
                             {{"axis", int64_t{1}}, {"size", int64_t{3}}},
                             {{-2, 2}, {0, 2}}}}},
      .errors = {{{"float32[2]", "int32[2]"},
                  "size is -1. Sizes are 0 or more",
                  {{"axis", int64_t{0}}, {"size", int64_t{-1}}}},
                 {{"float32[2,4]", "int32[4]"},
                  "must have the shape of the indices, [4]",
                  {{"axis", int64_t{0}}, {"size", int64_t{3}}}},
                 {{"float32[4]", "int32[4]"},
                  "axis 1099511627776 does not fit",
                  {{"axis", int64_t{1} << 40}, {"size", int64_t{3}}}}},
  });
  r.define({
      .name = "row_numbers",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc =
          "The indices flat, counted from the front of an axis of size `limit`, as int32 or int64.",
      .operands = {{"indices", kIntegers}},
      .attrs = {{"limit", AttrKind::kInt}},
      .type =
          [](const TypeCall& call) {
            return Types{call.make(row_dtype(call.dtype(0)), Shape{call.types[0]->count()})};
          },
      .kernels = {.cpu = prepare_row_numbers},
      .batch = row_numbers_batch,
      .no_derivative = "indices are integers",
      .samples = {.calls = {{{"int32[2,2]"}, {{"limit", int64_t{4}}}, {{-4, 3}}}}},
  });
}

Values nonzero_values(Operands in, const Attrs&) {
  const Shape& shape = in[0].shape();
  const std::vector<int64_t> found = kernels::cpu::nonzero_places(in[0]);
  const kernels::cpu::Strides strides = kernels::cpu::dense_strides(shape);
  Values out;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    Tensor numbers =
        internal::make_tensor(intern_type(kInt64, Shape{static_cast<int64_t>(found.size())}));
    kernels::cpu::coordinates(found, strides[at(axis)], shape[axis],
                              static_cast<int64_t*>(internal::new_host_elements(numbers)));
    out.push_back(std::move(numbers));
  }
  return out;
}

Types nonzero_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) > 0, "operand 'x' is a scalar and has no axes. Reshape it to [1]");
  Shape shape;
  shape.push_back(0);
  shape.set(0, kAny);
  Types out;
  for (int axis = 0; axis < call.rank(0); ++axis) out.push_back(call.make(kInt64, shape));
  return out;
}

void require_mask(const Shape& x, const Shape& mask) {
  bool fits = mask.rank() >= 1 && mask.rank() <= x.rank();
  for (int a = 0; fits && a < mask.rank(); ++a) fits = mask[a] == x[a];
  ETUDE_REQUIRE(fits,
                "the mask has shape {}, but operand 'x' has shape {}, which must start with it",
                mask.to_string(), x.to_string());
}

Types mask_type(const TypeCall& call) {
  require_mask(call.shape(0), call.shape(1));
  Shape shape;
  shape.push_back(0);
  shape.set(0, kAny);
  for (int a = call.rank(1); a < call.rank(0); ++a) shape.push_back(call.shape(0)[a]);
  return {call.make(call.dtype(0), shape)};
}

Values boolean_mask_values(Operands in, const Attrs&) {
  const Tensor &x = in[0], &mask = in[1];
  require_mask(x.shape(), mask.shape());
  Shape shape{kernels::cpu::count_true(mask)};
  for (int a = mask.rank(); a < x.rank(); ++a) shape.push_back(x.shape()[a]);
  Tensor out = internal::make_tensor(intern_type(x.dtype(), shape));
  kernels::cpu::take_true(mask, x, internal::new_host_elements(out));
  return {out};
}

Types unmask_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) >= 1, "operand 'x' is a scalar and has no rows");
  Shape shape = call.shape(1);
  for (int a = 1; a < call.rank(0); ++a) shape.push_back(call.shape(0)[a]);
  return {call.make(call.dtype(0), shape)};
}

Values first_only(const Tensor& x) {
  Values out(2);
  out[0] = x;
  return out;
}

void define_masks(Registry& r) {
  r.define({
      .name = "nonzero",
      .kind = Kind::kGeneral,
      .doc = "The positions of the elements that are not zero, in row-major order: one array of "
             "indices per axis.",
      .operands = {"x"},
      .results = {"indices..."},
      .type = nonzero_type,
      .data = nonzero_values,
      .no_derivative = "positions are integers",
      .samples = {.calls = {{{"[2,3]"}}, {{"[0]"}}}},
      .errors = {{{"float32[]"}, "is a scalar and has no axes"}},
  });
  r.define({
      .name = "boolean_mask",
      .kind = Kind::kGeneral,
      .doc = "The rows of x where the mask is true. The mask has the leading axes of x.",
      .operands = {"x", {"mask", kBool}},
      .type = mask_type,
      .data = boolean_mask_values,
      .vjp =
          [](const VjpCall& call) {
            return first_only(run(op<"unmask">(), {&call.ct(), &call.in[1]}));
          },
      .jvp =
          [](const JvpCall& call) {
            return Values{run(op<"boolean_mask">(), {&call.tangents[0], &call.in[1]})};
          },
      .samples = {.calls = {{{"[2,3]", "bool[2,3]"}},
                            {{"[2,3]", "bool[2]"}},
                            {{"[0,3]", "bool[0]"}}}},
      .errors = {{{"float32[2,3]", "bool[3]"},
                  "the mask has shape [3], but operand 'x' has shape [2,3]"}},
  });
  r.define({
      .name = "unmask",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Zeros with the rows of x put where the mask holds: the transpose of boolean_mask.",
      .operands = {"x", {"mask", kBool}},
      .type = unmask_type,
      .kernels = {.cpu = kernels::cpu::prepare_unmask},
      .vjp =
          [](const VjpCall& call) {
            return first_only(run(op<"boolean_mask">(), {&call.ct(), &call.in[1]}));
          },
      .jvp =
          [](const JvpCall& call) {
            return Values{run(op<"unmask">(), {&call.tangents[0], &call.in[1]})};
          },
      .samples = {.calls = {{{"[0,3]", "bool[0]"}}}},  // how many rows it needs depends on data
      .errors = {{{"float32[]", "bool[2]"}, "is a scalar and has no rows"}},
  });
}

}  // namespace

void define_gathering(Registry& r) {
  define_take(r);
  define_masks(r);
}

}  // namespace etude::ops
