// SPDX-License-Identifier: Apache-2.0
// Kernels along one axis that start with a shifted exponential. Used by op records.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

enum class RowFn : uint8_t { kSoftmax, kLogSoftmax, kLogSumExp };

// Applies a function to the rows of operand 0 along `axis`, in [0, rank). kLogSumExp reduces each
// row to one element. Half types compute in float32. Along other axes than the last, rows are first
// gathered, so all axes have the same bits.
void prepare_rows(const PrepareCall& call, RowFn fn, int axis);

// y * (ct - sum(y * ct)) along `axis`, of operands y and ct: the cotangent of softmax.
void prepare_softmax_gradient(const PrepareCall& call, int axis);

}  // namespace etude::kernels::cpu
