// SPDX-License-Identifier: Apache-2.0
// A shape as three axes around one of its axes: [outer, size, inner]. Used by kernels that work
// along an axis.
#pragma once

#include "etude/core/shape.h"

namespace etude::kernels::cpu {

struct AxisView {
  int64_t outer = 1, size = 1, inner = 1;
};

// axis in [0, rank).
inline AxisView axis_view(const Shape& shape, int axis) {
  AxisView view;
  for (int i = 0; i < axis; ++i) view.outer *= shape[i];
  if (shape.rank() > 0) view.size = shape[axis];
  for (int i = axis + 1; i < shape.rank(); ++i) view.inner *= shape[i];
  return view;
}

}  // namespace etude::kernels::cpu
