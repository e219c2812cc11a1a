// SPDX-License-Identifier: Apache-2.0
// Philox-4x32-10, a counter-based random generator: each word is a pure function of key and
// position, so elements can be drawn in any order, on any thread or device. Used by the random ops
// and by data shuffling. Not for cryptography. Source: Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

#include "etude/version.h"

namespace ETUDE_API etude {

// A seed has 2^64 independent streams. A stream has 2^64 blocks of four words.
struct PhiloxKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
  constexpr bool operator==(const PhiloxKey&) const = default;
};

// Returns four random words. The counter of the cipher is (block, stream), and the key of the
// cipher is the seed. Each 64-bit number is passed with its low 32 bits first.
//
// cost: 20 multiplications, no branch.
constexpr std::array<uint32_t, 4> philox(PhiloxKey key, uint64_t block) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
  constexpr int kRounds = 10;
  uint32_t c0 = static_cast<uint32_t>(block);
  uint32_t c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = static_cast<uint32_t>(key.stream);
  uint32_t c3 = static_cast<uint32_t>(key.stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * c0;
    const uint64_t product1 = kMultiplier1 * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

// Derives a key from `key` and `number`. The new key is a block of the complemented stream, so
// draws with `key` do not use this block.
constexpr PhiloxKey fold_in(PhiloxKey key, uint64_t number) {
  const std::array<uint32_t, 4> words = philox({key.seed, ~key.stream}, number);
  return {words[0] | uint64_t{words[1]} << 32, words[2] | uint64_t{words[3]} << 32};
}

// Returns the random word of element `index`: word index % 4 of block index / 4. A loop over
// elements should call `philox` once per block instead.
constexpr uint32_t random_bits(PhiloxKey key, uint64_t index) {
  return philox(key, index / 4)[index % 4];
}

// Returns a multiple of 2^-24 in [0, 1), from the high 24 bits.
constexpr float uniform_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Returns a multiple of 2^-53 in [0, 1), from the high 53 of the 64 bits (hi, lo).
constexpr double uniform_double(uint32_t hi, uint32_t lo) {
  const uint64_t bits = (uint64_t{hi} << 32 | lo) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace etude
