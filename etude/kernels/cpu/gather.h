// SPDX-License-Identifier: Apache-2.0
// Reading and updating the elements of an array that index arrays and slices name. One walk serves
// take, indexing by arrays, scatter and segment reductions. Used by op records.
#pragma once

#include <vector>

#include "etude/core/dtype.h"
#include "etude/kernels/cpu/broadcast.h"
#include "etude/kernels/cpu/copy.h"

namespace etude::kernels::cpu {

enum class Update : uint8_t { kSet, kAdd, kMultiply, kMin, kMax };

// One array of integers that chooses positions along an axis of x.
struct IndexArray {
  DType dtype = DType::kInt64;
  int64_t count = 0;     // its elements
  BroadcastPlan points;  // to all points
  int axis = 0;          // of x, for messages
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
  bool drops_outside = false;  // indices outside are skipped; else they are a fault
};

// v = the chosen elements of x; places of skipped indices are left as they are. indices: one
// pointer per array. False after report_fault.
bool gather(const IndexWalk& walk, void* v, const void* x, const void* const* indices);
// Updates the chosen elements of x by those of v, in the order of v: repeated indices all count and
// kSet keeps the last. The same bits for any number of threads.
bool update(const IndexWalk& walk, Update mode, DType dtype, void* x, const void* v,
            const void* const* indices);

}  // namespace etude::kernels::cpu
