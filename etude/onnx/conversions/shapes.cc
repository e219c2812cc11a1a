// SPDX-License-Identifier: Apache-2.0
// Creation, and ops that move elements without looking at them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "etude/onnx/conversions.h"

namespace etude::onnx::internal {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
constexpr int64_t kBegin = std::numeric_limits<int64_t>::min();

std::vector<Term> same(Call& call) { return {apply("Identity", call.in(0))}; }
// Zeros of the sizes of x, whatever its elements are.
std::vector<Term> imaginary(Call& call) {
  const Term x = call.in(0);
  const Term sizes = call.node_of(kInt64, "Shape", {x});
  return {call.node("Expand", {call.number(0, x.dtype), sizes})};
}
std::vector<Term> astype(Call& call) {
  const DType to = call.result().dtype();
  return {call.in(0).dtype == to ? apply("Identity", call.in(0)) : call.cast(call.in(0), to)};
}

// A Cast of ONNX may return any integer for a float that the dtype lacks, and for NaN. Here floats
// saturate, and NaN is 0.
bool saturates(const CallFacts& call) {
  return kFloating.contains(call.types[0]->dtype()) &&
         kIntegers.contains(call.attrs.dtype("dtype"));
}
std::vector<Term> saturated(Call& call) {
  const DType to = call.result().dtype(), from = call.in(0).dtype;
  const bool is_half = itemsize(from) == 2, is_unsigned = kUnsignedIntegers.contains(to);
  const Term given = is_half ? call.cast(call.in(0), kFloat32) : call.in(0);
  const Term zero = call.number(0, given.dtype);
  const Term x = where(given == given, given, zero);
  // If the largest integer is no float, floats are limited to the largest float below it, and
  // floats above get the rest.
  const int bits = 8 * static_cast<int>(itemsize(to)) - (is_unsigned ? 0 : 1);
  const int digits = given.dtype == kFloat32 ? 24 : 53;
  const double end = std::ldexp(1.0, bits);
  const double gap = bits > digits ? std::ldexp(1.0, bits - digits) : 1.0;
  const Term low = call.number(is_unsigned ? 0.0 : -end, given.dtype);
  const Term most = call.number(end - gap, given.dtype);
  const Term limited = call.cast(call.node("Clip", {x, low, most}), to);
  if (gap == 1.0) return {limited};
  return {limited + call.cast(most < x, to) * (gap - 1.0)};
}

std::vector<Term> reshape(Call& call) {
  return {call.reshape(call.in(0), call.result().shape().to_vector())};
}
std::vector<Term> expand_dims(Call& call) {
  const int rank = call.result().rank();
  return {call.node("Unsqueeze",
                    {call.in(0), call.ints(axes_from_front(call.attrs.ints("axis"), rank))})};
}
std::vector<Term> squeeze(Call& call) {
  const std::vector<int64_t> axes = axes_from_front(call.attrs.ints("axis"), call.rank(0));
  if (axes.empty()) return same(call);
  return {call.node("Squeeze", {call.in(0), call.ints(axes)})};
}
std::vector<Term> permute_dims(Call& call) {
  const auto axes = axes_from_front(call.attrs.ints("axes"), call.rank(0));
  return {call.node("Transpose", {call.in(0)}, {{"perm", axes}})};
}
std::vector<Term> broadcast_to(Call& call) {
  return {call.node("Expand", {call.in(0), call.ints(call.result().shape().to_vector())})};
}
std::vector<Term> flip(Call& call) {
  const int rank = call.rank(0);
  const std::vector<int64_t> axes =
      call.attrs.has("axis") ? axes_from_front(call.attrs.ints("axis"), rank) : all_axes(rank);
  if (axes.empty()) return same(call);
  const auto all = [&](int64_t value) {
    return call.ints(std::vector<int64_t>(axes.size(), value));
  };
  return {call.node("Slice", {call.in(0), all(-1), all(kBegin), call.ints(axes), all(-1)})};
}

std::vector<Term> concat(Call& call) {
  const std::vector<int64_t>& axes = call.attrs.ints("axis");
  std::vector<Term> parts;
  for (const Term& x : call.inputs()) {
    parts.push_back(axes.empty() ? call.node("Reshape", {x, call.ints({-1})}) : x);
  }
  const int64_t axis = axes.empty() ? 0 : axis_from_front(axes[0], call.result().rank());
  return {call.node("Concat", parts, {{"axis", axis}})};
}
std::vector<Term> stack(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.result().rank());
  std::vector<Term> parts;
  for (const Term& x : call.inputs()) parts.push_back(call.unsqueeze(x, {axis}));
  return {call.node("Concat", parts, {{"axis", axis}})};
}

// The parts of x along an axis, of these sizes.
std::vector<Term> parts_of(Call& call, const std::vector<int64_t>& sizes, int64_t axis) {
  if (sizes.size() == 1) return same(call);
  const std::vector<DType> dtypes(sizes.size(), call.in(0).dtype);
  return call.nodes("Split", {call.in(0), call.ints(sizes)}, {{"axis", axis}}, dtypes);
}
std::vector<Term> split(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  std::vector<int64_t> sizes;
  for (std::size_t i = 0; i < call.results(); ++i) {
    sizes.push_back(call.result(i).shape()[static_cast<int>(axis)]);
  }
  return sizes.empty() ? std::vector<Term>() : parts_of(call, sizes, axis);
}
std::vector<Term> unstack(Call& call) {
  if (call.results() == 0) return {};
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  std::vector<Term> parts = parts_of(call, std::vector<int64_t>(call.results(), 1), axis);
  for (Term& part : parts) part = call.node("Squeeze", {part, call.ints({axis})});
  return parts;
}

// Slice of ONNX has Python's rules, and these bounds. A step of 0 selects one index.
std::vector<Term> strided_slice(Call& call) {
  const std::vector<int64_t>& starts = call.attrs.ints("starts");
  std::vector<int64_t> stops = call.attrs.ints("stops"), steps = call.attrs.ints("steps");
  if (starts.empty()) return same(call);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == 0) stops[i] = starts[i] == -1 ? kEnd : starts[i] + 1;
    if (steps[i] == 0) steps[i] = 1;
  }
  const Term axes = call.ints(all_axes(call.rank(0)));
  return {call.node("Slice",
                    {call.in(0), call.ints(starts), call.ints(stops), axes, call.ints(steps)})};
}

std::vector<Term> pad_constant(Call& call) {
  const std::vector<int64_t>& widths = call.attrs.ints("widths");  // before and after, by axis
  if (widths.empty()) return same(call);
  std::vector<int64_t> pads;
  for (const std::size_t side : {0, 1}) {
    for (std::size_t i = side; i < widths.size(); i += 2) pads.push_back(widths[i]);
  }
  const Term x = call.in(0);
  return {call.node("Pad", {x, call.ints(pads), call.number(call.attrs.real("value"), x.dtype)})};
}

template <int64_t upper>
std::vector<Term> triangle(Call& call) {
  const Term k = call.number(static_cast<double>(call.attrs.integer("k")), kInt64);
  return {call.node("Trilu", {call.in(0), k}, {{"upper", upper}})};
}

// A tensor of one value.
std::vector<Term> full(Call& call) { return broadcast_to(call); }
// Created tensors without operands are constants of the model.
std::vector<Term> made(Call& call) { return {call.evaluate({}, call.attrs)}; }

// 0, 1, 2, ...: Range, since the number may vary with a size.
Term counted(Call& call, int64_t size) {
  const auto whole = [&](int64_t n) { return call.reshape(call.ints({n}), {}); };
  return call.node("Range", {whole(0), whole(size), whole(1)});
}
std::vector<Term> positions(Call& call) { return {counted(call, call.result().shape()[0])}; }
std::vector<Term> arange(Call& call) {
  const AttrValue& stop = call.attrs.value("stop");
  const double start = stop.index() == 0 ? 0 : call.attrs.real("start");
  const double step = call.attrs.real("step");
  const Term places = counted(call, call.result().shape()[0]);
  if (start == 0 && step == 1) return {places};
  return {call.cast(places, kFloat64) * step + start};
}

// The row of an index out of range has no place.
std::vector<Term> one_hot(Call& call) {
  const int rank = call.result().rank();
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), rank);
  std::vector<int64_t> sizes(static_cast<std::size_t>(rank), 1);
  sizes[static_cast<std::size_t>(axis)] = call.attrs.integer("depth");
  const Term places = call.reshape(counted(call, call.attrs.integer("depth")), sizes);
  const Term indices = call.unsqueeze(call.cast(call.in(0), kInt64), {axis});
  const DType dtype = call.result().dtype();
  const auto number = [&](const char* name) { return call.number(call.attrs.real(name), dtype); };
  return {where(indices == places, number("on"), number("off"))};
}

}  // namespace

void add_shape_conversions(Conversions& to) {
  constexpr DTypeSet kTriangles = DTypeSet(kInt32) | kInt64 | kUInt64 | kHalfToDouble | kBool;
  for (const char* op : {"internal.identity", "internal.stop_gradient", "internal.after",
                         "internal.read_assigned", "to_device", "conj", "real"}) {
    to.push_back({.op = op, .write = same});
  }
  to.insert(to.end(), {{.op = "imag", .dtypes = kNumbers, .write = imaginary},
                       {.op = "astype", .write = saturated, .fits = saturates, .is_formula = true},
                       {.op = "astype", .write = astype},
                       {.op = "reshape", .write = reshape},
                       {.op = "expand_dims", .write = expand_dims},
                       {.op = "squeeze", .write = squeeze},
                       {.op = "permute_dims", .write = permute_dims},
                       {.op = "broadcast_to", .dtypes = kCopied, .write = broadcast_to},
                       {.op = "flip", .write = flip},
                       {.op = "concat", .write = concat},
                       {.op = "stack", .write = stack},
                       {.op = "split", .write = split},
                       {.op = "unstack", .write = unstack},
                       {.op = "internal.strided_slice", .write = strided_slice},
                       {.op = "internal.pad_constant", .dtypes = kPadded, .write = pad_constant},
                       {.op = "tril", .dtypes = kTriangles, .write = triangle<0>},
                       {.op = "triu", .dtypes = kTriangles, .write = triangle<1>},
                       {.op = "full", .dtypes = kCopied, .write = full},
                       {.op = "eye", .write = made},
                       {.op = "internal.linspace_weights", .write = made},
                       {.op = "internal.positions", .write = positions},
                       {.op = "arange", .write = arange},
                       {.op = "one_hot", .write = one_hot}});
}

}  // namespace etude::onnx::internal
