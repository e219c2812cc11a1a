// SPDX-License-Identifier: Apache-2.0
#include <oneapi/dnnl/dnnl.h>

#include "etude/kernels/cpu/onednn/one_thread.h"
#include "etude/kernels/cpu/onednn/onednn.h"

namespace etude::kernels::cpu::onednn {

void gemm(const Gemm& g, float* out, const float* a, const float* b) {
  const OneThread one_thread;
  // It fails for wrong sizes only, and those come from a type rule.
  dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, a, g.a_row,
             b, g.b_row, 0.0f, out, g.out_row);
}

}  // namespace etude::kernels::cpu::onednn
