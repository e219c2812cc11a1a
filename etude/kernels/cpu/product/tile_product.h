// SPDX-License-Identifier: Apache-2.0
// Etude's own float32 product kernel: small matrices, matrix times vector, and convolutions as sums
// of products over overlapping views. Large products use oneDNN (onednn/onednn.h), or pack their
// operands first (packed_product.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "etude/core/op/rules.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::kernels::cpu {

// Steps of operands that were copied into panels.
inline constexpr int64_t kPackedColumns = 32;
inline constexpr int64_t kPackedDepth = 272;  // not a power of two: rows would share cache sets
inline constexpr int64_t kPackedRows = 12;

// Chunk sizes for several threads. kFlopsPerUs: the approximate work of one core in a microsecond.
// kChunkFlops: a chunk of 20 to 40 us.
inline constexpr double kFlopsPerUs = 50e3;
inline constexpr double kChunkFlops = 2e6;

// The way in which a tile reads its operands.
enum class TileReads : int64_t {
  kPlain,       // both fit the L1 cache
  kAhead,       // b does not: it is prefetched some steps ahead
  kPacked,      // kAhead, with b_depth kPackedColumns, a_row kPackedDepth, a_depth 1
  kPackedDown,  // kAhead, with a_row 1 and a_depth kPackedRows
  kMasked,      // both fit the L1 cache, and some columns lack terms for some steps
};

// Whether tiles have AVX-512 vectors. Only such tiles support kMasked and `broad`.
bool has_wide_tiles();

// Rows of a broad tile.
inline constexpr int64_t kBroadRows = 6;

// Limits of a product with `halves`.
inline constexpr int64_t kHalvesRows = 8, kHalvesColumns = 16;

// out[i, j] = sum over s, then over ascending k, of a_s[i, k] b_s[k, j]. Each step is one fma, so
// results have the same bits on every instruction set and for every split of rows and columns.
// Steps are in elements; the columns of b and out are adjacent. Views may overlap, so that
// convolutions are products.
struct TileProduct {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t a_row = 0, a_depth = 1;
  int64_t b_depth = 0;
  int64_t out_row = 0;
  int64_t segments = 1;               // number of terms; term s starts at a + a_offset[s]
  const int64_t* a_offset = nullptr;  // null: one segment at 0
  const int64_t* b_offset = nullptr;
  const float* start = nullptr;  // initial sums: zeros, `out`, or one row (start_row 0)
  int64_t start_row = 0;
  // For kMasked: bit j of columns_of[k] is set if column j (j < 16) has a term in step k of a
  // segment. A column without a term keeps its sum: the operands there have no effect, even NaN.
  const uint16_t* columns_of = nullptr;
  // Sums the two halves of the segments separately and adds the two sums, since each addition of a
  // single chain waits for the one before it. The first half is the longer one. At most kHalvesRows
  // and kHalvesColumns; a_row is 1, and there are offsets.
  WordOf<bool> halves = false;
  // Tiles of few rows and many columns, with results written row by row: for a depth so small that
  // writing dominates. One segment, without `start`. Only AVX-512 has registers for such tiles;
  // otherwise it has no effect.
  WordOf<bool> broad = false;
  TileReads reads = TileReads::kPlain;
};
static_assert(std::has_unique_object_representations_v<TileProduct>);  // see KernelParams

// Runs on the calling thread.
void tile_product(const TileProduct& p, float* out, const float* a, const float* b);
// The same with the instruction set given, for tests. The machine must have it.
void tile_product(internal::Isa isa, const TileProduct& p, float* out, const float* a,
                  const float* b);

// A product that is a single tile, with the code for its sizes: for frequent calls.
class OneTile {
 public:
  // The last parameter is the number of columns.
  using Run = void (*)(const TileProduct&, float* out, const float* a, const float* b,
                       const float* start, std::size_t columns);

  OneTile() = default;
  // For a product without `start`.
  explicit OneTile(const TileProduct& product);
  // Whether the product is a single tile. Only then run() may be called.
  explicit operator bool() const noexcept { return run_ != nullptr; }
  void run(float* out, const float* a, const float* b) const {
    run_(product_, out, a, b, nullptr, static_cast<std::size_t>(product_.columns));
  }

 private:
  TileProduct product_;
  Run run_ = nullptr;
};

}  // namespace etude::kernels::cpu
