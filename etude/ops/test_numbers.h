// SPDX-License-Identifier: Apache-2.0
// For tests of ops: tensors of counting and of random numbers.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/ops/random.h"

namespace etude::tests {

// first, first + 1, ... in row-major order, of float64.
inline Tensor iota(const Shape& shape, double first = 0) {
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  std::iota(values.begin(), values.end(), first);
  return Tensor(values, shape);
}

// Normal numbers from the current generator, float32.
inline Tensor drawn(const Shape& shape) { return random::normal(shape, {.dtype = kFloat32}); }

}  // namespace etude::tests
