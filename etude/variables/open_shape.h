// SPDX-License-Identifier: Apache-2.0
// Shapes with open sizes: of specs, of Variables, of the state of loops.
#pragma once

#include "etude/core/shape.h"

namespace etude::internal {

// Whether `shape` has the rank of `open`, and its sizes except where those are kAny.
inline bool admits(const Shape& open, const Shape& shape) {
  if (shape.rank() != open.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (open[axis] != kAny && open[axis] != shape[axis]) return false;
  }
  return true;
}

}  // namespace etude::internal
