// SPDX-License-Identifier: Apache-2.0
// Reads and adds elements along an axis, each at its own index. Used by op records. For whole
// slices see gather.h.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// y[.., j, ..] = x[.., indices[.., j, ..], ..]; operands x and indices broadcast on other axes.
void prepare_take_along(const PrepareCall& call, int axis);
// The result is zeros, to which operand 0 is added at the indices in operand 1, which has the shape
// of operand 0.
void prepare_spread_along(const PrepareCall& call, int axis);

}  // namespace etude::kernels::cpu
