// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/transpose.h"

#include <utility>

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/index/transpose.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {

void transpose_matrix(internal::Isa isa, float* to, int64_t to_row, const float* from,
                      int64_t from_row, int64_t rows, int64_t columns) {
  ETUDE_OF_ISA(isa, cpu, transpose)(to, to_row, from, from_row, rows, columns);
}

void transpose_matrix(float* to, int64_t to_row, const float* from, int64_t from_row, int64_t rows,
                      int64_t columns) {
  static const internal::Isa isa = internal::best_isa();
  transpose_matrix(isa, to, to_row, from, from_row, rows, columns);
}

}  // namespace etude::kernels::cpu
