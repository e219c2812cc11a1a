// SPDX-License-Identifier: Apache-2.0
// Predicts the next call of a thread from the sequences of calls that the thread recorded between
// earlier cuts. A call matches the prediction if op, attributes and operand types are equal. The
// facts that follow from these alone (result types, hash, whether the call may wait) then need no
// look-up.
//
// Invariant: an entry holds the whole key of its call and only facts that follow from the key. So a
// wrong prediction costs only a comparison, and the call is recorded like any other. Builds with
// assertions also look up each predicted call and compare.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "etude/core/call/call_key.h"
#include "etude/eager/dispatch.h"

namespace etude::internal {

struct LazyExpected : CallKey<kDispatchOperands> {
  static constexpr std::size_t kMostResults = 3;
  std::array<const Type*, kMostResults> results{};
  std::size_t result_count = 0;
  uint64_t hash = 0;  // of op, attributes and types

  std::span<const Type* const> result_types() const noexcept {
    return {results.data(), result_count};
  }
};

// Stores several sequences of calls, and the position of the thread in one of them.
// threads: confined to its thread.
class LazyFollow {
 public:
  // If this is the expected call, returns it and advances. Valid until the next call of learn().
  const LazyExpected* next(const Op& op, uint32_t attrs, const Type* const* types,
                           std::size_t size) noexcept {
    const std::vector<LazyExpected>& list = lists_[current_];
    if (at_ < list.size() && list[at_].holds(op, attrs, types, size)) [[likely]] {
      ++followed_;
      return &list[at_++];
    }
    return elsewhere(op, attrs, types, size);
  }
  // Records another call at this position. From now on it is expected here.
  void learn(const Op& op, uint32_t attrs, std::span<const Type* const> types,
             std::span<const Type* const> results, uint64_t hash);
  // Call this after a cut: the next call is then the first of a sequence.
  void restart() noexcept;
  // The number of predicted calls since the last query.
  int64_t take_count() noexcept { return std::exchange(followed_, 0); }

 private:
  static constexpr std::size_t kLists = 4, kMost = 8192;
  // Switches to another sequence that has this call at this position.
  const LazyExpected* elsewhere(const Op& op, uint32_t attrs, const Type* const* types,
                                std::size_t size) noexcept;

  std::array<std::vector<LazyExpected>, kLists> lists_;
  std::array<uint64_t, kLists> last_use_{};
  uint64_t uses_ = 0;
  std::size_t current_ = 0, at_ = 0;
  int64_t followed_ = 0;
};

}  // namespace etude::internal
