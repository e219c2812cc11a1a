// SPDX-License-Identifier: Apache-2.0
// The float32 loops of reductions, for the instruction set of this machine.
#include <utility>

#include "etude/kernels/cpu/reduce/reduce.h"
#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::internal
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/simd/reduce.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu::internal {

void use_vector_loops(Reduce reduce, ReduceLoops& loops) {
  const auto combine = static_cast<std::size_t>(reduce == Reduce::kMean ? Reduce::kSum : reduce);
  const ReduceLoops& vector = ETUDE_OF_BEST_ISA(etude::internal, kCombineLoops)[combine];
  loops.block = vector.block;
  loops.short_rows = vector.short_rows;
  loops.columns = vector.columns;
}

}  // namespace etude::kernels::cpu::internal
