// SPDX-License-Identifier: Apache-2.0
// Large float32 products: blocks of both operands are copied into panels that fit the caches and
// are read in order, and summed by the tiles of tile_product.h. Small products use the tiles
// directly.
#pragma once

#include <cstdint>

#include "etude/kernels/cpu/onednn/onednn.h"
#include "etude/kernels/cpu/product/tile_product.h"

namespace etude::kernels::cpu {

// out[i, j] = sum over k ascending of a[i, k] b[k, j], each step one fma, as tile_product: the same
// bits for every split and instruction set. Steps are in elements; one step of a and one of b is 1;
// the columns of out are adjacent.
struct PackedProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_depth = 1;
  int64_t b_depth = 0, b_column = 1;
  int64_t out_row = 0;
};

// Split over threads, except in calls from a chunk of parallel_for. throws: std::bad_alloc.
void packed_product(const PackedProduct& p, float* out, const float* a, const float* b);

// A product in the form of oneDNN, by packed_product(). throws: std::bad_alloc.
void own_gemm(const onednn::Gemm& g, float* out, const float* a, const float* b);

// Columns [0, columns) of b, [depth, columns] with the given steps, as consecutive panels [depth,
// 32]; elements beyond the last column are undefined.
void pack_columns(float* to, const float* b, int64_t b_depth, int64_t b_column, int64_t depth,
                  int64_t columns);
// Only depths [begin, end) of them.
void pack_columns(float* to, const float* b, int64_t b_depth, int64_t b_column, int64_t depth,
                  int64_t columns, int64_t begin, int64_t end);

}  // namespace etude::kernels::cpu
