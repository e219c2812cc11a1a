// SPDX-License-Identifier: Apache-2.0
// The quality of the machine code of a fused program or a cluster.
#pragma once

#include <cstdint>
#include <optional>

namespace etude::internal {

// A higher tier is faster; all tiers return the same bits.
enum class Tier : uint8_t {
  kNone = 0,  // no code: the kernels of records run
  kFast = 1,  // compiles in about a third of the time, and runs at about half of the speed
  kBest = 2,
};

// The tier of kernels and plans that are prepared from now on. ETUDE_TIER (0, 1 or 2) or a test
// sets it. If it is empty, the accumulated run time decides. If no code is made, the kernels of
// records run instead.
// threads: thread-safe.
std::optional<Tier> fixed_tier() noexcept;
void fix_tier(std::optional<Tier> tier) noexcept;

}  // namespace etude::internal
