// SPDX-License-Identifier: Apache-2.0
// The quality of the machine code of a fused program or a region.
#pragma once

#include <cstdint>

namespace etude::internal {

// A higher tier is faster; all tiers return the same bits.
enum class Tier : std::uint8_t {
  kNone = 0,  // no code: the kernels of records run
  kFast = 1,  // compiles in about a third of the time, and runs at about half of the speed
  kBest = 2,
};

}  // namespace etude::internal
