// SPDX-License-Identifier: Apache-2.0

#include "etude/kernels/cpu/simd/math_table.h"

#if defined(__x86_64__) && !defined(ETUDE_WITHOUT_AVX512)

#define ISA_LANES 16
#include "etude/kernels/cpu/simd/isa.inc"

namespace etude::internal::ISA_NAME {
#include "etude/kernels/cpu/simd/math.inc"
#include "etude/kernels/cpu/simd/math_table.inc"
}  // namespace etude::internal::ISA_NAME
#endif
