// SPDX-License-Identifier: Apache-2.0
// Reads and updates of the elements of an array that index arrays and slices select. One loop
// serves take, indexing by arrays, scatter and segment reductions. Used by op records.
#pragma once

#include <utility>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/kernels/cpu/elementwise/broadcast.h"
#include "etude/kernels/cpu/index/copy.h"

namespace etude::kernels::cpu {

enum class Update : uint8_t { kSet, kAdd, kMultiply, kMin, kMax };

// An array of integers that selects positions along an axis of x.
struct IndexArray {
  WordOf<DType> dtype = DType::kInt64;
  int64_t count = 0;     // its elements
  BroadcastPlan points;  // broadcast to all points
  int64_t axis = 0;      // of x, for messages
  int64_t size = 0;      // of that axis; negative indices count from it
  int64_t stride = 0;    // of that axis, in bytes
};

// A loop over pairs of elements of x and of v: for each index of `before`, each point, each index
// of `after`.
struct IndexWalk {
  int64_t base = 0;        // byte offset into x
  CopyPlan before, after;  // from: strides of x, to: strides of v
  int64_t points = 1;
  CopyPlan points_in_v;  // `to` strides of v over the points
  std::vector<IndexArray> arrays;
  WordOf<bool> drops_outside = false;  // indices outside are skipped; else they are a fault
};

// The result is the elements of operand 0 that the walk selects, and 0 where an index is skipped.
// The other operands are the index arrays.
void prepare_gather(const PrepareCall& call, IndexWalk walk);
// The result is operand 0, updated in place if possible: the selected elements are combined with
// the elements of operand 1, in order. Every occurrence of a repeated index takes effect; with kSet
// the last occurrence wins. Results have the same bits for any number of threads. The other
// operands are the index arrays.
void prepare_update(const PrepareCall& call, IndexWalk walk, Update mode);
// The result is zeros, to which operand 0 is added at the selected positions; each sum is rounded
// to its dtype. The other operands are the index arrays.
void prepare_spread(const PrepareCall& call, IndexWalk walk);
// Each position of the result combines, by `mode`, the elements of operand 0 that select it. A
// position without elements is 0, or 1 for kMultiply, or the extreme value of the dtype for kMin
// and kMax. The second operand is the index array. The walk counts bytes of segment_dtype().
void prepare_segments(const PrepareCall& call, IndexWalk walk, Update mode);
// Halves are updated as float32 and rounded once.
DType segment_dtype(DType dtype);

// The result is operand 0, integers, as non-negative indices of an axis of size `limit`: int32 or
// int64.
void prepare_row_numbers(const PrepareCall& call, int64_t limit);

// The minimum and maximum of integers. Values beyond int64 count as the maximum of int64. {0, -1}
// if x is empty.
std::pair<int64_t, int64_t> integer_range(const Tensor& x);

}  // namespace etude::kernels::cpu
