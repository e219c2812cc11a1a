// SPDX-License-Identifier: Apache-2.0
// One mixing step for hash tables with ids and sizes as keys. Not for untrusted strings.
#pragma once

#include <cstdint>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The finaliser of splitmix64: every input bit changes every output bit with probability one half.
constexpr uint64_t mix(uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
constexpr uint64_t mix(uint64_t seed, uint64_t value) noexcept { return mix(seed ^ mix(value)); }

}  // namespace internal
}  // namespace etude
