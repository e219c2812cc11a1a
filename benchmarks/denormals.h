// SPDX-License-Identifier: Apache-2.0
// As in all benchmarks here: numbers too small to be normal count as 0, for all that is compared.
#pragma once

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace etude::bench {

inline void flush_denormals() {
#ifdef __SSE2__
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _mm_setcsr(_mm_getcsr() | 0x0040);  // denormals are zeros
#endif
}

}  // namespace etude::bench
