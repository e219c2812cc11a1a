// SPDX-License-Identifier: Apache-2.0
// Elements and rows by indices, and updates of them. StableHLO clamps the indices of a gather and
// drops updates outside; this library refuses such indices, except of segments.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "etude/ops/index/index_plan.h"
#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

// Indices from the front of an axis of this size.
Term from_front(const Term& indices, int64_t size) {
  const Term i = convert(indices, kInt64);
  return where(i < 0.0, i + static_cast<double>(size), i);
}

// Parts of x at points. Axis k of the points is the index on axis axes[k] of x; its last axis has
// these indices. `window` are sizes of parts by axis of x, 1 on the indexed axes, which are left
// out. The other axes of the parts are the axes `kept` of the result.
Term gather(const Term& x, const Term& points, const Sizes& axes, const Sizes& window,
            const Sizes& kept, const Shape& result) {
  const Type* type = intern_type(x.dtype(), result);
  return x.writer->add(
      fmt::format("\"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<"
                  "offset_dims = [{}], collapsed_slice_dims = [{}], start_index_map = [{}], "
                  "index_vector_dim = {}>, slice_sizes = array<i64: {}>, indices_are_sorted = "
                  "false}}> : {} -> {}",
                  x.name, points.name, number_list(kept), number_list(axes), number_list(axes),
                  points.rank() - 1, number_list(window), type_list({x, points}), type_text(type)),
      type);
}

std::string_view operator_of(std::string_view mode) {
  if (mode == "add") return "add";
  if (mode == "mul") return "multiply";
  return mode == "min" ? "minimum" : mode == "max" ? "maximum" : "";
}

// x with updates at points, as for gather. `windows` are the axes of the updates that are axes of
// parts. mode: set, add, mul, min, max.
Term scatter(const Term& x, const Term& points, const Term& updates, const Sizes& axes,
             const Sizes& windows, std::string_view mode) {
  const Type* scalar = intern_type(x.dtype(), Shape{});
  const std::string body = x.writer->region({scalar, scalar}, [&](const Terms& in) {
    if (mode == "set") return Terms{in[1]};
    return Terms{apply(operator_of(mode), {in[0], in[1]}, scalar)};
  });
  return x.writer->add(
      fmt::format("\"stablehlo.scatter\"({}) <{{scatter_dimension_numbers = #stablehlo.scatter<"
                  "update_window_dims = [{}], inserted_window_dims = [{}], "
                  "scatter_dims_to_operand_dims = [{}], index_vector_dim = {}>, "
                  "indices_are_sorted = false, unique_indices = false}}> ({}) : {} -> {}",
                  name_list({x, points, updates}), number_list(windows), number_list(axes),
                  number_list(axes), points.rank() - 1, body, type_list({x, points, updates}),
                  type_text(x.type)),
      x.type);
}

// A last axis with one index.
Term as_points(const Term& indices) {
  Sizes sizes = indices.shape().to_vector();
  sizes.push_back(1);
  return reshape(indices, Shape(sizes));
}
// Arrays of one shape as the last axis of the points.
Term joined(const Terms& arrays) {
  Terms parts;
  for (const Term& array : arrays) parts.push_back(as_points(array));
  return concatenate(parts, parts[0].rank() - 1);
}

Sizes range(int64_t begin, int64_t end) {
  Sizes out;
  for (int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}

Terms take(Call& call) {
  const int64_t axis = call.axis();
  const Term x = call.in(0);
  const Term indices = from_front(call.in(1), x.shape()[static_cast<int>(axis)]);
  Sizes window = x.shape().to_vector();
  window[static_cast<std::size_t>(axis)] = 1;
  Sizes kept = range(0, axis);
  for (int64_t i = axis; i < x.rank() - 1; ++i) kept.push_back(i + indices.rank());
  return {gather(x, as_points(indices), {axis}, window, kept, call.result().shape())};
}
// The transpose: the axes of the indices are in the place of `axis`.
Terms take_spread(Call& call) {
  const int64_t axis = call.attrs.integer("axis");
  const Term x = call.in(0);
  const Term indices = from_front(call.in(1), call.attrs.integer("size"));
  Sizes windows = range(0, axis);
  for (int64_t i = axis + indices.rank(); i < x.rank(); ++i) windows.push_back(i);
  const Term zeros = filled(call.writer, 0, x.dtype(), call.result().shape());
  return {scatter(zeros, as_points(indices), x, {axis}, windows, "add")};
}

// Indices along one axis, and places along the others.
Term along_axis(const Term& indices, int64_t axis) {
  Terms arrays;
  for (int i = 0; i < indices.rank(); ++i) {
    arrays.push_back(i == axis ? indices : counted(*indices.writer, indices.shape(), i, kInt64));
  }
  return joined(arrays);
}
// The other axes broadcast.
Terms take_along_axis(Call& call) {
  const int64_t axis = call.axis();
  const Shape& result = call.result().shape();
  const int64_t size = call.shape(0)[static_cast<int>(axis)];
  Shape whole = result;
  whole.set(static_cast<int>(axis), size);
  const Term indices = broadcast(from_front(call.in(1), size), result);
  return {gather(broadcast(call.in(0), whole), along_axis(indices, axis), all_axes(whole.rank()),
                 Sizes(static_cast<std::size_t>(whole.rank()), 1), {}, result)};
}
Terms spread_along_axis(Call& call) {
  const Term x = call.in(0);
  const Term zeros = filled(call.writer, 0, x.dtype(), call.result().shape());
  const Term indices = from_front(call.in(1), call.attrs.integer("size"));
  return {scatter(zeros, along_axis(indices, call.axis()), x, all_axes(x.rank()), {}, "add")};
}

// Rows of x by segment. Updates outside are dropped, so ids outside get a row that does not exist.
template <char kind>
Terms segments(Call& call) {
  const Term x = call.in(0);
  const Shape& result = call.result().shape();
  const double num = static_cast<double>(result[0]);
  const Term ids = convert(call.in(1), kInt64);
  const Term rows = where(ids < 0.0, call.writer.number(num, kInt64), ids);
  const Term first = kind == '+'   ? call.number(0)
                     : kind == '*' ? call.number(1)
                     : kind == '>' ? lowest(call.writer, x.dtype())
                                   : highest(call.writer, x.dtype());
  constexpr const char* kMode = kind == '+'   ? "add"
                                : kind == '*' ? "mul"
                                : kind == '>' ? "max"
                                              : "min";
  return {scatter(broadcast(first, result), as_points(rows), x, {0}, range(ids.rank(), x.rank()),
                  kMode)};
}
// Row ids[i] of x for each i, zeros where the id is outside.
Terms segment_rows(Call& call) {
  const Term x = call.in(0);
  const Shape& result = call.result().shape();
  const Term ids = convert(call.in(1), kInt64);
  Sizes window = x.shape().to_vector();
  window[0] = 1;
  const Term rows =
      gather(x, as_points(ids), {0}, window, range(ids.rank(), result.rank()), result);
  const Term is_outside =
      (ids < 0.0) |
      compare("GE", ids, call.writer.number(static_cast<double>(x.shape()[0]), kInt64));
  Sizes leading = range(0, ids.rank());
  return {where(broadcast(is_outside, result, leading), call.number(0), rows)};
}
bool has_rows(const CallFacts& call) { return call.shape(0)[0] > 0; }

Terms row_numbers(Call& call) {
  const Term flat = reshape(call.in(0), Shape{call.shape(0).count()});
  return {convert(from_front(flat, call.attrs.integer("limit")), call.result().dtype())};
}

// The region of an x that slices and index arrays select, as points. Whole axes are windows; other
// sliced axes are arrays of their indices.
class Region {
 public:
  // `first` is the operand of the first array.
  Region(Call& call, const Shape& x, std::size_t first)
      : writer_(call.writer), x_(x), region_(ops::IndexRegion::of(call.attrs)) {
    for (std::size_t i = 0; i < region_.axes.size(); ++i) {
      arrays_.push_back(from_front(call.in(first + i), x[static_cast<int>(region_.axes[i])]));
    }
    for (const Term& array : arrays_) points_ = etude::broadcast(points_, array.shape());
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (!region_.is_indexed(axis)) sliced_.push_back(axis);
    }
    set_shape();
    set_points();
  }

  // x at the region.
  Term get(const Term& x) const {
    if (indexed_.empty()) return x;
    Sizes window = x_.to_vector();
    for (const int64_t axis : indexed_) window[static_cast<std::size_t>(axis)] = 1;
    return gather(x, index_, indexed_, window, windows_, shape_);
  }
  // x with the value, which broadcasts, at the region.
  Term update(const Term& x, const Term& value, std::string_view mode) const {
    const Term updates = broadcast(value, shape_);
    if (indexed_.empty()) {
      return mode == "set" ? updates : apply(operator_of(mode), {x, updates}, x.type);
    }
    return scatter(x, index_, updates, indexed_, windows_, mode);
  }

 private:
  bool is_whole(int axis) const {
    const auto i = static_cast<std::size_t>(axis);
    return region_.range(axis, x_).count == x_[axis] && (region_.steps[i] == 1 || x_[axis] == 1);
  }

  // The shape of the region, and the axis of it that each sliced axis is.
  void set_shape() {
    for (std::size_t i = 0; i <= sliced_.size(); ++i) {
      if (i == std::min(static_cast<std::size_t>(region_.at), sliced_.size())) {
        first_point_ = shape_.rank();
        for (const int64_t size : points_) shape_.push_back(size);
      }
      if (i == sliced_.size()) break;
      places_.push_back(shape_.rank());
      shape_.push_back(region_.range(static_cast<int>(sliced_[i]), x_).count);
    }
  }

  // The axes of the points are those axes of the region that are no windows, in order.
  void set_points() {
    Sizes point_axes;
    for (int axis = 0; axis < shape_.rank(); ++axis) {
      const auto found = std::ranges::find(places_, axis);
      const bool is_window =
          found != places_.end() &&
          is_whole(static_cast<int>(sliced_[static_cast<std::size_t>(found - places_.begin())]));
      (is_window ? windows_ : point_axes).push_back(axis);
    }
    Shape shape;
    for (const int64_t axis : point_axes) shape.push_back(shape_[static_cast<int>(axis)]);
    Terms parts;
    for (int axis = 0; axis < x_.rank(); ++axis) {
      if (!region_.is_indexed(axis) && is_whole(axis)) continue;
      indexed_.push_back(axis);
      parts.push_back(indices_of(axis, shape, point_axes));
    }
    if (!parts.empty()) index_ = joined(parts);
  }

  // The indices on an axis of x, in the shape of the points.
  Term indices_of(int axis, const Shape& shape, const Sizes& point_axes) const {
    const auto place_of = [&](int64_t at) {
      return std::ranges::find(point_axes, at) - point_axes.begin();
    };
    if (region_.is_indexed(axis)) {
      const auto array = std::ranges::find(region_.axes, axis) - region_.axes.begin();
      const Term indices = broadcast(arrays_[static_cast<std::size_t>(array)], points_);
      Sizes axes;
      for (int i = 0; i < points_.rank(); ++i) axes.push_back(place_of(first_point_ + i));
      return broadcast(indices, shape, axes);
    }
    const auto sliced = std::ranges::find(sliced_, axis) - sliced_.begin();
    const auto at = place_of(places_[static_cast<std::size_t>(sliced)]);
    const double step = static_cast<double>(region_.steps[static_cast<std::size_t>(axis)]);
    const Term places = counted(writer_, shape, static_cast<int>(at), kInt64);
    return places * (step == 0 ? 1.0 : step) + static_cast<double>(region_.range(axis, x_).start);
  }

  Writer& writer_;
  const Shape& x_;
  ops::IndexRegion region_;
  Terms arrays_;
  Shape points_, shape_;
  Sizes sliced_, places_, indexed_, windows_;
  int64_t first_point_ = 0;
  Term index_;
};

Terms index_get(Call& call) {
  return {reshape(Region(call, call.shape(0), 1).get(call.in(0)), call.result().shape())};
}
Terms index_update(Call& call) {
  return {Region(call, call.shape(0), 2).update(call.in(0), call.in(1), call.attrs.text("mode"))};
}

}  // namespace

void add_index_conversions(Conversions& to) {
  to.insert(to.end(),
            {{.op = "take", .write = take},
             {.op = "internal.take_spread", .dtypes = kSummed, .write = take_spread},
             {.op = "take_along_axis", .write = take_along_axis},
             {.op = "internal.spread_along_axis", .dtypes = kSummed, .write = spread_along_axis},
             {.op = "segment_sum", .dtypes = kSummed, .write = segments<'+'>},
             {.op = "segment_prod", .dtypes = kSummed, .write = segments<'*'>},
             {.op = "segment_max", .dtypes = kIntegers | kFull, .write = segments<'>'>},
             {.op = "segment_min", .dtypes = kIntegers | kFull, .write = segments<'<'>},
             {.op = "internal.segment_rows", .write = segment_rows, .fits = has_rows},
             {.op = "internal.row_numbers", .write = row_numbers},
             {.op = "internal.index_get", .write = index_get},
             {.op = "internal.index_update", .dtypes = kSummed | kBool, .write = index_update}});
}

}  // namespace etude::stablehlo::internal
