// SPDX-License-Identifier: Apache-2.0
// Kernels that run along one axis in order: cumulative sums and products, linear recurrences,
// shifts. Not for reductions (reduce.h).
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

enum class Scan : uint8_t { kSum, kProd };

struct ScanOptions {
  int axis = 0;
  bool reverse = false;
  bool exclusive = false;        // excludes an element from its own result
  bool include_initial = false;  // starts with 0 or 1; the result is one longer
};

// Scans operand 0 along an axis. The result has the dtype of sums (reduced_dtype).
void prepare_scan(const PrepareCall& call, Scan scan, const ScanOptions& options);
// r[i] = b[i] + a[i] r[i - 1], or b[i] + a[i] r[i + 1] in reverse. The operands a and b have one
// shape. Where a[i] is 0, r[i] is b[i], even after an infinity or a NaN.
void prepare_linear_scan(const PrepareCall& call, int axis, bool reverse);
// y[i] = x[i - by], and 0 if there is no such element.
void prepare_shift(const PrepareCall& call, int axis, int64_t by);

}  // namespace etude::kernels::cpu
