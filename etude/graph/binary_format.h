// SPDX-License-Identifier: Apache-2.0
// Definitions shared by the writer and the reader of graphs in binary form (binary.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "etude/core/op/attr_view.h"

namespace etude::internal {

static_assert(std::endian::native == std::endian::little, "the binary form is copied as it is");

inline constexpr std::string_view kBinaryMagic(
    "\x89"
    "ETG\r\n\x1a\n",
    8);
// The first bytes of a symbolic graph in version 1.
inline constexpr std::string_view kSymbolicMagic(
    "\x89"
    "ETF\r\n\x1a\n",
    8);
inline constexpr uint32_t kBinaryVersion = 2;
inline constexpr std::size_t kBinaryAlignment = 64;

enum class BinaryContent : uint32_t { kGraph = 0, kSymbolic = 1, kFunctions = 2 };

struct BinaryHeader {
  char magic[8];
  uint32_t version;
  uint32_t checksum;
  uint64_t bytes;
  uint64_t elements;
  // From version 2 on.
  BinaryContent content;
  uint32_t reserved;
};
static_assert(sizeof(BinaryHeader) == 40);
inline constexpr std::size_t kFirstHeader = 32;  // the bytes of a header of version 1
inline constexpr std::size_t kChecked = 16;      // the first byte that the checksum covers

constexpr std::size_t binary_aligned(std::size_t at) {
  return (at + kBinaryAlignment - 1) / kBinaryAlignment * kBinaryAlignment;
}
// The checksum of all bytes of a file after the unchecked header bytes.
uint32_t binary_checksum(std::string_view bytes);

// The form in which a file stores the default of an attribute.
enum class BinaryDefault : uint8_t { kRequired = 0, kAbsent = 1, kValue = 2 };

// Kinds of attributes are stored by number.
static_assert(
    static_cast<int>(AttrKind::kFlag) == 1 && static_cast<int>(AttrKind::kInt) == 2 &&
        static_cast<int>(AttrKind::kReal) == 3 && static_cast<int>(AttrKind::kDType) == 4 &&
        static_cast<int>(AttrKind::kInts) == 5 && static_cast<int>(AttrKind::kText) == 6 &&
        static_cast<int>(AttrKind::kReals) == 7 && static_cast<int>(AttrKind::kProgram) == 8 &&
        static_cast<int>(AttrKind::kGraph) == 9 && static_cast<int>(AttrKind::kGraphs) == 10,
    "files hold these numbers: a new kind goes to the end");

}  // namespace etude::internal
