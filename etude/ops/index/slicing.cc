// SPDX-License-Identifier: Apache-2.0
// Slices with a start, a size and a step per axis, their transposes, and shifts along axes.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/index/copy.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/index/index_plan.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// The slices that a call names of an array of one shape.
struct SliceRanges {
  Ints starts, sizes;
};
SliceRanges ranges_of(const Shape& whole, const Attrs& attrs) {
  const Ints &starts = attrs.ints("starts"), &stops = attrs.ints("stops"),
             &steps = attrs.ints("steps");
  const auto rank = at(whole.rank());
  ETUDE_REQUIRE(starts.size() == rank && stops.size() == rank && steps.size() == rank,
                "starts, stops and steps have {}, {} and {} entries, but need {}, one per axis",
                starts.size(), stops.size(), steps.size(), rank);
  SliceRanges out;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const std::size_t a = at(axis);
    const SliceRange range = slice_range(starts[a], stops[a], steps[a], axis, whole[axis]);
    out.starts.push_back(range.start);
    out.sizes.push_back(range.count);
  }
  return out;
}

Types strided_type(const TypeCall& call) {
  return {call.make(call.dtype(0), Shape(ranges_of(call.shape(0), call.attrs).sizes))};
}

Types spread_slice_type(const TypeCall& call) {
  const Shape whole = shape_of(call.attrs, "shape");
  const Shape part(ranges_of(whole, call.attrs).sizes);
  ETUDE_REQUIRE(part == call.shape(0),
                "operand 'x' has shape {}, but starts, stops and steps name a part of shape {} of "
                "an array of shape {}",
                call.shape(0).to_string(), part.to_string(), whole.to_string());
  return {call.make(call.dtype(0), whole)};
}

// The copy of a slice, which begins at `offset` bytes, out of an array of shape `whole`.
kernels::cpu::CopyPlan plan_slice(const Shape& whole, const Attrs& attrs, int64_t item,
                                  int64_t& offset) {
  const auto [starts, sizes] = ranges_of(whole, attrs);
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
  const IndexRegion region{.starts = call.attrs.ints("starts"),
                           .stops = call.attrs.ints("stops"),
                           .steps = call.attrs.ints("steps")};
  kernels::cpu::prepare_spread(call, plan_walk(region, whole, part, itemsize(call.dtype(0)), {}));
}

Tensor slice_back(Operands in, int, const Tensor& ct, const Attrs& attrs) {
  return run(
      op<"spread_slice">(), {&ct},
      {in[0].shape().to_vector(), attrs.ints("starts"), attrs.ints("stops"), attrs.ints("steps")});
}

// Adds to a part of the operand's cotangent sum.
Values slice_vjp(const VjpCall& call) {
  const Tensor& ct = call.ct();
  Tensor sum = call.take_sum(0);
  if (!sum.has_value()) return {slice_back(call.in, 0, ct, call.attrs)};
  const OperandList list({&sum, &ct});
  const Attrs& region = call.attrs;
  return {run(op<"index_update">(), list.view(1),
              {"add", Ints{}, int64_t{0}, region.ints("starts"), region.ints("stops"),
               region.ints("steps")})};
}

Values slice_jvp(const JvpCall& call) {
  return {run(op<"strided_slice">(), {&call.tangents[0]}, call.attrs)};
}

// The same region of every example.
Values strided_batch(const BatchCall& call) {
  return batching::call_again(call, {call.in[0]},
                              {{"starts", batching::behind(0, call.attrs.ints("starts"))},
                               {"stops", batching::behind(kBehindLast, call.attrs.ints("stops"))},
                               {"steps", batching::behind(1, call.attrs.ints("steps"))}});
}
Values spread_batch(const BatchCall& call) {
  return batching::call_again(call, {call.in[0]},
                              {{"shape", batching::behind(call.size, call.attrs.ints("shape"))},
                               {"starts", batching::behind(0, call.attrs.ints("starts"))},
                               {"stops", batching::behind(kBehindLast, call.attrs.ints("stops"))},
                               {"steps", batching::behind(1, call.attrs.ints("steps"))}});
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
  IndexRegion region = IndexRegion::whole(shape.rank());
  std::ranges::copy(from, region.starts.begin());
  std::ranges::copy(to, region.stops.begin());
  std::ranges::copy(step, region.steps.begin());
  for (std::size_t a = 0; a < step.size(); ++a) require_step(step[a], a);
  return {run(op<"strided_slice">(), {&in[0]}, {region.starts, region.stops, region.steps})};
}

// Of a slice as large as its operand.
bool takes_in_order(const RewriteCall& call) {
  const Ints& steps = call.attrs.ints("steps");
  for (std::size_t a = 0; a < steps.size(); ++a) {
    if (call.result->shape()[static_cast<int>(a)] > 1 && steps[a] != 1) return false;
  }
  return true;
}

// The slice that a slice of a slice is.
Attrs slice_both(const RewriteCall& call) {
  const SliceRanges inner = ranges_of(call.source->shape(), *call.inner);
  const SliceRanges outer = ranges_of(call.types[0]->shape(), call.attrs);
  const Ints& step = call.inner->ints("steps");
  Ints starts, stops, steps = call.attrs.ints("steps");
  for (std::size_t a = 0; a < steps.size(); ++a) {
    const int64_t count = outer.sizes[a];
    steps[a] = count > 1 ? steps[a] * step[a] : 1;
    starts.push_back(count == 0 ? 0 : inner.starts[a] + outer.starts[a] * step[a]);
    stops.push_back(stop_of(starts[a], count, steps[a]));
  }
  return call.op.attrs({starts, stops, steps});
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
      .doc = "The elements starts[i]:stops[i]:steps[i] of axis i of x, by Python's rules.",
      .operands = {"x"},
      .attrs = {{"starts", AttrKind::kInts},
                {"stops", AttrKind::kInts},
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
                              "  %1 = strided_slice(x, starts=[0,0], stops=[2,3], steps=[1,1])\n"
                              "  return %1"},
                   {.name = "slice_of_slice",
                    .inner = "strided_slice",
                    .to = "strided_slice",
                    .attrs = slice_both,
                    .sample = "graph f(x: T[9,3]) -> (T[2,1])\n"
                              "  %1 = strided_slice(x, starts=[8,1], stops=[1,3], steps=[-2,1])\n"
                              "  %2 = strided_slice(%1, starts=[3,0], stops=[0,5], steps=[-2,5])\n"
                              "  return %2"}},
      .samples =
          {.calls = {{{"[4,3]"},
                      {{"starts", Ints{3, 0}}, {"stops", Ints{0, 3}}, {"steps", Ints{-2, 2}}}},
                     {{"[4,3]"},
                      {{"starts", Ints{-3, 0}}, {"stops", Ints{-1, 3}}, {"steps", Ints{1, 1}}}},
                     {{"[2]"}, {{"starts", Ints{0}}, {"stops", Ints{0}}, {"steps", Ints{1}}}}}},
      .errors = {{{"float32[2]"},
                  "starts, stops and steps have 0, 1 and 1 entries, but need 1",
                  {{"starts", Ints{}}, {"stops", Ints{2}}, {"steps", Ints{1}}}}},
  });
  r.define({
      .name = "spread_slice",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "Zeros of the given shape, to which x is added at starts[i]:stops[i]:steps[i] of axis "
             "i.",
      .operands = {"x"},
      .attrs = {{"shape", AttrKind::kInts},
                {"starts", AttrKind::kInts},
                {"stops", AttrKind::kInts},
                {"steps", AttrKind::kInts}},
      .type = spread_slice_type,
      .kernels = {.cpu = prepare_spread_slice},
      .transpose =
          [](Operands, int, const Tensor& ct, const Attrs& attrs) {
            return run(op<"strided_slice">(), {&ct},
                       {attrs.ints("starts"), attrs.ints("stops"), attrs.ints("steps")});
          },
      .batch = spread_batch,
      .samples = {.calls = {{{"[2,2]"},
                             {{"shape", Ints{4, 3}},
                              {"starts", Ints{3, 0}},
                              {"stops", Ints{0, 3}},
                              {"steps", Ints{-2, 2}}}}}},
      .errors =
          {{{"float32[2]"},
            "have 0, 1 and 0 entries",
            {{"shape", Ints{4}}, {"starts", Ints{}}, {"stops", Ints{1}}, {"steps", Ints{}}}},
           {{"float32[2]"},
            "name a part of shape [1] of an array of shape [4]",
            {{"shape", Ints{4}}, {"starts", Ints{1}}, {"stops", Ints{4}}, {"steps", Ints{3}}}}},
  });
  r.define({
      .name = "slice",
      .kind = Kind::kComposition,
      .doc = "The part of x from start[i] to before stop[i] along axis i. Negative numbers and "
             "ends beyond the size follow the rules of Python. Axes without a start stay whole. "
             "Contiguous parts share storage until a write.",
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
      .doc = "x with its elements moved by `shift` places along the given axes. Elements that "
             "leave one end enter at the other end. Without axes, x is rolled as if flat.",
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
