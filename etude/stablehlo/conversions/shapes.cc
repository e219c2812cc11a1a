// SPDX-License-Identifier: Apache-2.0
// Creation, and ops that move elements without looking at them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "etude/ops/index/index_plan.h"
#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

Terms same(Call& call) { return {call.in(0)}; }
Terms astype(Call& call) { return {convert(call.in(0), call.result().dtype())}; }
Terms reshaped(Call& call) { return {reshape(call.in(0), call.result().shape())}; }
Terms permute_dims(Call& call) {
  return {transpose(call.in(0), axes_from_front(call.attrs.ints("axes"), call.rank(0)))};
}
Terms broadcast_to(Call& call) { return {broadcast(call.in(0), call.result().shape())}; }
Terms flip(Call& call) { return {reverse(call.in(0), call.axes())}; }

Terms concat(Call& call) {
  const Sizes& axes = call.attrs.ints("axis");
  Terms parts;
  for (const Term& x : call.inputs()) {
    parts.push_back(axes.empty() ? reshape(x, Shape{x.shape().count()}) : x);
  }
  return {concatenate(parts, axes.empty() ? 0 : axis_from_front(axes[0], call.result().rank()))};
}

Shape with_axis(const Shape& shape, int64_t axis) {
  Sizes sizes = shape.to_vector();
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  return Shape(sizes);
}
Terms stack(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.result().rank());
  Terms parts;
  for (const Term& x : call.inputs()) parts.push_back(reshape(x, with_axis(x.shape(), axis)));
  return {concatenate(parts, axis)};
}

// The indices [begin, end) of an axis.
Term part_of(const Term& x, int64_t axis, int64_t begin, int64_t end) {
  Sizes starts(static_cast<std::size_t>(x.rank()), 0), stops = x.shape().to_vector();
  starts[static_cast<std::size_t>(axis)] = begin;
  stops[static_cast<std::size_t>(axis)] = end;
  return slice(x, starts, stops, Sizes(starts.size(), 1));
}
Terms split(Call& call) {
  Terms out;
  int64_t begin = 0;
  for (std::size_t i = 0; i < call.results(); ++i) {
    const int64_t size = call.result(i).shape()[static_cast<int>(call.axis())];
    out.push_back(part_of(call.in(0), call.axis(), begin, begin + size));
    begin += size;
  }
  return out;
}
Terms unstack(Call& call) {
  Terms out;
  for (std::size_t i = 0; i < call.results(); ++i) {
    const auto begin = static_cast<int64_t>(i);
    out.push_back(
        reshape(part_of(call.in(0), call.axis(), begin, begin + 1), call.result(i).shape()));
  }
  return out;
}

// Slices of an array of this shape: positive steps from the first element on, and the axes that a
// negative step reverses.
struct Ranges {
  Ranges(const Shape& whole, const Attrs& attrs) {
    for (int axis = 0; axis < whole.rank(); ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      const int64_t step = attrs.ints("steps")[i];
      const auto [start, count] = ops::slice_range(attrs.ints("starts")[i], attrs.ints("stops")[i],
                                                   step, axis, whole[axis]);
      const int64_t size = step == 0 || count < 2 ? 1 : std::abs(step);
      const int64_t last = start + (count < 2 ? 0 : (count - 1) * step);
      counts.push_back(count);
      starts.push_back(std::min(start, last));
      steps.push_back(size);
      stops.push_back(count == 0 ? starts[i] : std::max(start, last) + 1);
      if (step < 0 && count > 1) reversed.push_back(axis);
    }
  }
  Sizes starts, stops, steps, counts, reversed;
};

Terms strided_slice(Call& call) {
  const Ranges ranges(call.shape(0), call.attrs);
  return {reverse(slice(call.in(0), ranges.starts, ranges.stops, ranges.steps), ranges.reversed)};
}
// Zeros between the elements, and around them.
Terms spread_slice(Call& call) {
  const Shape& whole = call.result().shape();
  const Ranges ranges(whole, call.attrs);
  Sizes high, interior;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const int64_t count = ranges.counts[i];
    const int64_t width = count == 0 ? 0 : (count - 1) * ranges.steps[i] + 1;
    interior.push_back(ranges.steps[i] - 1);
    high.push_back(whole[axis] - ranges.starts[i] - width);
  }
  return {pad(reverse(call.in(0), ranges.reversed), call.number(0), ranges.starts, high, interior)};
}

Terms pad_constant(Call& call) {
  const Sizes& widths = call.attrs.ints("widths");  // before and after, by axis
  Sizes low, high;
  for (int axis = 0; axis < call.rank(0); ++axis) {
    const auto i = static_cast<std::size_t>(2 * axis);
    low.push_back(widths[i % widths.size()]);
    high.push_back(widths[(i + 1) % widths.size()]);
  }
  return {pad(call.in(0), call.number(call.attrs.real("value")), low, high, Sizes(low.size(), 0))};
}

// Column - row of each place of the last two axes, in this shape.
Term diagonal_numbers(Writer& writer, const Shape& shape) {
  return counted(writer, shape, shape.rank() - 1, kInt64) -
         counted(writer, shape, shape.rank() - 2, kInt64);
}
template <bool is_lower>
Terms triangle(Call& call) {
  const Shape& shape = call.shape(0);
  const Shape matrix{shape[shape.rank() - 2], shape[shape.rank() - 1]};
  const Term k = call.writer.number(static_cast<double>(call.attrs.integer("k")), kInt64);
  const Term is_kept = compare(is_lower ? "LE" : "GE", diagonal_numbers(call.writer, matrix), k);
  return {where(is_kept, call.in(0), call.number(0))};
}
Terms eye(Call& call) {
  const auto k = static_cast<double>(call.attrs.integer("k"));
  return {
      convert(diagonal_numbers(call.writer, call.result().shape()) == k, call.result().dtype())};
}

Terms positions(Call& call) {
  return {counted(call.writer, call.result().shape(), 0, call.result().dtype())};
}
Terms arange(Call& call) {
  const AttrValue& stop = call.attrs.value("stop");
  const double start = stop.index() == 0 ? 0 : call.attrs.real("start");
  const double step = call.attrs.real("step");
  const Shape& shape = call.result().shape();
  if (start == 0 && step == 1) return positions(call);
  return {counted(call.writer, shape, 0, kFloat64) * step + start};
}
// Created tensors that have few elements.
Terms made(Call& call) { return {call.evaluate({}, call.attrs)}; }

// The row of an index out of range has no place.
Terms one_hot(Call& call) {
  const Shape& shape = call.result().shape();
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), shape.rank());
  const Term indices = convert(call.in(0), kInt64);
  const Term places = counted(call.writer, shape, static_cast<int>(axis), kInt64);
  const Term is_on = reshape(indices, with_axis(indices.shape(), axis)) == places;
  const auto number = [&](const char* name) {
    return call.writer.number(call.attrs.real(name), call.result().dtype());
  };
  return {where(is_on, number("on"), number("off"))};
}

// Elements of one diagonal of the last two axes, as rows of a matrix laid out flat.
Terms diagonal(Call& call) {
  const Shape& shape = call.shape(0);
  const int rank = shape.rank();
  const int64_t columns = shape[rank - 1], offset = call.attrs.integer("offset");
  const int64_t count = call.result().shape()[rank - 2];
  Sizes flat = shape.to_vector();
  flat.pop_back();
  flat.back() *= columns;
  const int64_t first = std::max<int64_t>(-offset, 0) * columns + std::max<int64_t>(offset, 0);
  Sizes starts(flat.size(), 0), stops = flat, steps(flat.size(), 1);
  starts.back() = count == 0 ? 0 : first;
  steps.back() = columns + 1;
  stops.back() = count == 0 ? 0 : first + (count - 1) * (columns + 1) + 1;
  return {slice(reshape(call.in(0), Shape(flat)), starts, stops, steps)};
}
// The diagonal spread over its rows, or over its columns if it begins below the first row.
Terms set_diagonal(Call& call) {
  const Shape& shape = call.shape(0);
  const int rank = shape.rank();
  const int64_t offset = call.attrs.integer("offset");
  const Term v = call.in(1);
  const bool is_below = offset < 0;
  Sizes low(static_cast<std::size_t>(v.rank()), 0), high = low;
  const int last = is_below ? rank - 1 : rank - 2;
  high.back() = shape[last] - v.shape()[v.rank() - 1];
  const Term padded = pad(v, call.number(0), low, high, Sizes(low.size(), 0));
  Sizes axes;
  for (int axis = 0; axis < v.rank() - 1; ++axis) axes.push_back(axis + rank - 1 - v.rank());
  axes.push_back(last);
  const Term spread = broadcast(padded, shape, axes);
  const Term is_on = diagonal_numbers(call.writer, Shape{shape[rank - 2], shape[rank - 1]}) ==
                     static_cast<double>(offset);
  return {where(is_on, spread, call.in(0))};
}

// x moved along an axis; zeros enter.
Terms shift_along(Call& call) {
  const Term x = call.in(0);
  const int64_t size = x.shape()[static_cast<int>(call.axis())];
  const int64_t by = std::clamp(call.attrs.integer("by"), -size, size);
  Sizes low(static_cast<std::size_t>(x.rank()), 0), high = low;
  low[static_cast<std::size_t>(call.axis())] = by;
  high[static_cast<std::size_t>(call.axis())] = -by;
  return {pad(x, call.number(0), low, high, Sizes(low.size(), 0))};
}

}  // namespace

void add_shape_conversions(Conversions& to) {
  for (const char* op : {"internal.identity", "internal.stop_gradient", "internal.after",
                         "internal.read_assigned", "to_device"}) {
    to.push_back({.op = op, .write = same});
  }
  for (const char* op : {"reshape", "expand_dims", "squeeze"}) {
    to.push_back({.op = op, .write = reshaped});
  }
  to.insert(to.end(), {{.op = "astype", .write = astype},
                       {.op = "permute_dims", .write = permute_dims},
                       {.op = "broadcast_to", .write = broadcast_to},
                       {.op = "full", .write = broadcast_to},
                       {.op = "flip", .write = flip},
                       {.op = "concat", .write = concat},
                       {.op = "stack", .write = stack},
                       {.op = "split", .write = split},
                       {.op = "unstack", .write = unstack},
                       {.op = "internal.strided_slice", .write = strided_slice},
                       {.op = "internal.spread_slice", .write = spread_slice},
                       {.op = "internal.pad_constant", .write = pad_constant},
                       {.op = "tril", .write = triangle<true>},
                       {.op = "triu", .write = triangle<false>},
                       {.op = "eye", .write = eye},
                       {.op = "internal.linspace_weights", .write = made},
                       {.op = "internal.positions", .write = positions},
                       {.op = "arange", .write = arange},
                       {.op = "one_hot", .write = one_hot},
                       {.op = "linalg.diagonal", .write = diagonal},
                       {.op = "linalg.set_diagonal", .write = set_diagonal},
                       {.op = "internal.shift_along", .write = shift_along}});
}

}  // namespace etude::stablehlo::internal
