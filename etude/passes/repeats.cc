// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/repeats.h"

#include <algorithm>
#include <utility>

namespace etude::internal {
namespace {

// A period is the distance between an item and one of its next kMostTried equal items. Items that
// occur more often in a step do not reveal the period, but other items of the step do.
constexpr int kMostTried = 16;
constexpr std::size_t kBudget = 256;  // comparisons an item

}  // namespace

RepeatFinder::RepeatFinder(std::vector<uint64_t> items, std::size_t least_count,
                           std::size_t least_saved)
    : items_(std::move(items)),
      least_count_(least_count),
      least_saved_(least_saved),
      next_(items_.size(), items_.size()),
      budget_(kBudget * items_.size()) {
  std::unordered_map<uint64_t, std::size_t> seen;
  for (std::size_t i = items_.size(); i-- > 0;) {
    const auto [at, is_new] = seen.try_emplace(items_[i], i);
    if (!is_new) next_[i] = std::exchange(at->second, i);
  }
}

std::size_t RepeatFinder::end_of_run(std::size_t at, std::size_t period) {
  // A run examined from an earlier item that ends after this item ends there for both.
  std::size_t& end = run_end_.try_emplace(period, at).first->second;
  if (end > at) return end;
  end = at;
  while (end + period < items_.size() && items_[end] == items_[end + period]) ++end;
  budget_ -= std::min(budget_, end - at + 1);
  return end;
}

Repeat RepeatFinder::next(std::size_t from) {
  for (std::size_t i = from; i < items_.size() && budget_ > 0; ++i) {
    std::size_t other = next_[i];
    for (int tried = 0; other < items_.size() && tried < kMostTried; ++tried) {
      const std::size_t period = other - i;
      const std::size_t count = (end_of_run(i, period) - i) / period + 1;
      if (count >= least_count_ && (count - 1) * period >= least_saved_) return {i, period, count};
      other = next_[other];
    }
  }
  return {};
}

}  // namespace etude::internal
