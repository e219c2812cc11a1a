// SPDX-License-Identifier: Apache-2.0
// Batching of calls that read or update a region of an array. The batch axis is sliced as a whole
// if the index arrays are the same for all examples; else it is indexed by the example number.
#pragma once

#include <vector>

#include "etude/core/op/batching.h"
#include "etude/ops/index/index_plan.h"

namespace etude::ops {

// A region of x and the arrays that index x, for one example or for a batch.
struct BatchedRegion {
  IndexRegion region;
  std::vector<Tensor> arrays;
  int at = 0;       // position of the point axes among the axes of an example
  int points = 0;   // number of point axes
  bool by_example;  // whether an array holds the example numbers

  // Reorders the result of index_get for this region: the axes of an example come in order.
  Tensor value_of(const Tensor& got) const;
  // Reorders a value for index_update on this region. The value is [batch, ...] if `batched`.
  Tensor value_for(const Tensor& value, bool batched) const;
};

// Makes the region of a batch from the `region` of an example. The index arrays are the operands
// from `first` on.
BatchedRegion batch_region(const BatchCall& call, const IndexRegion& region, std::size_t first);
// get_region returns x[region]; update_region returns x after writing `value` there by `mode`. Each
// makes one call of index_get or index_update. An x that is passed by value may be overwritten.
Tensor get_region(const Tensor& x, const BatchedRegion& from);
Tensor update_region(const Tensor& x, const Tensor& value, const BatchedRegion& to,
                     std::string_view mode, bool is_given = false);

}  // namespace etude::ops
