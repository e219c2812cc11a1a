// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/pool_mean.h"

#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/pool_mean.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {
namespace {

struct Loops {
  void (*mean)(const MeanWindows&, float*, const float*);
  void (*spread)(const MeanWindows&, float*, const float*);
};
const Loops& loops() {
  static const Loops chosen = [] {
#if defined(__x86_64__)
    if (internal::best_isa() == internal::Isa::kAvx512) {
      return Loops{avx512::mean_windows, avx512::spread_windows};
    }
    if (internal::best_isa() == internal::Isa::kAvx2) {
      return Loops{avx2::mean_windows, avx2::spread_windows};
    }
#endif
    return Loops{portable::mean_windows, portable::spread_windows};
  }();
  return chosen;
}

}  // namespace

void mean_windows(const MeanWindows& p, float* y, const float* x) { loops().mean(p, y, x); }
void spread_windows(const MeanWindows& p, float* x, const float* y) { loops().spread(p, x, y); }

}  // namespace etude::kernels::cpu
