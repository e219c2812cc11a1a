// SPDX-License-Identifier: Apache-2.0
#include "etude/lazy/follow.h"

#include <algorithm>

namespace etude::internal {

const LazyExpected* LazyFollow::elsewhere(const Op& op, uint32_t attrs, const Type* const* types,
                                          std::size_t size) noexcept {
  for (std::size_t k = 0; k < kLists; ++k) {
    if (k == current_ || at_ >= lists_[k].size()) continue;
    if (!lists_[k][at_].holds(op, attrs, types, size)) continue;
    current_ = k;
    last_use_[k] = ++uses_;
    ++followed_;
    return &lists_[k][at_++];
  }
  return nullptr;
}

void LazyFollow::learn(const Op& op, uint32_t attrs, std::span<const Type* const> types,
                       std::span<const Type* const> results, uint64_t hash) {
  if (at_ == kMost) at_ = 0;
  if (at_ < lists_[current_].size()) {  // keeps this sequence; drops the least recently used
    current_ = static_cast<std::size_t>(std::ranges::min_element(last_use_) - last_use_.begin());
    last_use_[current_] = ++uses_;
  }
  std::vector<LazyExpected>& list = lists_[current_];
  list.resize(at_);  // places that were never reached hold no call
  LazyExpected& entry = list.emplace_back();
  ++at_;
  const bool fits = LazyExpected::can_hold(types.size(), attrs);
  if (!fits || results.size() > LazyExpected::kMostResults) return;
  entry.set(op, attrs, types.data(), types.size());
  std::ranges::copy(results, entry.results.begin());
  entry.result_count = results.size();
  entry.hash = hash;
}

void LazyFollow::restart() noexcept {
  at_ = 0;
  last_use_[current_] = ++uses_;
}

}  // namespace etude::internal
