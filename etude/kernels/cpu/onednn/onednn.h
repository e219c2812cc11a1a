// SPDX-License-Identifier: Apache-2.0
// Large float32 products by oneDNN, on the calling thread only. No other folder includes headers of
// oneDNN. Callers split work with parallel_for.
#pragma once

#include <cstdint>

namespace etude::kernels::cpu::onednn {

// out[m, n] = a[m, k] b[k, n]. All matrices are row-major with the given row steps; a transposed
// operand is stored as [k, m] or [n, k].
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t a_row = 0, b_row = 0, out_row = 0;
};
// throws: kUnimplemented if oneDNN, which the first call loads, is missing; kResourceExhausted if
// it gets no memory.
void gemm(const Gemm& g, float* out, const float* a, const float* b);

}  // namespace etude::kernels::cpu::onednn
