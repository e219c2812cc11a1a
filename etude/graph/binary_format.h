// SPDX-License-Identifier: Apache-2.0
// Definitions shared by the writer and the reader of graphs in binary form (binary.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace etude::internal {

static_assert(std::endian::native == std::endian::little, "the binary form is copied as it is");

inline constexpr std::string_view kBinaryMagic(
    "\x89"
    "ETG\r\n\x1a\n",
    8);
inline constexpr std::string_view kSymbolicMagic(
    "\x89"
    "ETF\r\n\x1a\n",
    8);
inline constexpr uint32_t kBinaryVersion = 1;
inline constexpr std::size_t kBinaryAlignment = 64;

struct BinaryHeader {
  char magic[8];
  uint32_t version;
  uint32_t checksum;
  uint64_t bytes;
  uint64_t elements;
};
static_assert(sizeof(BinaryHeader) == 32);
inline constexpr std::size_t kChecked = 16;  // the first byte that the checksum covers

constexpr std::size_t binary_aligned(std::size_t at) {
  return (at + kBinaryAlignment - 1) / kBinaryAlignment * kBinaryAlignment;
}
// The checksum of all bytes of a file after the unchecked header bytes.
uint32_t binary_checksum(std::string_view bytes);

}  // namespace etude::internal
