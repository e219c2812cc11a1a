// SPDX-License-Identifier: Apache-2.0
// Slices with a start, a size and a step per axis, what undoes them, and shifts along axes.
#include <algorithm>
#include <tuple>

#include "etude/base/check.h"
#include "etude/core/batching.h"
#include "etude/core/builtin.h"
#include "etude/core/call.h"
#include "etude/kernels/cpu/copy.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/index_plan.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// Whether starts, sizes and steps name elements of an array of shape `whole`.
void require_region(const Shape& whole, const Ints& starts, const Ints& sizes, const Ints& steps) {
  const auto rank = at(whole.rank());
  ETUDE_REQUIRE(starts.size() == rank && sizes.size() == rank && steps.size() == rank,
                "starts, sizes and steps have {}, {} and {} entries, but need {}, one per axis",
                starts.size(), sizes.size(), steps.size(), rank);
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const __int128 first = starts[at(axis)], size = sizes[at(axis)],
                   last = first + (size - 1) * steps[at(axis)];
    const int64_t limit = whole[axis];
    ETUDE_REQUIRE(
        size >= 0 && (size == 0 || (std::min(first, last) >= 0 && std::max(first, last) < limit)),
        "{} elements from {} with step {} do not lie in axis {} of size {}", sizes[at(axis)],
        starts[at(axis)], steps[at(axis)], axis, limit);
  }
}

Types strided_type(const TypeCall& call) {
  const Ints& sizes = call.attrs.ints("sizes");
  require_region(call.shape(0), call.attrs.ints("starts"), sizes, call.attrs.ints("steps"));
  return {call.make(call.dtype(0), Shape(sizes))};
}

Types spread_slice_type(const TypeCall& call) {
  const Shape whole(call.attrs.ints("shape"));
  require_region(whole, call.attrs.ints("starts"), call.shape(0).to_vector(),
                 call.attrs.ints("steps"));
  return {call.make(call.dtype(0), whole)};
}

// The copy of a slice, which begins at `offset` bytes, out of an array of shape `whole`.
kernels::cpu::CopyPlan plan_slice(const Shape& whole, const Attrs& attrs, int64_t item,
                                  int64_t& offset) {
  const Ints &starts = attrs.ints("starts"), &sizes = attrs.ints("sizes");
  const Ints& steps = attrs.ints("steps");
  const kernels::cpu::Strides outer = kernels::cpu::dense_strides(whole);
  const kernels::cpu::Strides dense = kernels::cpu::dense_strides(Shape(sizes));
  Ints strides;
  offset = 0;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    strides.push_back(sizes[a] > 1 ? steps[a] * outer[a] : outer[a]);  // one element: no step
    if (sizes[a] > 0) offset += starts[a] * outer[a] * item;
  }
  return kernels::cpu::plan_copy(sizes, strides, {dense.data(), sizes.size()}, item);
}

void prepare_strided(const PrepareCall& call) {
  int64_t offset = 0;
  const kernels::cpu::CopyPlan plan =
      plan_slice(call.shape(0), call.attrs, itemsize(call.dtype(0)), offset);
  // One contiguous part of the operand.
  if (plan.run != 0 && plan.rank == 0) return call.view(0, offset);
  kernels::cpu::prepare_copy(call, plan, offset);
}

void prepare_spread_slice(const PrepareCall& call) {
  const Shape &whole = call.out.results[0]->shape(), &part = call.shape(0);
  IndexRegion region{.starts = call.attrs.ints("starts"), .sizes = part.to_vector()};
  region.steps = call.attrs.ints("steps");
  kernels::cpu::prepare_spread(call, plan_walk(region, whole, part, itemsize(call.dtype(0)), {}));
}

Tensor slice_back(Operands in, int, const Tensor& ct, const Attrs& attrs) {
  return run(op<"spread_slice">(), {&ct},
             {in[0].shape().to_vector(), attrs.ints("starts"), attrs.ints("steps")});
}

// Adds to a part of what has reached the operand.
Values slice_vjp(const VjpCall& call) {
  const Tensor& ct = call.ct();
  Tensor sum = call.take_sum(0);
  if (!sum.has_value()) return {slice_back(call.in, 0, ct, call.attrs)};
  const OperandList list({&sum, &ct});
  const Attrs& region = call.attrs;
  return {run(op<"index_update">(), list.view(1),
              {"add", Ints{}, int64_t{0}, region.ints("starts"), region.ints("sizes"),
               region.ints("steps")})};
}

Values slice_jvp(const JvpCall& call) {
  return {run(op<"strided_slice">(), {&call.tangents[0]}, call.attrs)};
}

// The same region of every example.
Values region_batch(const BatchCall& call, std::string_view sizes) {
  return batching::call_again(call, {call.in[0]},
                              {{"starts", batching::behind(0, call.attrs.ints("starts"))},
                               {sizes, batching::behind(call.size, call.attrs.ints(sizes))},
                               {"steps", batching::behind(1, call.attrs.ints("steps"))}});
}
Values strided_batch(const BatchCall& call) { return region_batch(call, "sizes"); }
Values spread_batch(const BatchCall& call) { return region_batch(call, "shape"); }

// Python's rules for start:stop:step on an axis; gives the first index and the number of indices.
std::pair<int64_t, int64_t> python_range(int64_t start, int64_t stop, int64_t step, int64_t size) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  start = std::clamp(start < 0 ? start + size : start, low, high);
  stop = std::clamp(stop < 0 ? stop + size : stop, low, high);
  const int64_t span = step > 0 ? stop - start : start - stop;
  if (span <= 0) return {0, 0};
  const int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
  return {start, (span - 1) / stride + 1};
}

Values lower_slice(Operands in, const Attrs& attrs) {
  const Shape& shape = in[0].shape();
  const Ints &from = attrs.ints("start"), &to = attrs.ints("stop");
  const Ints step = attrs.has("step") ? attrs.ints("step") : Ints(from.size(), 1);
  ETUDE_REQUIRE(
      from.size() == to.size() && from.size() == step.size() && at(shape.rank()) >= from.size(),
      "start, stop and step have {}, {} and {} entries for an operand 'x' of shape {}. Give one "
      "per axis, or "
      "for the first axes",
      from.size(), to.size(), step.size(), shape.to_string());
  Ints starts(at(shape.rank()), 0), sizes = shape.to_vector(), steps(at(shape.rank()), 1);
  for (std::size_t a = 0; a < from.size(); ++a) {
    ETUDE_REQUIRE(step[a] != 0, "the step of axis {} is 0. Steps are positive or negative", a);
    std::tie(starts[a], sizes[a]) = python_range(from[a], to[a], step[a], sizes[a]);
    steps[a] = sizes[a] > 1 ? step[a] : 1;
  }
  return {run(op<"strided_slice">(), {&in[0]}, {starts, sizes, steps})};
}

// Of a slice as large as its operand.
bool takes_in_order(const RewriteCall& call) {
  const Ints &sizes = call.attrs.ints("sizes"), &steps = call.attrs.ints("steps");
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    if (sizes[a] > 1 && steps[a] != 1) return false;
  }
  return true;
}

// The slice that a slice of a slice is.
Attrs slice_both(const RewriteCall& call) {
  const Ints &first = call.inner->ints("starts"), &step = call.inner->ints("steps");
  Ints starts = call.attrs.ints("starts"), steps = call.attrs.ints("steps");
  const Ints& sizes = call.attrs.ints("sizes");
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    starts[a] = sizes[a] == 0 ? 0 : first[a] + starts[a] * step[a];
    steps[a] = sizes[a] > 1 ? steps[a] * step[a] : 1;
  }
  return call.op.attrs({starts, sizes, steps});
}

// The shift of each axis, in [0, size).
Ints shifts(const Attrs& attrs, const Shape& shape) {
  const Ints& given = attrs.ints("shift");
  const std::vector<int> axes = [&] {
    std::vector<int> out;
    for (const int64_t a : attrs.ints("axis")) out.push_back(normalize_axis(a, shape.rank()));
    return out;
  }();
  ETUDE_REQUIRE(given.size() == 1 || given.size() == axes.size(),
                "shift has {} entries for {} axes", given.size(), axes.size());
  Ints out(at(shape.rank()), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = std::max<int64_t>(shape[axes[i]], 1);
    const int64_t shift = given[given.size() == 1 ? 0 : i] % size;
    int64_t& total = out[at(axes[i])];
    total = ((total + shift) % size + size) % size;
  }
  return out;
}

Values lower_roll(Operands in, const Attrs& attrs) {
  if (!attrs.has("axis")) {
    const Tensor flat = reshape(in[0], Ints{in[0].size()});
    return {reshape(roll(flat, attrs.ints("shift"), {.axis = 0}), in[0].shape())};
  }
  Tensor x = in[0];
  const Ints by = shifts(attrs, x.shape());
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (by[at(axis)] == 0) continue;
    const int64_t cut = x.shape()[axis] - by[at(axis)];
    const std::vector<Tensor> parts = split(x, Ints{cut, by[at(axis)]}, {.axis = axis});
    x = concat({parts[1], parts[0]}, {.axis = axis});
  }
  return {x};
}

}  // namespace

void define_slicing(Registry& r) {
  r.define({
      .name = "strided_slice",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "sizes[i] elements of axis i of x from starts[i] on, steps[i] apart.",
      .operands = {"x"},
      .attrs = {{"starts", AttrKind::kInts},
                {"sizes", AttrKind::kInts},
                {"steps", AttrKind::kInts}},
      .type = strided_type,
      .kernels = {.cpu = prepare_strided},
      .transpose = slice_back,
      .vjp = slice_vjp,
      .takes_sums = true,
      .jvp = slice_jvp,
      .batch = strided_batch,
      .rewrites = {{.name = "slice_of_whole",
                    .when = takes_in_order,
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = strided_slice(x, starts=[0,0], sizes=[2,3], steps=[1,1])\n"
                              "  return %1"},
                   {.name = "slice_of_slice",
                    .inner = "strided_slice",
                    .to = "strided_slice",
                    .attrs = slice_both,
                    .sample = "graph f(x: T[9,3]) -> (T[2,1])\n"
                              "  %1 = strided_slice(x, starts=[8,1], sizes=[4,2], steps=[-2,1])\n"
                              "  %2 = strided_slice(%1, starts=[3,0], sizes=[2,1], steps=[-2,5])\n"
                              "  return %2"}},
      .samples =
          {.calls = {{{"[4,3]"},
                      {{"starts", Ints{3, 0}}, {"sizes", Ints{2, 2}}, {"steps", Ints{-2, 2}}}},
                     {{"[4,3]"},
                      {{"starts", Ints{1, 0}}, {"sizes", Ints{2, 3}}, {"steps", Ints{1, 1}}}},
                     {{"[2]"}, {{"starts", Ints{0}}, {"sizes", Ints{0}}, {"steps", Ints{1}}}}}},
      .errors = {{{"float32[2]"},
                  "do not lie in axis 0 of size 2",
                  {{"starts", Ints{1}}, {"sizes", Ints{2}}, {"steps", Ints{1}}}}},
  });
  r.define({
      .name = "spread_slice",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "Zeros of the given shape, to which x is added at starts[i], steps[i] apart along "
             "axis i.",
      .operands = {"x"},
      .attrs = {{"shape", AttrKind::kInts},
                {"starts", AttrKind::kInts},
                {"steps", AttrKind::kInts}},
      .type = spread_slice_type,
      .kernels = {.cpu = prepare_spread_slice},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs& attrs) {
            return run(op<"strided_slice">(), {&ct},
                       {attrs.ints("starts"), in[0].shape().to_vector(), attrs.ints("steps")});
          },
      .batch = spread_batch,
      .samples =
          {.calls = {{{"[2,2]"},
                      {{"shape", Ints{4, 3}}, {"starts", Ints{3, 0}}, {"steps", Ints{-2, 2}}}}}},
      .errors = {{{"float32[2]"},
                  "have 0, 1 and 0 entries",
                  {{"shape", Ints{4}}, {"starts", Ints{}}, {"steps", Ints{}}}},
                 {{"float32[2]"},
                  "2 elements from 1 with step 3 do not lie in axis 0 of size 4",
                  {{"shape", Ints{4}}, {"starts", Ints{1}}, {"steps", Ints{3}}}}},
  });
  r.define({
      .name = "slice",
      .kind = Kind::kComposition,
      .doc = "The part of x from start[i] to before stop[i] along axis i, by Python's rules for "
             "negative numbers and "
             "ends beyond the size; missing axes stay whole. Contiguous parts share storage until "
             "a write.",
      .operands = {"x"},
      .attrs = {{"start", AttrKind::kInts},
                {"stop", AttrKind::kInts},
                {"step", AttrKind::kInts, none}},
      .lower = lower_slice,
      .samples =
          {.calls = {{{"[4,3]"}, {{"start", Ints{1}}, {"stop", Ints{3}}}},
                     {{"[4,3]"},
                      {{"start", Ints{-1, 0}}, {"stop", Ints{0, 9}}, {"step", Ints{-2, 2}}}}}},
      .errors = {{{"float32[2]"},
                  "the step of axis 0 is 0",
                  {{"start", Ints{0}}, {"stop", Ints{1}}, {"step", Ints{0}}}},
                 {{"float32[2]"},
                  "start, stop and step have 2, 1 and 2",
                  {{"start", Ints{0, 0}}, {"stop", Ints{1}}}}},
  });
  r.define({
      .name = "roll",
      .kind = Kind::kComposition,
      .doc = "x with its elements moved by `shift` places along the given axes, round the end; "
             "without axes x is rolled "
             "as if flat.",
      .operands = {"x"},
      .attrs = {{"shift", AttrKind::kInts}, {"axis", AttrKind::kInts, none}},
      .lower = lower_roll,
      .samples = {.calls = {{{"[2,3]"}, {{"shift", Ints{1}}}},
                            {{"[4,3]"}, {{"shift", Ints{-1, 2}}, {"axis", Ints{0, 1}}}},
                            {{"[0]"}, {{"shift", Ints{1}}}}}},
      .errors = {{{"float32[2,3]"},
                  "shift has 2 entries for 1 axes",
                  {{"shift", Ints{1, 2}}, {"axis", Ints{0}}}}},
  });
}

}  // namespace etude::ops
