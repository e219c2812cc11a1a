// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/small_matrices.h"

#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::kernels::cpu::small
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/small_matrices.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {

template <class T>
const SmallMath<T>& small_math() {
  static const SmallMath<T> chosen = [] {
#if defined(__x86_64__)
    using etude::internal::Isa;
    const Isa isa = etude::internal::best_isa();
    if (isa == Isa::kAvx512) {
      return SmallMath<T>{small::avx512::small_cholesky<T>, small::avx512::small_solve<T>,
                          small::avx512::small_qr<T>};
    }
    if (isa == Isa::kAvx2) {
      return SmallMath<T>{small::avx2::small_cholesky<T>, small::avx2::small_solve<T>,
                          small::avx2::small_qr<T>};
    }
#endif
    return SmallMath<T>{small::portable::small_cholesky<T>, small::portable::small_solve<T>,
                        small::portable::small_qr<T>};
  }();
  return chosen;
}
template const SmallMath<float>& small_math<float>();
template const SmallMath<double>& small_math<double>();

}  // namespace etude::kernels::cpu
