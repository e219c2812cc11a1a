// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/index/index_plan.h"

#include <algorithm>

#include "etude/base/check.h"

namespace etude::ops {
namespace {

std::size_t slot(int64_t i) { return static_cast<std::size_t>(i); }

// Strides in elements of `value` along each axis of `shape`, to which it broadcasts.
std::vector<int64_t> broadcast_strides(const Shape& value, const Shape& shape) {
  std::vector<int64_t> out(slot(shape.rank()), 0);
  const kernels::cpu::Strides dense = kernels::cpu::dense_strides(value);
  const int lead = shape.rank() - value.rank();
  for (int axis = 0; axis < value.rank(); ++axis) {
    if (value[axis] != 1) out[slot(axis + lead)] = dense[slot(axis)];
  }
  return out;
}

}  // namespace

void require_step(int64_t step, std::size_t axis) {
  ETUDE_REQUIRE(step != 0, "the step of axis {} is 0. Steps are positive or negative", axis);
}

SliceRange slice_range(int64_t start, int64_t stop, int64_t step, int axis, int64_t size) {
  if (step == 0) {
    ETUDE_REQUIRE_CODE(kOutOfRange, start >= -size && start < size,
                       "index {} is out of range for axis {} of size {}", start, axis, size);
    return {start < 0 ? start + size : start, 1};
  }
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  start = std::clamp(start < 0 ? start + size : start, low, high);
  stop = std::clamp(stop < 0 ? stop + size : stop, low, high);
  const int64_t span = step > 0 ? stop - start : start - stop;
  if (span <= 0) return {0, 0};
  const int64_t stride = step > 0 ? step : step == kBeforeFirst ? kBehindLast : -step;
  return {start, (span - 1) / stride + 1};
}

int64_t stop_of(int64_t start, int64_t count, int64_t step) {
  const int64_t stop = count == 0 ? start : start + (count - 1) * step + (step > 0 ? 1 : -1);
  return stop < 0 ? kBeforeFirst : stop;
}

IndexRegion IndexRegion::whole(int rank) {
  IndexRegion region;
  region.starts.assign(slot(rank), 0);
  region.stops.assign(slot(rank), kBehindLast);
  region.steps.assign(slot(rank), 1);
  return region;
}

IndexRegion IndexRegion::of(const Attrs& attrs) {
  return {attrs.ints("axes"), attrs.integer("at"), attrs.ints("starts"), attrs.ints("stops"),
          attrs.ints("steps")};
}

std::vector<AttrValue> IndexRegion::values() const { return {axes, at, starts, stops, steps}; }
std::vector<AttrValue> IndexRegion::values(std::string_view mode) const {
  return {std::string(mode), axes, at, starts, stops, steps};
}

std::vector<AttrDef> region_attrs() {
  return {{"axes", AttrKind::kInts},
          {"at", AttrKind::kInt},
          {"starts", AttrKind::kInts},
          {"stops", AttrKind::kInts},
          {"steps", AttrKind::kInts}};
}

SliceRange IndexRegion::range(int axis, const Shape& x) const {
  const std::size_t a = slot(axis);
  return slice_range(starts[a], stops[a], steps[a], axis, x[axis]);
}

bool IndexRegion::is_indexed(int axis) const {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

Shape points_shape(std::span<const Type* const> arrays) {
  Shape shape;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    try {
      shape = broadcast(shape, arrays[i]->shape());
    } catch (Error& error) {
      ETUDE_THROW(kInvalidArgument, "index arrays must broadcast together: {}", error.what());
    }
  }
  return shape;
}

Shape region_shape(const IndexRegion& region, const Shape& x, const Shape& points) {
  Shape shape;
  int64_t kept = 0;
  const auto add_points = [&] {
    for (const int64_t size : points) shape.push_back(size);
  };
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (region.is_indexed(axis)) continue;
    if (kept++ == region.at) add_points();
    shape.push_back(region.range(axis, x).count);
  }
  if (kept <= region.at) add_points();
  return shape;
}

kernels::cpu::IndexWalk plan_walk(const IndexRegion& region, const Shape& x, const Shape& value,
                                  int64_t item, std::span<const Type* const> arrays) {
  using kernels::cpu::merge_axes;
  const Shape points = points_shape(arrays);
  const Shape shape = region_shape(region, x, points);
  const kernels::cpu::Strides dense = kernels::cpu::dense_strides(x);
  const std::vector<int64_t> strides = broadcast_strides(value, shape);
  kernels::cpu::IndexWalk walk;
  std::vector<int64_t> sizes, from, to;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (region.is_indexed(axis)) continue;
    const std::size_t k = sizes.size();
    const auto [start, size] = region.range(axis, x);
    if (size > 0) walk.base += start * dense[slot(axis)] * item;
    sizes.push_back(size);
    from.push_back(size > 1 ? region.steps[slot(axis)] * dense[slot(axis)] : dense[slot(axis)]);
    const bool after = static_cast<int64_t>(k) >= region.at;
    to.push_back(strides[k + (after ? slot(points.rank()) : 0)]);
  }
  // Without arrays all places differ: the leading axes go outside, where threads share them.
  const std::size_t split = !arrays.empty() ? slot(region.at)
                            : sizes.empty() ? 0
                                            : sizes.size() - 1;
  const auto part = [&](const std::vector<int64_t>& v, bool second) {
    return second ? std::span(v).subspan(split) : std::span(v).first(split);
  };
  walk.before = merge_axes(part(sizes, false), part(from, false), part(to, false), item);
  walk.after = kernels::cpu::plan_copy(part(sizes, true), part(from, true), part(to, true), item);
  walk.points = points.count();
  const std::vector<int64_t> zeros(slot(points.rank()), 0);
  walk.points_in_v =
      merge_axes(points.sizes(), zeros,
                 std::span(strides).subspan(arrays.empty() ? 0 : split, slot(points.rank())), item);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto axis = static_cast<int>(region.axes[i]);
    walk.arrays.push_back({arrays[i]->dtype(), arrays[i]->count(),
                           kernels::cpu::plan_broadcast(arrays[i]->shape(), points), axis, x[axis],
                           dense[slot(axis)] * item});
  }
  return walk;
}

}  // namespace etude::ops
