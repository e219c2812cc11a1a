// SPDX-License-Identifier: Apache-2.0
// Kernels that join arrays along an axis and split them. Used by op records.
#pragma once

#include <cstdint>
#include <span>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// The result joins the operands along an axis; `sizes` are their sizes along that axis.
void prepare_join(const PrepareCall& call, int axis, std::span<const int64_t> sizes);
// The results are the parts of operand 0 of these sizes along an axis.
void prepare_split(const PrepareCall& call, int axis, std::span<const int64_t> sizes);

}  // namespace etude::kernels::cpu
