// SPDX-License-Identifier: Apache-2.0
// Ops that change the shape or the order of elements. Results in the same order share storage.
#include <algorithm>
#include <numeric>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/elementwise/broadcast.h"
#include "etude/kernels/cpu/index/copy.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

void share(const PrepareCall& call) { call.view(0); }

Tensor reshape_back(Operands in, int, const Tensor& ct, const Attrs&) {
  return reshape(ct, in[0].shape());
}

Types reshape_type(const TypeCall& call) {
  const Ints& sizes = call.attrs.ints("shape");
  const int64_t count = call.types[0]->count();
  int64_t known = 1, open = -1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ETUDE_REQUIRE(sizes[i] >= -1, "size {} of axis {} is negative. One size may be -1", sizes[i],
                  i);
    ETUDE_REQUIRE(sizes[i] >= 0 || open < 0,
                  "axes {} and {} are both -1. Only one size can be found", open, i);
    if (sizes[i] < 0) open = static_cast<int64_t>(i);
    ETUDE_REQUIRE(sizes[i] <= kMaxCount / std::max<int64_t>(known, 1),
                  "the sizes multiply to more than 2^48, but operand 'x' has {} elements", count);
    if (sizes[i] >= 0) known *= sizes[i];
  }
  Shape shape(sizes);
  if (open >= 0 && known > 0 && count % known == 0)
    shape.set(static_cast<int>(open), count / known);
  ETUDE_REQUIRE(
      shape.is_known() && shape.count() == count,
      "cannot view {} elements as [{}]: operand 'x' has shape {}. The sizes must multiply to {}",
      count, fmt::join(sizes, ","), call.shape(0).to_string(), count);
  return {call.make(call.dtype(0), shape)};
}

// For rules: a view of the result's shape.
Attrs reshape_attrs(const RewriteCall& call) {
  return op<"reshape">().attrs({call.result->shape().to_vector()});
}

Types expand_dims_type(const TypeCall& call) {
  const Ints& given = call.attrs.ints("axis");
  const int rank = call.rank(0) + static_cast<int>(given.size());
  const std::vector<int> axes = normalize_axes(given, rank);
  Shape shape;
  for (int axis = 0, from = 0; axis < rank; ++axis) {
    const bool is_new = std::find(axes.begin(), axes.end(), axis) != axes.end();
    shape.push_back(is_new ? 1 : call.shape(0)[from++]);
  }
  return {call.make(call.dtype(0), shape)};
}

Types squeeze_type(const TypeCall& call) {
  const std::vector<int> axes = normalize_axes(call.attrs.ints("axis"), call.rank(0));
  Shape shape;
  for (int axis = 0; axis < call.rank(0); ++axis) {
    const bool goes = std::find(axes.begin(), axes.end(), axis) != axes.end();
    const int64_t size = call.shape(0)[axis];
    ETUDE_REQUIRE(!goes || size == 1,
                  "axis {} of shape {} has size {}, but only axes of size 1 can be squeezed", axis,
                  call.shape(0).to_string(), size);
    if (!goes) shape.push_back(size);
  }
  return {call.make(call.dtype(0), shape)};
}

std::vector<int> permutation(const Ints& given, int rank) {
  ETUDE_REQUIRE(static_cast<int>(given.size()) == rank,
                "axes has {} entries, but operand 'x' has rank {}. Give each axis once",
                given.size(), rank);
  return normalize_axes(given, rank);
}

Types permute_type(const TypeCall& call) {
  Shape shape;
  for (const int axis : permutation(call.attrs.ints("axes"), call.rank(0))) {
    shape.push_back(call.shape(0)[axis]);
  }
  return {call.make(call.dtype(0), shape)};
}

// The dense result whose axis i walks the operand with from[i].
void prepare_strided(const PrepareCall& call, const Ints& from, int64_t offset) {
  const Shape& shape = call.out.results[0]->shape();
  const kernels::cpu::Strides to = kernels::cpu::dense_strides(shape);
  const int64_t item = itemsize(call.dtype(0));
  kernels::cpu::prepare_copy(call, kernels::cpu::plan_copy(shape.sizes(), from, to, item),
                             offset * item);
}

// Whether only axes of size 1 change places.
bool is_in_order(const Attrs& attrs, const Shape& shape) {
  int last = -1;
  for (const int axis : permutation(attrs.ints("axes"), shape.rank())) {
    if (shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}
bool keeps_order(const RewriteCall& call) {
  return is_in_order(call.attrs, call.types[0]->shape());
}

// Axis i of x[inner][outer] is axis inner[outer[i]] of x.
Attrs permute_both(const RewriteCall& call) {
  const int rank = call.source->rank();
  const std::vector<int> inner = permutation(call.inner->ints("axes"), rank);
  Ints axes;
  for (const int axis : permutation(call.attrs.ints("axes"), rank)) axes.push_back(inner[at(axis)]);
  return call.op.attrs({axes});
}

void prepare_permute(const PrepareCall& call) {
  if (is_in_order(call.attrs, call.shape(0))) return call.view(0);
  const kernels::cpu::Strides dense = kernels::cpu::dense_strides(call.shape(0));
  Ints from;
  for (const int axis : permutation(call.attrs.ints("axes"), call.shape(0).rank())) {
    from.push_back(dense[at(axis)]);
  }
  prepare_strided(call, from, 0);
}

Tensor permute_back(Operands, int, const Tensor& ct, const Attrs& attrs) {
  const Ints& axes = attrs.ints("axes");
  const auto rank = static_cast<int>(axes.size());
  Ints inverse(axes.size());
  for (int i = 0; i < rank; ++i) inverse[at(normalize_axis(axes[at(i)], rank))] = i;
  return permute_dims(ct, inverse);
}

Types flip_type(const TypeCall& call) {
  axes_of(call.attrs, call.rank(0));
  return same_type(call);
}

void prepare_flip(const PrepareCall& call) {
  const Shape& shape = call.shape(0);
  const kernels::cpu::Strides dense = kernels::cpu::dense_strides(shape);
  Ints from(dense.begin(), dense.begin() + shape.rank());
  int64_t offset = 0;
  for (const int axis : axes_of(call.attrs, shape.rank())) {
    offset += std::max<int64_t>(shape[axis] - 1, 0) * dense[at(axis)];
    from[at(axis)] = -dense[at(axis)];
  }
  prepare_strided(call, from, offset);
}

Types broadcast_type(const TypeCall& call) {
  const Shape shape = shape_of(call.attrs, "shape");
  ETUDE_REQUIRE(
      broadcast(call.shape(0), shape) == shape,
      "operand 'x' of shape {} does not broadcast to {}. Axes of size 1 repeat and axes are "
      "added in front",
      call.shape(0).to_string(), shape.to_string());
  return {call.make(call.dtype(0), shape)};
}

// Moves the axes of `source` to `destination`.
Values lower_moveaxis(Operands in, const Attrs& attrs) {
  const int rank = in[0].rank();
  const std::vector<int> from = normalize_axes(attrs.ints("source"), rank);
  const std::vector<int> to = normalize_axes(attrs.ints("destination"), rank);
  ETUDE_REQUIRE(from.size() == to.size(), "source has {} axes and destination {}. Give as many",
                from.size(), to.size());
  Ints axes(at(rank), -1);
  for (std::size_t i = 0; i < from.size(); ++i) axes[at(to[i])] = from[i];
  int next = 0;
  for (int64_t& axis : axes) {
    if (axis >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    axis = next++;
  }
  return {permute_dims(in[0], axes)};
}

Values lower_swapaxes(Operands in, const Attrs& attrs) {
  const int rank = in[0].rank();
  Ints axes(at(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[at(normalize_axis(attrs.integer("axis1"), rank))],
            axes[at(normalize_axis(attrs.integer("axis2"), rank))]);
  return {permute_dims(in[0], axes)};
}

Values lower_matrix_transpose(Operands in, const Attrs&) {
  ETUDE_REQUIRE(in[0].rank() >= 2, "operand 'x' has shape {}, but a matrix needs two axes",
                in[0].shape().to_string());
  return {swapaxes(in[0], -1, -2)};
}

Values lower_flatten(Operands in, const Attrs& attrs) {
  const Shape& shape = in[0].shape();
  if (shape.is_scalar()) return {reshape(in[0], Ints{1})};
  const int start = normalize_axis(attrs.integer("start"), shape.rank());
  const int end = normalize_axis(attrs.integer("end"), shape.rank());
  ETUDE_REQUIRE(start <= end,
                "start is axis {} and end is axis {} of shape {}. start must not be after end",
                start, end, shape.to_string());
  Ints sizes;
  int64_t merged = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool inside = axis >= start && axis <= end;
    merged = inside ? merged * shape[axis] : 1;
    if (!inside || axis == end) sizes.push_back(inside ? merged : shape[axis]);
  }
  return {reshape(in[0], sizes)};
}

Values lower_broadcast_arrays(Operands in, const Attrs&) {
  Shape shape;
  for (std::size_t i = 0; i < in.size(); ++i) shape = broadcast(shape, in[i].shape());
  Values out;
  for (std::size_t i = 0; i < in.size(); ++i) out.push_back(broadcast_to(in[i], shape));
  return out;
}

// Each axis of x becomes a pair (copies, size) or (size, copies), which broadcasts and merges.
Tensor repeat_axes(const Tensor& x, const Ints& copies, bool copies_first) {
  Ints apart, wide, merged;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t size = x.shape()[axis], n = copies[at(axis)];
    ETUDE_REQUIRE(n >= 0, "axis {} is repeated {} times. Numbers of copies are 0 or more", axis, n);
    ETUDE_REQUIRE(n <= kMaxCount / std::max<int64_t>(size, 1),
                  "axis {} of size {} is repeated {} times, which makes more than 2^48 elements. "
                  "Use fewer copies",
                  axis, size, n);
    merged.push_back(size * n);
    if (n != 1 && copies_first) apart.push_back(1), wide.push_back(n);
    apart.push_back(size), wide.push_back(size);
    if (n != 1 && !copies_first) apart.push_back(1), wide.push_back(n);
  }
  return reshape(broadcast_to(reshape(x, apart), wide), merged);
}

Values lower_tile(Operands in, const Attrs& attrs) {
  Ints copies = attrs.ints("repetitions");
  Ints sizes = in[0].shape().to_vector();
  if (copies.size() < sizes.size()) copies.insert(copies.begin(), sizes.size() - copies.size(), 1);
  if (sizes.size() < copies.size()) sizes.insert(sizes.begin(), copies.size() - sizes.size(), 1);
  return {repeat_axes(reshape(in[0], sizes), copies, true)};
}

Values lower_repeat(Operands in, const Attrs& attrs) {
  const bool flat = !attrs.has("axis");
  const Tensor x = flat ? reshape(in[0], Ints{in[0].size()}) : in[0];
  Ints axis = flat ? Ints{0} : attrs.ints("axis");
  ETUDE_REQUIRE(axis.size() == 1, "axis has {} entries, but one axis is repeated", axis.size());
  Ints copies(at(x.rank()), 1);
  copies[at(normalize_axis(axis[0], x.rank()))] = attrs.integer("n");
  return {repeat_axes(x, copies, false)};
}

// For ops whose attribute is the shape of the result.
Values reshape_batch(const BatchCall& call) {
  const Ints& shape = call.attrs.ints("shape");
  return batching::call_again(call, {call.in[0]}, {{"shape", batching::behind(call.size, shape)}});
}

Values broadcast_batch(const BatchCall& call) {
  const Ints& shape = call.attrs.ints("shape");
  const Shape own = batching::with_rank(call.shape(0), static_cast<int>(shape.size()));
  return batching::call_again(call, {batching::with_example_shape(call.in[0], own)},
                              {{"shape", batching::behind(call.size, shape)}});
}

Values permute_batch(const BatchCall& call) {
  Ints axes = {0};
  for (const int axis : permutation(call.attrs.ints("axes"), call.rank(0)))
    axes.push_back(axis + 1);
  return batching::call_again(call, {call.in[0]}, {{"axes", axes}});
}

void define_views(Registry& r) {
  r.define({
      .name = "reshape",
      .kind = Kind::kLinear,
      .doc = "The elements of x in row-major order with another shape. One size may be -1. Shares "
             "storage until a write.",
      .operands = {"x"},
      .attrs = {{"shape", AttrKind::kInts}},
      .type = reshape_type,
      .kernels = {.cpu = share},
      .transpose = reshape_back,
      .batch = reshape_batch,
      .is_cheap = true,
      .rewrites = {{.name = "reshape_to_own_shape",
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = reshape(x, shape=[2,-1])\n"
                              "  return %1"},
                   {.name = "reshape_of_reshape",
                    .inner = "reshape",
                    .to = "reshape",
                    .attrs = reshape_attrs,
                    .sample = "graph f(x: T[2,3]) -> (T[3,2])\n"
                              "  %1 = reshape(x, shape=[6])\n"
                              "  %2 = reshape(%1, shape=[3,2])\n"
                              "  return %2"}},
      .samples = {.calls = {{{"[2,3]"}, {{"shape", Ints{3, -1}}}},
                            {{"[0,3]"}, {{"shape", Ints{3, 0}}}},
                            {{"[]"}, {{"shape", Ints{1, 1}}}}}},
      .errors = {{{"float32[2,3]"}, "cannot view 6 elements as [4]", {{"shape", Ints{4}}}},
                 {{"float32[2,3]"}, "Only one size can be found", {{"shape", Ints{-1, -1}}}},
                 {{"float32[2,3]"}, "size -2 of axis 0 is negative", {{"shape", Ints{-2, 3}}}}},
  });
  r.define({
      .name = "expand_dims",
      .kind = Kind::kLinear,
      .doc = "x with new axes of size 1. `axis` numbers the new axes in the result. Shares storage "
             "until a write.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInts}},
      .type = expand_dims_type,
      .kernels = {.cpu = share},
      .transpose = reshape_back,
      .batch = batching::along_new_axis,
      .is_cheap = true,
      .rewrites = {{.name = "expand_dims_is_reshape",
                    .to = "reshape",
                    .attrs = reshape_attrs,
                    .sample = "graph f(x: T[2,3]) -> (T[2,1,3])\n"
                              "  %1 = expand_dims(x, axis=[1])\n"
                              "  return %1"}},
      .samples = {.calls = {{{"[2,3]"}, {{"axis", Ints{1}}}}, {{"[3]"}, {{"axis", Ints{0, -1}}}}}},
      .errors = {{{"float32[2]"}, "axis 3", {{"axis", Ints{3}}}, ErrorCode::kOutOfRange}},
  });
  r.define({
      .name = "squeeze",
      .kind = Kind::kLinear,
      .doc = "x without the given axes, which must have size 1. Shares storage until a write.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInts}},
      .type = squeeze_type,
      .kernels = {.cpu = share},
      .transpose = reshape_back,
      .batch = batching::along_axis,
      .is_cheap = true,
      .rewrites = {{.name = "squeeze_is_reshape",
                    .to = "reshape",
                    .attrs = reshape_attrs,
                    .sample = "graph f(x: T[2,1,3]) -> (T[2,3])\n"
                              "  %1 = squeeze(x, axis=[1])\n"
                              "  return %1"}},
      .samples = {.calls = {{{"[2,1,3]"}, {{"axis", Ints{1}}}},
                            {{"[1,2,1]"}, {{"axis", Ints{0, -1}}}}}},
      .errors = {{{"float32[2,3]"}, "only axes of size 1 can be squeezed", {{"axis", Ints{0}}}}},
  });
  r.define({
      .name = "flatten",
      .kind = Kind::kComposition,
      .doc = "x with the axes from `start` to `end` merged into one. Shares storage until a write.",
      .operands = {"x"},
      .attrs = {{"start", 0}, {"end", -1}},
      .lower = lower_flatten,
      .samples = {.calls = {{{"[2,3,2]"}}, {{"[2,3,2]"}, {{"start", int64_t{1}}}}, {{"[]"}}}},
      .errors = {{{"float32[2,3]"},
                  "start must not be after end",
                  {{"start", int64_t{1}}, {"end", int64_t{0}}}}},
  });
}

void define_orders(Registry& r) {
  r.define({
      .name = "permute_dims",
      .kind = Kind::kLinear,
      .doc = "x with its axes in the order `axes`: axis i of the result is axis axes[i] of x.",
      .operands = {"x"},
      .attrs = {{"axes", AttrKind::kInts}},
      .type = permute_type,
      .kernels = {.cpu = prepare_permute},
      .transpose = permute_back,
      .batch = permute_batch,
      .is_cheap = true,
      .rewrites = {{.name = "permute_that_keeps_order",
                    .when = keeps_order,
                    .to = "reshape",
                    .attrs = reshape_attrs,
                    .sample = "graph f(x: T[2,3,1]) -> (T[2,1,3])\n"
                              "  %1 = permute_dims(x, axes=[0,2,1])\n"
                              "  return %1"},
                   {.name = "permute_of_permute",
                    .inner = "permute_dims",
                    .to = "permute_dims",
                    .attrs = permute_both,
                    .sample = "graph f(x: T[2,3,4]) -> (T[3,4,2])\n"
                              "  %1 = permute_dims(x, axes=[2,0,1])\n"
                              "  %2 = permute_dims(%1, axes=[2,0,1])\n"
                              "  return %2"}},
      .samples = {.calls = {{{"[2,3]"}, {{"axes", Ints{1, 0}}}},
                            {{"[2,1,3,2]"}, {{"axes", Ints{-1, 0, 2, 1}}}},
                            {{"[2,0]"}, {{"axes", Ints{1, 0}}}}}},
      .errors = {{{"float32[2,3]"},
                  "axes has 1 entries, but operand 'x' has rank 2",
                  {{"axes", Ints{0}}}},
                 {{"float32[2,3]"}, "axis", {{"axes", Ints{0, 0}}}}},
  });
  r.define({
      .name = "matrix_transpose",
      .kind = Kind::kComposition,
      .doc = "x with its last two axes swapped.",
      .operands = {"x"},
      .lower = lower_matrix_transpose,
      .samples = {.calls = {{{"[2,3]"}}, {{"[2,3,4]"}}}},
      .errors = {{{"float32[3]"}, "a matrix needs two axes"}},
  });
  r.define({
      .name = "moveaxis",
      .kind = Kind::kComposition,
      .doc = "x with the axes `source` moved to the places `destination`. The other axes keep "
             "their order.",
      .operands = {"x"},
      .attrs = {{"source", AttrKind::kInts}, {"destination", AttrKind::kInts}},
      .lower = lower_moveaxis,
      .samples = {.calls = {{{"[2,3,4]"}, {{"source", Ints{0}}, {"destination", Ints{-1}}}}}},
      .errors = {{{"float32[2,3]"},
                  "source has 1 axes and destination 2",
                  {{"source", Ints{0}}, {"destination", Ints{0, 1}}}}},
  });
  r.define({
      .name = "swapaxes",
      .kind = Kind::kComposition,
      .doc = "x with two axes swapped.",
      .operands = {"x"},
      .attrs = {{"axis1", AttrKind::kInt}, {"axis2", AttrKind::kInt}},
      .lower = lower_swapaxes,
      .samples = {.calls = {{{"[2,3,4]"}, {{"axis1", int64_t{0}}, {"axis2", int64_t{-1}}}}}},
      .errors = {{{"float32[2]"},
                  "axis 1",
                  {{"axis1", int64_t{0}}, {"axis2", int64_t{1}}},
                  ErrorCode::kOutOfRange}},
  });
  r.define({
      .name = "flip",
      .kind = Kind::kLinear,
      .doc = "x with the order of elements reversed along the given axes, by default along all.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInts, none}},
      .type = flip_type,
      .kernels = {.cpu = prepare_flip},
      .transpose =
          [](Operands, int, const Tensor& ct, const Attrs& attrs) {
            return attrs.has("axis") ? flip(ct, {.axis = attrs.ints("axis")}) : flip(ct);
          },
      .batch = batching::along_axis,
      .rewrites = {{.name = "flip_of_flip",
                    .inner = "flip",
                    .when = [](const RewriteCall& call) { return call.attrs == *call.inner; },
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = flip(x, axis=[0])\n"
                              "  %2 = flip(%1, axis=[0])\n"
                              "  return %2"}},
      .samples = {.calls = {{{"[2,3]"}}, {{"[2,3]"}, {{"axis", Ints{1}}}}, {{"[0]"}}, {{"[]"}}}},
      .errors = {{{"float32[2]"}, "axis 1", {{"axis", Ints{1}}}, ErrorCode::kOutOfRange}},
  });
}

void define_repeats(Registry& r) {
  r.define({
      .name = "broadcast_to",
      .kind = Kind::kLinear,
      .doc = "x repeated to a larger shape by the rules of broadcasting.",
      .operands = {"x"},
      .attrs = {{"shape", AttrKind::kInts}},
      .type = broadcast_type,
      .kernels = {.cpu = kernels::cpu::prepare_broadcast},
      .transpose = [](Operands in, int, const Tensor& ct,
                      const Attrs&) { return internal::sum_to(ct, in[0].shape()); },
      .batch = broadcast_batch,
      .is_cheap = true,
      .rewrites = {{.name = "broadcast_to_own_shape",
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = broadcast_to(x, shape=[2,3])\n"
                              "  return %1"},
                   {.name = "broadcast_of_broadcast",
                    .inner = "broadcast_to",
                    .to = "broadcast_to",
                    .attrs = [](const RewriteCall& call) { return call.attrs; },
                    .sample = "graph f(x: T[3]) -> (T[4,2,3])\n"
                              "  %1 = broadcast_to(x, shape=[2,3])\n"
                              "  %2 = broadcast_to(%1, shape=[4,2,3])\n"
                              "  return %2"}},
      .samples = {.calls = {{{"[3]"}, {{"shape", Ints{4, 3}}}},
                            {{"[2,1,3]"}, {{"shape", Ints{2, 2, 3}}}},
                            {{"[1]"}, {{"shape", Ints{0}}}},
                            {{"[]"}, {{"shape", Ints{2}}}}}},
      .errors = {{{"float32[3]"}, "sizes 3 and 4 on axis -1", {{"shape", Ints{4}}}},
                 {{"float32[2,3]"}, "does not broadcast to [3]", {{"shape", Ints{3}}}},
                 {{"float32[3]"}, "shape [-1,3] has a negative size", {{"shape", Ints{-1, 3}}}}},
  });
  r.define({
      .name = "broadcast_arrays",
      .kind = Kind::kComposition,
      .doc = "All operands broadcast to one shape.",
      .operands = {{"xs...", kAnyDType}},
      .results = {"ys..."},
      .lower = lower_broadcast_arrays,
      .samples = {.calls = {{{"[3]", "[2,1]"}}, {{"[2]"}}}},
      .errors = {{{"float32[2]", "float32[3]"}, "sizes 2 and 3 on axis -1"}},
  });
  r.define({
      .name = "tile",
      .kind = Kind::kComposition,
      .doc = "x laid out repeatedly, repetitions[i] times along axis i.",
      .operands = {"x"},
      .attrs = {{"repetitions", AttrKind::kInts}},
      .lower = lower_tile,
      .samples = {.calls = {{{"[2,3]"}, {{"repetitions", Ints{2, 2}}}},
                            {{"[3]"}, {{"repetitions", Ints{2, 1, 2}}}},
                            {{"[2,3]"}, {{"repetitions", Ints{2}}}}}},
      .errors = {{{"float32[2]"}, "axis 0 is repeated -1 times", {{"repetitions", Ints{-1}}}}},
  });
  r.define({
      .name = "repeat",
      .kind = Kind::kComposition,
      .doc = "x with each element repeated n times along an axis. Without an axis, x is flattened "
             "first.",
      .operands = {"x"},
      .attrs = {{"n", AttrKind::kInt}, {"axis", AttrKind::kInts, none}},
      .lower = lower_repeat,
      .samples = {.calls = {{{"[2,3]"}, {{"n", int64_t{2}}}},
                            {{"[2,3]"}, {{"n", int64_t{3}}, {"axis", Ints{0}}}}}},
      .errors = {{{"float32[2]"}, "axis 0 is repeated -1 times", {{"n", int64_t{-1}}}}},
  });
}

}  // namespace

void define_shaping(Registry& r) {
  define_views(r);
  define_orders(r);
  define_repeats(r);
}

}  // namespace etude::ops
