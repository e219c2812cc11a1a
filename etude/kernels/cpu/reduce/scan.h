// SPDX-License-Identifier: Apache-2.0
// Kernels that process the elements along one axis in order: cumulative sums and products, linear
// recurrences, shifts. Reductions are in reduce.h.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

enum class Scan : uint8_t { kSum, kProd };

struct ScanOptions {
  int axis = 0;
  bool reverse = false;
  bool exclusive = false;        // result i excludes element i
  bool include_initial = false;  // the result starts with 0 or 1, and is one element longer
};

// Scans operand 0 along an axis. The result has the dtype of a sum of the operand (reduced_dtype).
void prepare_scan(const PrepareCall& call, Scan scan, const ScanOptions& options);
// r[i] = b[i] + a[i] r[i - 1], or b[i] + a[i] r[i + 1] in reverse. The operands a and b have
// the same shape. Where a[i] is 0, r[i] is b[i], even after an infinity or a NaN.
void prepare_linear_scan(const PrepareCall& call, int axis, bool reverse);
// y[i] = x[i - by], and 0 if there is no such element.
void prepare_shift(const PrepareCall& call, int axis, int64_t by);

}  // namespace etude::kernels::cpu
