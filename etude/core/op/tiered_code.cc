// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/tiered_code.h"

#include <utility>

namespace etude::internal {
namespace {

// When code is worth its making, which takes a millisecond or two at Tier 1 and three times that at
// Tier 2: once as much time went into running without it.
constexpr uint64_t kForFast = 1'000'000, kForBest = 10'000'000;

}  // namespace

// Counts of two threads at once may be lost.
void TieredCode::add_run(uint64_t ns) const noexcept {
  const uint64_t spent = spent_.load(std::memory_order_relaxed) + ns;
  spent_.store(spent, std::memory_order_relaxed);
  if (spent < kForFast) return;
  const Tier tier = spent < kForBest ? Tier::kFast : Tier::kBest;
  if (asked_for_.load(std::memory_order_relaxed) >= tier) return;
  if (asked_for_.exchange(tier) >= tier) return;
  make_code_in_background(*this, tier);
}

void TieredCode::set_code(Tier tier, void* code, std::shared_ptr<const void> owner) const {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::size_t>(tier);
  if (code == nullptr || by_tier_[at] != nullptr) return;
  by_tier_[at] = code;
  owners_[at] = std::move(owner);
  if (tier < tier_.load(std::memory_order_relaxed)) return;
  tier_.store(tier, std::memory_order_relaxed);
  best_.store(code, std::memory_order_release);
}

void* TieredCode::find(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return by_tier_[static_cast<std::size_t>(tier)];
}

void* TieredCode::code_of(Tier tier) const {
  if (void* const known = find(tier); known != nullptr || tier == Tier::kNone) return known;
  make_code_now(*this, tier);
  return find(tier);
}

}  // namespace etude::internal
