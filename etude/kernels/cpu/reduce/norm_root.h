// SPDX-License-Identifier: Apache-2.0
// Euclidean norms: the roots of sums of squares, even if the squares leave the range of their
// dtype. Used by ops/reduce/statistics.cc. Another op computes the norm of several tensors.
#pragma once

#include <span>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Operand 0 is x. Operand 1 is the sums of its squares over `axes` (each in [0, rank), once). A
// result is the root of its sum. If the sum is infinite, or so small that squares underflowed, the
// result is computed in float64 from the elements of x, scaled by a power of two near the largest
// of them. Each result depends only on its own elements, in memory order.
//
// cost: one read of each sum; two passes over x, on one thread, if any result needs the elements.
void prepare_norm_root(const PrepareCall& call, std::span<const int> axes);

}  // namespace etude::kernels::cpu
