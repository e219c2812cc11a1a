// SPDX-License-Identifier: Apache-2.0
// Euclidean norms: the roots of sums of squares, also where the squares left the range of their
// dtype. Used by ops/reduce/statistics.cc. Not for the length of several tensors, which is an op of
// its own.
#pragma once

#include <span>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Operand 0 is x, operand 1 the sums of its squares over `axes` (each in [0, rank), once). A result
// is the root of its sum. Where that is infinite, or so small that squares vanished in it, the
// result is taken of the elements of x over a power of two near the largest of them, in float64.
// Each result depends on its own elements alone, in the order in which they lie in memory.
//
// cost: a look at each sum; two walks over x, on one thread, if any result is taken of elements.
void prepare_norm_root(const PrepareCall& call, std::span<const int> axes);

}  // namespace etude::kernels::cpu
