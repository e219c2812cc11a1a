// SPDX-License-Identifier: Apache-2.0
// Shapes with open sizes, as in specs, in Variables and in the state of loops.
#pragma once

#include "etude/core/shape.h"

namespace etude::internal {

// Whether `shape` has the rank and the sizes of `open`. Any size fits kAny.
inline bool admits(const Shape& open, const Shape& shape) {
  if (shape.rank() != open.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (open[axis] != kAny && open[axis] != shape[axis]) return false;
  }
  return true;
}

}  // namespace etude::internal
