// SPDX-License-Identifier: Apache-2.0
// How the machine code was made that stands for a fused program or a region.
#pragma once

#include <cstdint>

namespace etude::internal {

// A higher tier is the better code; all give the same bits.
enum class Tier : std::uint8_t {
  kNone = 0,  // no code: the kernels of records run
  kFast = 1,  // made in about a third of the time, and runs at about half of the speed
  kBest = 2,
};

}  // namespace etude::internal
