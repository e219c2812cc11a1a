// SPDX-License-Identifier: Apache-2.0
// Ops that read or write single elements by index arrays: along an axis, or by coordinates.
#include <algorithm>
#include <numeric>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/index/along.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/index/index_plan.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

Tensor index_get(const Tensor& x, const std::vector<Tensor>& indices, const IndexRegion& region) {
  OperandList list({&x});
  for (const Tensor& t : indices) list.add(t);
  return run(op<"index_get">(), list, region.values());
}

Values lower_scatter(Operands in, const Attrs& attrs) {
  const Tensor &x = in[0], &indices = in[1], &updates = in[2];
  ETUDE_REQUIRE(x.rank() > 0, "operand 'x' is a scalar and has no rows to write");
  IndexRegion region = IndexRegion::whole(x.rank());
  region.axes = {0};
  return {run(op<"index_update">(), {&x, &updates, &indices}, region.values(attrs.text("mode")))};
}

// 0, 1, ... along axis `axis` of `rank` axes, for the leading axes that both operands share.
Tensor counter(int64_t size, int axis, int rank) {
  Ints shape(at(rank), 1);
  shape[at(axis)] = size;
  return reshape(arange(0, {.stop = static_cast<double>(size), .dtype = kInt64}), shape);
}

Values lower_gather_nd(Operands in, const Attrs& attrs) {
  const Tensor &x = in[0], &indices = in[1];
  const int64_t batch = attrs.integer("batch_dims");
  ETUDE_REQUIRE(batch >= 0 && batch < std::min(indices.rank(), x.rank()),
                "batch_dims is {}, but operand 'x' has shape {} and the indices {}", batch,
                x.shape().to_string(), indices.shape().to_string());
  const int64_t depth = indices.shape()[indices.rank() - 1];
  ETUDE_REQUIRE(depth >= 1 && batch + depth <= x.rank(),
                "the last axis of the indices {} holds {} coordinates, but operand 'x' of shape {} "
                "has {} axes for them",
                indices.shape().to_string(), depth, x.shape().to_string(), x.rank() - batch);
  for (int a = 0; a < batch; ++a) {
    ETUDE_REQUIRE(x.shape()[a] == indices.shape()[a],
                  "axis {} is a batch axis, but has sizes {} and {}", a, x.shape()[a],
                  indices.shape()[a]);
  }
  std::vector<Tensor> arrays;
  for (int a = 0; a < batch; ++a) arrays.push_back(counter(x.shape()[a], a, indices.rank() - 1));
  for (const Tensor& t : unstack(indices, {.axis = -1})) arrays.push_back(t);
  IndexRegion region = IndexRegion::whole(x.rank());
  region.axes.resize(arrays.size());
  std::iota(region.axes.begin(), region.axes.end(), 0);
  return {index_get(x, arrays, region)};
}

// The common shape of x and the indices, except on `axis`, where it has the size of the indices.
Shape along_shape(const Shape& x, const Shape& indices, int axis) {
  Shape shape = indices;
  for (int a = 0; a < x.rank(); ++a) {
    if (a == axis) continue;
    const int64_t mine = x[a], other = indices[a];
    const bool fits = mine == other || mine == 1 || other == 1;
    ETUDE_REQUIRE(
        fits,
        "operand 'x' has shape {} and the indices {}; they must broadcast on all axes but "
        "{}",
        x.to_string(), indices.to_string(), axis);
    if (other == 1) shape.set(a, mine);
  }
  return shape;
}

Types take_along_type(const TypeCall& call) {
  const Shape &x = call.shape(0), &indices = call.shape(1);
  ETUDE_REQUIRE(x.rank() == indices.rank() && x.rank() > 0,
                "operand 'x' has shape {} and the indices {}; they must have the same number of "
                "axes, at least one",
                x.to_string(), indices.to_string());
  const int axis = normalize_axis(call.attrs.integer("axis"), x.rank());
  return {call.make(call.dtype(0), along_shape(x, indices, axis))};
}

void prepare_take_along(const PrepareCall& call) {
  const int axis = normalize_axis(call.attrs.integer("axis"), call.shape(0).rank());
  kernels::cpu::prepare_take_along(call, axis);
}

void prepare_spread_along(const PrepareCall& call) {
  const int axis = normalize_axis(call.attrs.integer("axis"), call.shape(0).rank());
  kernels::cpu::prepare_spread_along(call, axis);
}

Tensor take_along_back(Operands in, int, const Tensor& ct, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  const int axis = normalize_axis(attrs.integer("axis"), x.rank());
  const Tensor indices =
      in[1].shape() == ct.shape() ? in[1] : broadcast_to(in[1], ct.shape().to_vector());
  const Tensor spread = run(op<"spread_along_axis">(), {&ct, &indices}, {axis, x[axis]});
  return internal::sum_to(spread, x);
}

void define_along(Registry& r) {
  r.define({
      .name = "take_along_axis",
      .kind = Kind::kLinear,
      .doc = "Element [.., indices[.., j, ..], ..] of x for each element of the indices. Other "
             "axes broadcast.",
      .operands = {"x", {"indices", kIntegers}},
      .attrs = {{"axis", -1}},
      .type = take_along_type,
      .kernels = {.cpu = prepare_take_along},
      .transpose = take_along_back,
      .batch = batching::along_axis,
      .samples =
          {.calls = {{{"[2,3]", "int32[2,4]"}, {}, {{-2, 2}, {-3, 2}}},
                     {{"[3,2]", "int64[1,2]"}, {{"axis", int64_t{0}}}, {{-2, 2}, {0, 2}}},
                     {{"[2,3,1]", "int32[1,4,5]"}, {{"axis", int64_t{1}}}, {{-2, 2}, {-3, 2}}},
                     {{"[1,3]", "int32[2,0]"}, {}, {{-2, 2}, {0, 2}}}}},
      .errors = {{{"float32[2,3]", "int32[3]"}, "the same number of axes"},
                 {{"float32[2,3]", "int32[3,1]"}, "they must broadcast on all axes but 1"}},
  });
  r.define({
      .name = "spread_along_axis",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "Zeros of the given size along an axis, to which x is added at the indices: the "
             "transpose of "
             "take_along_axis.",
      .operands = {"x", {"indices", kIntegers}},
      .attrs = {{"axis", AttrKind::kInt}, {"size", AttrKind::kInt}},
      .dtypes = kNumeric,
      .type =
          [](const TypeCall& call) {
            Shape shape = call.shape(0);
            const int64_t size = call.attrs.integer("size");
            ETUDE_REQUIRE(shape == call.shape(1), "operand 'x' has shape {} and the indices {}",
                          shape.to_string(), call.shape(1).to_string());
            ETUDE_REQUIRE(size >= 0, "size is {}. Sizes are 0 or more", size);
            shape.set(normalize_axis(call.attrs.integer("axis"), shape.rank()), size);
            return Types{call.make(call.dtype(0), shape)};
          },
      .kernels = {.cpu = prepare_spread_along},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs& attrs) {
            return take_along_axis(ct, in[1], {.axis = attrs.integer("axis")});
          },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[2,4]", "int32[2,4]"},
                             {{"axis", int64_t{1}}, {"size", int64_t{3}}},
                             {{-2, 2}, {0, 2}}}}},
      .errors = {{{"float32[2]", "int32[3]"},
                  "and the indices [3]",
                  {{"axis", int64_t{0}}, {"size", int64_t{3}}}},
                 {{"float32[2]", "int32[2]"},
                  "size is -1. Sizes are 0 or more",
                  {{"axis", int64_t{0}}, {"size", int64_t{-1}}}}},
  });
}

}  // namespace

void define_scattering(Registry& r) {
  r.define({
      .name = "scatter",
      .kind = Kind::kComposition,
      .doc = "x with updated rows: row indices[i] is set to updates[i], or combined with "
             "updates[i]. Repeated indices are applied in order, so set keeps the last update. "
             "mode: set, add, mul, min or max.",
      .operands = {"x", {"indices", kIntegers}, "updates"},
      .attrs = {{"mode", "set"}},
      .lower = lower_scatter,
      .samples = {.calls = {{{"[4,3]", "int32[2]", "[2,3]"}, {}, {{-2, 2}, {-4, 3}, {-2, 2}}}}},
      .errors = {{{"float32[4,3]", "int32[2]", "float32[2,2]"}, "sizes 2 and 3 on axis -1"},
                 {{"float32[]", "int32[2]", "float32[2]"}, "has no rows to write"}},
  });
  r.define({
      .name = "gather_nd",
      .kind = Kind::kComposition,
      .doc = "The parts of x at coordinates. The last axis of the indices holds positions on the "
             "first axes of x. If batch_dims is given, x and the indices share that many leading "
             "axes, and the positions are on the axes after these.",
      .operands = {"x", {"indices", kIntegers}},
      .attrs = {{"batch_dims", 0}},
      .lower = lower_gather_nd,
      .samples =
          {.calls = {{{"[3,4,2]", "int32[5,2]"}, {}, {{-2, 2}, {-3, 2}}},
                     {{"[2,3]", "int64[2,2,1]"}, {{"batch_dims", int64_t{1}}}, {{-2, 2}, {0, 2}}}}},
      .errors = {{{"float32[3]", "int32[2,2]"},
                  "holds 2 coordinates, but operand 'x' of shape [3] has 1 axes"}},
  });
  define_along(r);
}

}  // namespace etude::ops
