// SPDX-License-Identifier: Apache-2.0
// The part of an array that a call reads or updates: slices of some axes, and index arrays along
// the other axes. Shared by the records of indexing, gathering and scattering.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/kernels/cpu/index/gather.h"

namespace etude::ops {

// Slices as attributes store them: Python's start:stop:step, which has the same meaning at all
// sizes of an axis, so that a graph traced at one size serves others. Negative numbers count from
// the end. The two constants below represent omitted bounds. A step of 0 selects one index,
// `start`, which must exist.
inline constexpr int64_t kBeforeFirst = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kBehindLast = std::numeric_limits<int64_t>::max();

// throws: kInvalidArgument if a user's slice has a step of 0.
void require_step(int64_t step, std::size_t axis);

// Selects `count` indices of an axis: start, start + step, ... `start` is 0 if `count` is 0.
// throws: kOutOfRange if the index of a step of 0 is out of range.
struct SliceRange {
  int64_t start, count;
};
SliceRange slice_range(int64_t start, int64_t stop, int64_t step, int axis, int64_t size);
// The stop of a slice with `count` indices from `start` on, where start >= 0.
int64_t stop_of(int64_t start, int64_t count, int64_t step);

// A part of x: slices select from the axes without index arrays, and index arrays select from the
// other axes. Its shape has the sizes of the sliced axes; the shape of the points is inserted
// before sliced axis `at`.
struct IndexRegion {
  std::vector<int64_t> axes;  // of x, one per index array, ascending
  int64_t at = 0;
  std::vector<int64_t> starts, stops, steps;  // per axis of x; unused where an array indexes

  // The whole of an x of this rank.
  static IndexRegion whole(int rank);
  static IndexRegion of(const Attrs& attrs);
  // The slice of an axis that no array indexes. throws: as slice_range.
  SliceRange range(int axis, const Shape& x) const;
  std::vector<AttrValue> values() const;                       // in the order of region_attrs()
  std::vector<AttrValue> values(std::string_view mode) const;  // after the mode of index_update
  bool is_indexed(int axis) const;
};
std::vector<AttrDef> region_attrs();

// The shape that the index arrays broadcast to. throws: kInvalidArgument.
Shape points_shape(std::span<const Type* const> arrays);
Shape region_shape(const IndexRegion& region, const Shape& x, const Shape& points);

// The loop plan over the region of x and over a value that broadcasts to the region.
kernels::cpu::IndexWalk plan_walk(const IndexRegion& region, const Shape& x, const Shape& value,
                                  int64_t item, std::span<const Type* const> arrays);

}  // namespace etude::ops
