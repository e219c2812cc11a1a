// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/product/tile_product.h"

#include <utility>

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/product/tile_product.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {

void tile_product(internal::Isa isa, const TileProduct& p, float* out, const float* a,
                  const float* b) {
  ETUDE_OF_ISA(isa, cpu, product)(p, out, a, b);
}

bool has_wide_tiles() { return internal::best_isa() == internal::Isa::kAvx512; }

OneTile::OneTile(const TileProduct& product)
    : product_(product), run_(ETUDE_OF_BEST_ISA(cpu, only_tile)(product)) {}

void tile_product(const TileProduct& p, float* out, const float* a, const float* b) {
  static const internal::Isa isa = internal::best_isa();
  tile_product(isa, p, out, a, b);
}

}  // namespace etude::kernels::cpu
