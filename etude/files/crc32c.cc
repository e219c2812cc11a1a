// SPDX-License-Identifier: Apache-2.0
#include "etude/files/crc32c.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace etude::internal {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // bits reversed

using Table = std::array<std::array<uint32_t, 256>, 8>;
// Row k: the effect of a byte that k more bytes follow.
constexpr Table make_table() {
  Table table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[0][i] = crc;
  }
  for (std::size_t row = 1; row < 8; ++row) {
    for (std::size_t i = 0; i < 256; ++i) {
      const uint32_t crc = table[row - 1][i];
      table[row][i] = crc >> 8 ^ table[0][crc & 0xFF];
    }
  }
  return table;
}
constexpr Table kTable = make_table();

uint64_t word_at(const uint8_t* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

#if defined(__x86_64__)

constexpr std::size_t kStream = 4096;  // bytes of one of the three streams; a power of two

// Moves a checksum over kStream zero bytes: a linear map of its bits, as four tables of its bytes.
using Shift = std::array<std::array<uint32_t, 256>, 4>;
// A linear map of checksums: the image of each bit.
using Columns = std::array<uint32_t, 32>;
constexpr uint32_t image_of(const Columns& map, uint32_t crc) {
  uint32_t out = 0;
  for (; crc != 0; crc &= crc - 1) out ^= map[static_cast<std::size_t>(std::countr_zero(crc))];
  return out;
}
constexpr Shift make_shift() {
  Columns map{};  // over one zero byte
  for (std::size_t bit = 0; bit < 32; ++bit) {
    const uint32_t crc = uint32_t{1} << bit;
    map[bit] = crc >> 8 ^ kTable[0][crc & 0xFF];
  }
  for (std::size_t bytes = 1; bytes < kStream; bytes *= 2) {  // twice the map moves twice as far
    Columns twice{};
    for (std::size_t bit = 0; bit < 32; ++bit) twice[bit] = image_of(map, map[bit]);
    map = twice;
  }
  Shift shift{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (uint32_t i = 0; i < 256; ++i) shift[byte][i] = image_of(map, i << (8 * byte));
  }
  return shift;
}
constexpr Shift kShift = make_shift();

uint32_t shifted(uint64_t crc) {
  return kShift[0][crc & 0xFF] ^ kShift[1][crc >> 8 & 0xFF] ^ kShift[2][crc >> 16 & 0xFF] ^
         kShift[3][crc >> 24 & 0xFF];
}

// The instruction takes 3 cycles and one can begin in each, so three streams run side by side.
[[gnu::target("sse4.2")]] uint32_t crc32c_by_instruction(uint32_t start,
                                                         std::span<const uint8_t> bytes) {
  uint64_t crc = ~start;
  const uint8_t* at = bytes.data();
  std::size_t rest = bytes.size();
  for (; rest >= 3 * kStream; at += 3 * kStream, rest -= 3 * kStream) {
    uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kStream; i += 8) {
      crc = _mm_crc32_u64(crc, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + kStream + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * kStream + i));
    }
    crc = shifted(crc) ^ second;
    crc = shifted(crc) ^ third;
  }
  for (; rest >= 8; at += 8, rest -= 8) crc = _mm_crc32_u64(crc, word_at(at));
  auto last = static_cast<uint32_t>(crc);
  for (; rest > 0; ++at, --rest) last = _mm_crc32_u8(last, *at);
  return ~last;
}

#endif

}  // namespace

uint32_t crc32c_by_table(uint32_t start, std::span<const uint8_t> bytes) {
  uint32_t crc = ~start;
  const uint8_t* at = bytes.data();
  std::size_t rest = bytes.size();
  for (; rest >= 8; at += 8, rest -= 8) {
    const uint64_t word = word_at(at) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTable[7 - i][word >> (8 * i) & 0xFF];
  }
  for (; rest > 0; ++at, --rest) crc = crc >> 8 ^ kTable[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

uint32_t crc32c(uint32_t crc, std::span<const uint8_t> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction(crc, bytes);
#endif
  return crc32c_by_table(crc, bytes);
}

}  // namespace etude::internal
