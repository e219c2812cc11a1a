// SPDX-License-Identifier: Apache-2.0
#include "etude/files/crc32c.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

TEST(Crc32c, IsThatOfOthers) {
  const auto bytes = [](std::string_view text) {
    return std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  EXPECT_EQ(crc32c(0, "123456789"), 0xE3069283u);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(0, std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(0, std::string(32, '\xff')), 0x62A8AB43u);
  std::string text;
  for (int i = 0; i < 40000; ++i) text += static_cast<char>(i * i >> 3);
  for (const std::size_t n : {0, 1, 7, 8, 9, 4095, 12288, 12289, 24576, 39999}) {
    const std::string_view part = std::string_view(text).substr(0, n);
    EXPECT_EQ(crc32c(0, part), crc32c_by_table(0, bytes(part)));
    EXPECT_EQ(crc32c(crc32c(0, part), std::string_view(text).substr(n)),
              crc32c_by_table(0, bytes(text)));
  }
}

}  // namespace
}  // namespace etude::internal
