// SPDX-License-Identifier: Apache-2.0
// Large float32 products. Blocks of both operands are copied into panels that fit the caches and
// are read in order; the tiles of tile_product.h sum them. Small products use the tiles directly.
#pragma once

#include <cstdint>

#include "etude/kernels/cpu/onednn/onednn.h"
#include "etude/kernels/cpu/product/tile_product.h"

namespace etude::kernels::cpu {

// out[i, j] = sum over ascending k of a[i, k] b[k, j]. As in tile_product, each step is one fma, so
// results have the same bits for every split and instruction set. Steps are in elements. Each of a
// and b has a step of 1; the columns of out are adjacent.
struct PackedProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_depth = 1;
  int64_t b_depth = 0, b_column = 1;
  int64_t out_row = 0;
};

// Splits the work over threads, except in calls from a chunk of parallel_for.
// throws: std::bad_alloc.
void packed_product(const PackedProduct& p, float* out, const float* a, const float* b);

// Computes a product in the form of oneDNN by packed_product(). throws: std::bad_alloc.
void own_gemm(const onednn::Gemm& g, float* out, const float* a, const float* b);

// Copies columns [0, columns) of b, [depth, columns] with the given steps, into consecutive panels
// [depth, 32]. Elements beyond the last column are undefined.
void pack_columns(float* to, const float* b, int64_t b_depth, int64_t b_column, int64_t depth,
                  int64_t columns);
// The same, but only for depths [begin, end).
void pack_columns(float* to, const float* b, int64_t b_depth, int64_t b_column, int64_t depth,
                  int64_t columns, int64_t begin, int64_t end);

}  // namespace etude::kernels::cpu
