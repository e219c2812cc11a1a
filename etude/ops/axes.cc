// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/axes.h"

#include <algorithm>
#include <numeric>

#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/call.h"
#include "etude/ops/calls.h"

namespace etude::ops {

Shape shape_of(const Attrs& attrs, std::string_view name) {
  const std::vector<int64_t>& sizes = attrs.ints(name);
  const bool fits = std::ranges::all_of(sizes, [](int64_t size) { return size >= 0; });
  ETUDE_REQUIRE(fits, "{} [{}] has a negative size. Sizes are 0 or more", name,
                fmt::join(sizes, ","));
  return Shape(sizes);
}

Device device_of(const Attrs& attrs) {
  return attrs.has("device") ? Device(attrs.text("device")) : Device();
}

int axis_of(const Attrs& attrs, const Shape& shape) {
  return normalize_axis(attrs.integer("axis"), shape.rank());
}

std::vector<int> axes_of(const Attrs& attrs, int rank) {
  if (attrs.has("axis")) return normalize_axes(attrs.ints("axis"), rank);
  std::vector<int> all(static_cast<std::size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Shape reduced_shape(const Shape& shape, const std::vector<int>& axes, bool keepdims) {
  Shape out;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!reduced)
      out.push_back(shape[axis]);
    else if (keepdims)
      out.push_back(1);
  }
  return out;
}

int64_t reduced_count(const Shape& shape, const std::vector<int>& axes) {
  int64_t count = 1;
  for (const int axis : axes) count *= shape[axis];
  return count;
}

Tensor with_axes(const Tensor& y, const Shape& shape, const std::vector<int>& axes) {
  return reshaped(y, reduced_shape(shape, axes, true));
}

}  // namespace etude::ops
