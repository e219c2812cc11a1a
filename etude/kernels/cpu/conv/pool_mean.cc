// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/conv/pool_mean.h"

#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/conv/pool_mean.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {
namespace {

struct Loops {
  void (*mean)(const MeanWindows&, float*, const float*);
  void (*spread)(const MeanWindows&, float*, const float*);
};
const Loops& loops() {
  static const Loops chosen{ETUDE_OF_BEST_ISA(cpu, mean_windows),
                            ETUDE_OF_BEST_ISA(cpu, spread_windows)};
  return chosen;
}

}  // namespace

void mean_windows(const MeanWindows& p, float* y, const float* x) { loops().mean(p, y, x); }
void spread_windows(const MeanWindows& p, float* x, const float* y) { loops().spread(p, x, y); }

}  // namespace etude::kernels::cpu
