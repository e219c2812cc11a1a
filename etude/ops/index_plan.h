// SPDX-License-Identifier: Apache-2.0
// Which part of an array a call reads or updates: a slice per axis, and index arrays along some
// axes. Shared by the records of indexing, gathering and scattering.
#pragma once

#include <vector>

#include "etude/core/op.h"
#include "etude/kernels/cpu/gather.h"

namespace etude::ops {

// The part of x that the axes without index arrays name by slices, and the others by arrays. Its
// shape has the sizes of the sliced axes, with the shape of the points before sliced axis `at`.
struct IndexRegion {
  std::vector<int64_t> axes;  // of x, one per index array, ascending
  int64_t at = 0;
  std::vector<int64_t> starts, sizes, steps;  // per axis of x; unused where an array indexes

  // All of x.
  static IndexRegion whole(const Shape& x);
  static IndexRegion of(const Attrs& attrs);
  std::vector<AttrValue> values() const;                       // in the order of region_attrs()
  std::vector<AttrValue> values(std::string_view mode) const;  // behind that of index_update
  bool is_indexed(int axis) const;
};
std::vector<AttrDef> region_attrs();

// What the index arrays broadcast to. throws: kInvalidArgument.
Shape points_shape(std::span<const Type* const> arrays);
Shape region_shape(const IndexRegion& region, const Shape& points);

// The walk over the region of an x of this shape and over a value that broadcasts to the region.
kernels::cpu::IndexWalk plan_walk(const IndexRegion& region, const Shape& x, const Shape& value,
                                  int64_t item, std::span<const Type* const> arrays);

}  // namespace etude::ops
