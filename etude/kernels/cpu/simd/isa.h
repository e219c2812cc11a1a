// SPDX-License-Identifier: Apache-2.0
//
// Macros for code that is written once and included once per instruction set.
//
// Define ISA_LANES as 16 (AVX-512), 8 (AVX2 with FMA) or 4 (any machine), include this header, then
// include the shared source inside `namespace etude::internal::ISA_NAME {`. May be included again
// for another number of lanes. Every function must carry ISA_TARGET or ISA_INLINE; a lambda, a
// std:: inline function or a `#pragma target` would let code for one machine leak into another's.

#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#undef ISA_NAME
#undef ISA_TARGET
#undef ISA_INLINE

#if ISA_LANES == 16
#define ISA_NAME avx512
#define ISA_TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")))
#elif ISA_LANES == 8
#define ISA_NAME avx2
#define ISA_TARGET __attribute__((target("avx2,fma,f16c")))
#elif ISA_LANES == 4
#define ISA_NAME portable
#define ISA_TARGET
#else
#error "define ISA_LANES as 16, 8 or 4"
#endif

#define ISA_INLINE ISA_TARGET __attribute__((always_inline)) inline
