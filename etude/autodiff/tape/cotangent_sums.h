// SPDX-License-Identifier: Apache-2.0
// The cotangent sums of a reverse pass, by the slot of a value. Used by tape_sweep.cc.
// threads: confined to its thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"

namespace etude::internal {

class CotangentSums {
 public:
  explicit CotangentSums(std::size_t slots) : sums_(slots) {}

  std::size_t size() const noexcept { return sums_.size(); }
  // Adds a cotangent. The first cotangent is stored unchanged; later cotangents are added in place.
  // Sparse rows are appended to a list and joined when the sum is read, so n additions cost O(n).
  void add(uint32_t slot, Tensor&& g, CallSite where);
  bool is_empty(uint32_t slot) const noexcept { return !sums_[slot].has_value(); }
  // Returns the sum; absent if no cotangent arrived.
  Tensor& at(uint32_t slot) {
    if (!rows_.empty()) join(slot);
    return sums_[slot];
  }
  // Prepares the sum for cotangents of parts of the value. Such a cotangent counts as a tensor that
  // is 0 outside of the part, but only the part is added. So the sum becomes dense, and its
  // elements -0 become 0.
  // cost: one pass over the sum, for the first part that reaches the slot.
  void prepare_for_part(uint32_t slot, CallSite where);

 private:
  void join(uint32_t slot);
  void add_slices(uint32_t slot, const IndexedSlices& rows, CallSite where);

  std::vector<Tensor> sums_;
  // Rows that are not joined yet. The rows of the sum come first.
  std::unordered_map<uint32_t, std::vector<IndexedSlices>> rows_;
  // By slot: whether no element of the sum is -0. Later additions make no -0. Empty: false for all.
  std::vector<bool> is_without_minus_zero_;
};

}  // namespace etude::internal
