// SPDX-License-Identifier: Apache-2.0
// The float32 loops of reductions, for the instruction set of this machine.
#include <utility>

#include "etude/kernels/cpu/reduce.h"
#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::internal
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/simd/reduce.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu::internal {

void use_vector_loops(Reduce reduce, ReduceLoops& loops) {
  const auto fold = static_cast<std::size_t>(reduce == Reduce::kMean ? Reduce::kSum : reduce);
  const auto use = [&](const auto& table) {
    loops.block = table[fold].block;
    loops.columns = table[fold].columns;
    loops.short_rows = table[fold].short_rows;
  };
#if defined(__x86_64__)
  if (etude::internal::best_isa() == etude::internal::Isa::kAvx512)
    return use(etude::internal::avx512::kFoldLoops);
  if (etude::internal::best_isa() == etude::internal::Isa::kAvx2)
    return use(etude::internal::avx2::kFoldLoops);
#endif
  use(etude::internal::portable::kFoldLoops);
}

}  // namespace etude::kernels::cpu::internal
