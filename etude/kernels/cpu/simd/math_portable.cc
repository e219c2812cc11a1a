// SPDX-License-Identifier: Apache-2.0

#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_LANES 4
#include "etude/kernels/cpu/simd/isa.inc"

namespace etude::internal::ISA_NAME {
#include "etude/kernels/cpu/simd/math.inc"
#include "etude/kernels/cpu/simd/math_table.inc"
}  // namespace etude::internal::ISA_NAME
