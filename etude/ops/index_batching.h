// SPDX-License-Identifier: Apache-2.0
// Batching of calls that read or update a region of an array: one more axis, sliced whole where the
// index arrays are the same for all examples, else indexed by the number of the example.
#pragma once

#include <vector>

#include "etude/core/batching.h"
#include "etude/ops/index_plan.h"

namespace etude::ops {

// A region of x and the arrays that index it, for one example or for a batch.
struct BatchedRegion {
  IndexRegion region;
  std::vector<Tensor> arrays;
  int at = 0;       // where points stand among the axes of an example's value
  int points = 0;   // their axes
  bool by_example;  // whether an array has the number of the example

  // What index_get gives for it, with the axes of an example in their order.
  Tensor value_of(const Tensor& got) const;
  // A value to write there, [batch, ...] if `batched`, in the order of axes that index_update
  // wants.
  Tensor value_for(const Tensor& value, bool batched) const;
};

// `region` of an example. The index arrays are the operands from `first` on.
BatchedRegion batch_region(const BatchCall& call, const IndexRegion& region, std::size_t first);
// x[region], and x with `value` put there by `mode`: one call of index_get and of index_update. An
// x that is given may be overwritten.
Tensor get_region(const Tensor& x, const BatchedRegion& from);
Tensor update_region(const Tensor& x, const Tensor& value, const BatchedRegion& to,
                     std::string_view mode, bool is_given = false);

}  // namespace etude::ops
