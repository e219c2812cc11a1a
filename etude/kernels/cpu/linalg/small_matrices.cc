// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/linalg/small_matrices.h"

#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::kernels::cpu::small
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/linalg/small_matrices.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {

template <class T>
const SmallMath<T>& small_math() {
  static const SmallMath<T> chosen{ETUDE_OF_BEST_ISA(small, small_cholesky<T>),
                                   ETUDE_OF_BEST_ISA(small, small_solve<T>),
                                   ETUDE_OF_BEST_ISA(small, small_qr<T>)};
  return chosen;
}
template const SmallMath<float>& small_math<float>();
template const SmallMath<double>& small_math<double>();

}  // namespace etude::kernels::cpu
