// SPDX-License-Identifier: Apache-2.0
// Reductions over axes. Used by op records. Not for scans (scan.h) and positions (sorting.h).
//
// The tree of a sum depends only on shapes, so results have the same bits for every instruction set
// and number of threads. Contiguous elements: in a block of 4096, element i goes to partial i % 64
// (16 lanes by 4 accumulators), partials are folded by halves (j with j + 32, then j + 16, ...),
// and blocks are folded in pairs. Columns: rows are added in groups of four, (r0 + r1) + (r2 + r3),
// one group after another in a block of 256 rows, and blocks are folded in pairs. Groups of axes
// that are not adjacent are reduced one after another, innermost first, without rounding in
// between.
#pragma once

#include <span>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

enum class Reduce : uint8_t { kSum, kProd, kMax, kMin, kAll, kAny, kCountNonzero, kMean };

// The result dtype of a reduction of `dtype`: sums and products of narrow integers widen to int32
// or uint32, reductions of bools are bool, counts int64.
DType reduced_dtype(Reduce reduce, DType dtype);

// The kernel of a call that reduces operand 0 over `axes` (each in [0, rank), once).
void prepare_reduce(const PrepareCall& call, Reduce reduce, std::span<const int> axes);

namespace internal {

inline constexpr int64_t kReduceBlock = 4096;  // contiguous elements per unit of work
inline constexpr int64_t kShortRow = 16;       // elements, at most
inline constexpr int64_t kReduceRows = 256;    // rows of a block, when columns are reduced

// The loops of one reduction from one dtype. Accumulators are `acc_bytes` wide.
struct ReduceLoops {
  int64_t in_bytes = 0;
  int64_t acc_bytes = 0;
  // Reduces n <= kReduceBlock elements to one accumulator.
  void (*block)(void* acc, const void* in, int64_t n) = nullptr;
  // Applies block() to each of `rows` adjacent rows of n <= kShortRow elements. May be null.
  void (*short_rows)(void* acc, const void* in, int64_t rows, int64_t n) = nullptr;
  // Reduces `rows` rows, which are `stride` elements apart, to acc[j] for `width` columns.
  void (*columns)(void* acc, const void* in, int64_t rows, int64_t stride, int64_t width) = nullptr;
  // a[i] = a[i] op b[i].
  void (*combine)(void* a, const void* b, int64_t n) = nullptr;
  // Sets n accumulators to the result of an empty reduction.
  void (*clear)(void* acc, int64_t n) = nullptr;
};

// Plain loops for any dtype; for float32, vector loops replace the loops that read `in`.
ReduceLoops arithmetic_loops(Reduce reduce, DType dtype, bool is_first);
ReduceLoops bool_loops(Reduce reduce, DType dtype, bool is_first);
void use_vector_loops(Reduce reduce, ReduceLoops& loops);
// The same for the first pass over a half type: rows are widened for the vector loops.
void use_widening_loops(Reduce reduce, DType dtype, ReduceLoops& loops);

}  // namespace internal
}  // namespace etude::kernels::cpu
