// SPDX-License-Identifier: Apache-2.0
// Kernels that put arrays together along an axis and take them apart again. Used by op records.
#pragma once

#include <cstdint>
#include <span>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// The result is the operands one behind the other along an axis of it; `sizes`: how far each goes
// there.
void prepare_join(const PrepareCall& call, int axis, std::span<const int64_t> sizes);
// The results are the parts of operand 0 of these sizes along an axis.
void prepare_split(const PrepareCall& call, int axis, std::span<const int64_t> sizes);

}  // namespace etude::kernels::cpu
