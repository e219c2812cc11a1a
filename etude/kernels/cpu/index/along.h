// SPDX-License-Identifier: Apache-2.0
// Reading and adding elements along an axis, each at its own index. Used by op records. For whole
// slices: gather.h.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// y[.., j, ..] = x[.., indices[.., j, ..], ..]; operands x and indices broadcast on other axes.
void prepare_take_along(const PrepareCall& call, int axis);
// Zeros, to which operand 0 is added at the indices in operand 1, of the same shape.
void prepare_spread_along(const PrepareCall& call, int axis);

}  // namespace etude::kernels::cpu
