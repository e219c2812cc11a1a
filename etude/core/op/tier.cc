// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/tier.h"

#include <array>
#include <atomic>
#include <string_view>

#include "etude/base/environment.h"

namespace etude::internal {
namespace {

std::optional<Tier> tier_of_environment() {
  constexpr std::array<std::string_view, 3> kTiers{"0", "1", "2"};
#ifdef ETUDE_PORTABLE_PROGRAMS
  // Each test process would start a compiler, sanitized too.
  constexpr std::optional<Tier> kUnset = Tier::kNone;
#else
  constexpr std::optional<Tier> kUnset;
#endif
  const int tier = environment_choice("ETUDE_TIER", kTiers);
  return tier < 0 ? kUnset : static_cast<Tier>(tier);
}

std::atomic<std::optional<Tier>>& tier_setting() {
  static std::atomic<std::optional<Tier>> tier{tier_of_environment()};
  return tier;
}

}  // namespace

std::optional<Tier> fixed_tier() noexcept { return tier_setting().load(std::memory_order_relaxed); }
void fix_tier(std::optional<Tier> tier) noexcept {
  tier_setting().store(tier, std::memory_order_relaxed);
}

}  // namespace etude::internal
