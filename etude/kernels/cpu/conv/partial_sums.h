// SPDX-License-Identifier: Apache-2.0
// Splits filter gradients into partial sums. The split depends only on shapes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "etude/kernels/cpu/product/tile_product.h"

namespace etude::kernels::cpu {

// The number of partial sums of a filter gradient of `size` floats: as many as fit the L2 cache
// together, but at least four.
inline int64_t most_partials(double flops, int64_t size) {
  constexpr int64_t kMost = 32, kFloats = 1 << 18;
  const auto by_work = static_cast<int64_t>(flops / kChunkFlops);
  const int64_t by_size = std::max<int64_t>(4, kFloats / size);
  return std::clamp<int64_t>(std::min(by_work, by_size), 1, kMost);
}

// Adds partial sums 1 .. count - 1 to the first.
inline void add_partials(float* partials, int64_t count, int64_t size) {
  for (int64_t k = 1; k < count; ++k) {
    const float* sum = partials + k * size;
    for (int64_t i = 0; i < size; ++i) partials[i] += sum[i];
  }
}

}  // namespace etude::kernels::cpu
