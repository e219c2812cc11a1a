// SPDX-License-Identifier: Apache-2.0
// Reading and updating the elements of an array that index arrays and slices name. One walk serves
// take, indexing by arrays, scatter and segment reductions. Used by op records.
#pragma once

#include <utility>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/kernels/cpu/elementwise/broadcast.h"
#include "etude/kernels/cpu/index/copy.h"

namespace etude::kernels::cpu {

enum class Update : uint8_t { kSet, kAdd, kMultiply, kMin, kMax };

// One array of integers that chooses positions along an axis of x.
struct IndexArray {
  WordOf<DType> dtype = DType::kInt64;
  int64_t count = 0;     // its elements
  BroadcastPlan points;  // to all points
  int64_t axis = 0;      // of x, for messages
  int64_t size = 0;      // of that axis; negative indices count from it
  int64_t stride = 0;    // of that axis, in bytes
};

// Pairs of elements of x and of v: for each place of `before`, each point, each place of `after`.
struct IndexWalk {
  int64_t base = 0;        // byte offset into x
  CopyPlan before, after;  // from: strides of x, to: strides of v
  int64_t points = 1;
  CopyPlan points_in_v;  // `to` strides of v over the points
  std::vector<IndexArray> arrays;
  WordOf<bool> drops_outside = false;  // indices outside are skipped; else they are a fault
};

// The result is the elements of operand 0 that the walk chooses; the operands behind it are the
// index arrays. 0 where an index is skipped.
void prepare_gather(const PrepareCall& call, IndexWalk walk);
// The result is operand 0, in place where it may be, with the chosen elements updated by those of
// operand 1, in their order: repeated indices all count and kSet keeps the last. The same bits for
// any number of threads. The operands behind it are the index arrays.
void prepare_update(const PrepareCall& call, IndexWalk walk, Update mode);
// The result is zeros, to which operand 0 is added at the chosen places, and each sum is rounded to
// its dtype. The operands behind it are the index arrays.
void prepare_spread(const PrepareCall& call, IndexWalk walk);
// The result is what `mode` makes of the elements of operand 0 at each of the chosen places: where
// there are none a 0, a 1 of kMultiply, and the extreme of the dtype of kMin and kMax. The operand
// behind it is the index array. The walk counts bytes by segment_dtype().
void prepare_segments(const PrepareCall& call, IndexWalk walk, Update mode);
// Halves are updated as float32 and rounded once.
DType segment_dtype(DType dtype);

// The result is operand 0, integers, counted from the front of an axis of size `limit`: as int32 or
// int64.
void prepare_row_numbers(const PrepareCall& call, int64_t limit);

// The least and the largest of integers, those beyond int64 as its largest. {0, -1} of none.
std::pair<int64_t, int64_t> integer_range(const Tensor& x);

}  // namespace etude::kernels::cpu
