// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/product/packed_product.h"

#include <algorithm>
#include <cstring>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/index/transpose.h"
#include "etude/kernels/cpu/product/tile_product.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

// A panel of a stays in the first cache while the panels of b come from the second.
constexpr int64_t kDepth = 256;       // of the panels: 12 KiB of a
constexpr int64_t kColumns = 512;     // of b that are packed at a time: half a MiB
constexpr double kFloatsPerUs = 1e3;  // that are packed

enum Purpose { kRowPanel = 40, kColumnPanels };

// One block of columns and depths of b, packed, and where it lies.
struct Block {
  const float* packed;
  int64_t column, columns, depth_begin, depth;
};

// Whether a column of a is adjacent in memory: then panels are [depth, rows], else [rows, depth],
// so that packing copies runs.
bool lies_down(const PackedProduct& p) { return p.a_depth != 1; }

void pack_rows(const PackedProduct& p, float* to, const float* a, int64_t rows, int64_t depth) {
  if (!lies_down(p)) {
    for (int64_t i = 0; i < rows; ++i) std::copy_n(a + i * p.a_row, depth, to + i * kPackedDepth);
    return;
  }
  for (int64_t k = 0; k < depth; ++k, to += kPackedRows, a += p.a_depth) {
    if (rows == kPackedRows) {
      std::memcpy(to, a, kPackedRows * sizeof(float));  // inline, where copy_n is a call
      continue;
    }
    for (int64_t i = 0; i < rows; ++i) to[i] = a[i];
  }
}

// Prefetches a part of the rows that are packed next, while others are multiplied.
void ask_for_rows(const PackedProduct& p, const float* a, int64_t begin, int64_t end) {
  constexpr int64_t kLine = 16;
  for (int64_t k = begin; k < end; k += kLine) {
    for (int64_t i = 0; i < kPackedRows; ++i) __builtin_prefetch(a + i * p.a_row + k);
  }
}

// Prefetches the results of one tile while the previous tile is multiplied.
void ask_for_results(const float* out, int64_t out_row, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    __builtin_prefetch(out + i * out_row, 1);
    __builtin_prefetch(out + i * out_row + kPackedColumns - 1, 1);
  }
}

void multiply_rows(const PackedProduct& p, const Block& block, float* out, const float* a,
                   int64_t row, int64_t rows) {
  float* packed = thread_scratch<float, kRowPanel>(kPackedRows * kPackedDepth);
  a += row * p.a_row + block.depth_begin * p.a_depth;
  out += row * p.out_row + block.column;
  ask_for_results(out, p.out_row, rows);
  pack_rows(p, packed, a, rows, block.depth);
  const bool down = lies_down(p);
  TileProduct t;
  t.rows = rows;
  t.depth = block.depth;
  t.a_row = down ? 1 : kPackedDepth;
  t.a_depth = down ? kPackedRows : 1;
  t.b_depth = kPackedColumns;
  t.out_row = t.start_row = p.out_row;
  t.reads = down ? TileReads::kPackedDown : TileReads::kPacked;
  const bool asks = !down && row + rows + kPackedRows <= p.m;
  for (int64_t j = 0; j < block.columns; j += kPackedColumns) {
    const int64_t end = std::min(block.columns, j + kPackedColumns);
    if (asks) {
      ask_for_rows(p, a + rows * p.a_row, j * block.depth / block.columns,
                   end * block.depth / block.columns);
    }
    if (end < block.columns) ask_for_results(out + end, p.out_row, rows);
    t.columns = end - j;
    t.start = block.depth_begin > 0 ? out + j : nullptr;
    tile_product(t, out + j, packed, block.packed + j * block.depth);
  }
}

void multiply_block(const PackedProduct& p, const Block& block, float* out, const float* a) {
  const int64_t panels = (p.m + kPackedRows - 1) / kPackedRows;
  const double us = 2.0 * static_cast<double>(p.m * block.columns * block.depth) / kFlopsPerUs;
  const auto at_least = static_cast<int64_t>(static_cast<double>(panels) * 30 / (us + 1));
  const int64_t per_chunk = std::clamp<int64_t>(at_least, 1, panels);
  parallel_for((panels + per_chunk - 1) / per_chunk, us, [&](int64_t chunk) {
    const int64_t end = std::min(panels, (chunk + 1) * per_chunk);
    for (int64_t i = chunk * per_chunk; i < end; ++i) {
      // Panels of nearly equal height: 13 rows are 7 and 6, not 12 and 1.
      const int64_t row = i * p.m / panels;
      multiply_rows(p, block, out, a, row, (i + 1) * p.m / panels - row);
    }
  });
}

}  // namespace

void pack_columns(float* to, const float* b, int64_t b_depth, int64_t b_column, int64_t depth,
                  int64_t columns) {
  pack_columns(to, b, b_depth, b_column, depth, columns, 0, depth);
}

void pack_columns(float* to, const float* b, int64_t b_depth, int64_t b_column, int64_t depth,
                  int64_t columns, int64_t begin, int64_t end) {
  // Row by row, so that few pages of b are in use.
  constexpr int64_t kLine = 16;  // floats of a column that are read at a time
  for (int64_t first = begin; first < end; first += kLine) {
    const int64_t last = std::min(end, first + kLine);
    for (int64_t j = 0; j < columns; j += kPackedColumns) {
      const int64_t width = std::min(kPackedColumns, columns - j);
      float* panel = to + j * depth;
      const float* from = b + j * b_column;
      for (int64_t k = first; b_column == 1 && k < last; ++k) {
        std::copy_n(from + k * b_depth, width, panel + k * kPackedColumns);
      }
      if (b_column == 1) continue;
      transpose_matrix(panel + first * kPackedColumns, kPackedColumns, from + first, b_column,
                       width, last - first);
    }
  }
}

void packed_product(const PackedProduct& p, float* out, const float* a, const float* b) {
  float* packed = thread_scratch<float, kColumnPanels>(
      std::min(kDepth, p.k) *
      ((std::min(kColumns, p.n) + kPackedColumns - 1) / kPackedColumns * kPackedColumns));
  for (int64_t column = 0; column < p.n; column += kColumns) {
    const int64_t columns = std::min(kColumns, p.n - column);
    for (int64_t begin = 0; begin < p.k; begin += kDepth) {
      const Block block{packed, column, columns, begin, std::min(kDepth, p.k - begin)};
      const float* from = b + begin * p.b_depth + column * p.b_column;
      constexpr int64_t kRows = 32;  // of one chunk
      parallel_for((block.depth + kRows - 1) / kRows,
                   static_cast<double>(columns * block.depth) / kFloatsPerUs, [&](int64_t i) {
                     pack_columns(packed, from, p.b_depth, p.b_column, block.depth, columns,
                                  i * kRows, std::min(block.depth, (i + 1) * kRows));
                   });
      multiply_block(p, block, out, a);
    }
  }
}

void own_gemm(const onednn::Gemm& g, float* out, const float* a, const float* b) {
  PackedProduct p;
  p.m = g.m;
  p.n = g.n;
  p.k = g.k;
  p.a_row = g.transpose_a ? 1 : g.a_row;
  p.a_depth = g.transpose_a ? g.a_row : 1;
  p.b_depth = g.transpose_b ? 1 : g.b_row;
  p.b_column = g.transpose_b ? g.b_row : 1;
  p.out_row = g.out_row;
  packed_product(p, out, a, b);
}

}  // namespace etude::kernels::cpu
