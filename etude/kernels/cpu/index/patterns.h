// SPDX-License-Identifier: Apache-2.0
// Kernels of arrays with a pattern: ranges, identity matrices, one-hot rows, triangles. Used by op
// records.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Element i is start + i * step. With has_last, the last element is exactly `last` if there are
// several elements.
struct RangeOptions {
  double start = 0, step = 1, last = 0;
  WordOf<bool> has_last = false;
};
void prepare_range(const PrepareCall& call, const RangeOptions& options);
// Matrices with ones on diagonal k and zeros elsewhere.
void prepare_eye(const PrepareCall& call, int64_t k);
// Along an axis, the result is `on` at the index in operand 0, and `off` elsewhere.
void prepare_one_hot(const PrepareCall& call, int axis, double on, double off);
// Operand 0 with zeros above diagonal k (lower) or below it.
void prepare_triangle(const PrepareCall& call, bool lower, int64_t k);

}  // namespace etude::kernels::cpu
