// SPDX-License-Identifier: Apache-2.0
// Rows selected by a mask, and positions of elements that are not zero. Used by op records.
#pragma once

#include <span>
#include <vector>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Positions in row-major order of the elements that are not zero.
std::vector<int64_t> nonzero_places(const Tensor& x);
// Coordinates of positions along an axis with this stride and size.
void coordinates(std::span<const int64_t> places, int64_t stride, int64_t size, int64_t* out);

int64_t count_true(const Tensor& mask);
// Copies the rows of x at which the mask is true. The mask covers the leading axes of x.
void take_true(const Tensor& mask, const Tensor& x, void* out);
// The result has the rows of operand 0 where operand 1 is true, zeros elsewhere.
void prepare_unmask(const PrepareCall& call);

}  // namespace etude::kernels::cpu
