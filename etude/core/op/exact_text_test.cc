// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/exact_text.h"

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "etude/base/philox.h"
#include "etude/core/dtype.h"
#include "etude/core/op/attrs.h"

namespace etude::internal {
namespace {

template <class T>
bool reads_back(const T& value) {
  const std::string text = exact_text(value);
  const char* at = text.data();
  T again{};
  const bool is_read = read_exact(at, text.data() + text.size(), again);
  return is_read && at == text.data() + text.size() && std::memcmp(&again, &value, sizeof(T)) == 0;
}

template <class T>
bool reads(std::string_view text) {
  const char* at = text.data();
  T value{};
  const bool is_read = read_exact(at, text.data() + text.size(), value);
  EXPECT_TRUE(is_read || at == text.data()) << text;
  return is_read && at == text.data() + text.size();
}

TEST(ExactText, IsShort) {
  EXPECT_EQ(exact_text(0.5F), "0.5");
  EXPECT_EQ(exact_text(0.1F), "0.1");
  EXPECT_EQ(exact_text(0.1), "0.1");
  EXPECT_EQ(exact_text(-0.0), "-0");
  EXPECT_EQ(exact_text(1e30F), "1e+30");
  EXPECT_EQ(exact_text(Float16(0.1F)), "0.1");
  EXPECT_EQ(exact_text(std::numeric_limits<Float16>::max()), "65504");
  EXPECT_EQ(exact_text(BFloat16(0.3F)), "0.3");
  EXPECT_EQ(exact_text(std::complex<float>(0.5F, -2)), "0.5-2j");
  EXPECT_EQ(exact_text(std::complex<double>(-0.0, INFINITY)), "-0+infj");
  EXPECT_EQ(exact_text(int8_t{-128}), "-128");
  EXPECT_EQ(exact_text(~uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(exact_text(true), "true");
}

TEST(ExactText, KeepsTheBitsOfNan) {
  EXPECT_EQ(exact_text(std::numeric_limits<float>::quiet_NaN()), "nan");
  EXPECT_EQ(exact_text(std::bit_cast<float>(0xffc00000U)), "-nan");
  EXPECT_EQ(exact_text(std::bit_cast<float>(0x7f800001U)), "nan(0x7f800001)");
  EXPECT_EQ(exact_text(Float16::from_bits(0xfe01)), "nan(0xfe01)");
  EXPECT_TRUE(reads_back(std::bit_cast<double>(0x7ff0000000000001U)));
  EXPECT_TRUE(reads_back(
      std::complex<float>(std::bit_cast<float>(0xffffffffU), std::bit_cast<float>(0x7fc00001U))));
}

TEST(ExactText, AllFloatsOfTwoBytesReadBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_TRUE(reads_back(Float16::from_bits(static_cast<uint16_t>(bits)))) << bits;
    ASSERT_TRUE(reads_back(BFloat16::from_bits(static_cast<uint16_t>(bits)))) << bits;
  }
}

TEST(ExactText, AnyBitsReadBack) {
  for (uint64_t i = 0; i < 20000; ++i) {
    const auto words = philox({7, 0}, i);
    const uint64_t wide = uint64_t{words[0]} << 32 | words[1];
    ASSERT_TRUE(reads_back(std::bit_cast<float>(words[0]))) << words[0];
    ASSERT_TRUE(reads_back(std::bit_cast<double>(wide))) << wide;
    ASSERT_TRUE(reads_back(
        std::complex<float>(std::bit_cast<float>(words[2]), std::bit_cast<float>(words[3]))));
    ASSERT_TRUE(reads_back(static_cast<int64_t>(wide)));
    ASSERT_TRUE(reads_back(static_cast<int16_t>(words[0])));
  }
}

TEST(ExactText, RefusesWhatIsNoSuchNumber) {
  for (const char* text : {"", "-", "x", "+1", "infinity", "nan(", "nan(0x1)", "-nan(0x7fc00001)",
                           "1e999", "1e-999", "--1", "nan(0x1ffffffffffffffff)"}) {
    EXPECT_FALSE(reads<double>(text)) << text;
  }
  EXPECT_FALSE(reads<Float16>("65520"));  // rounds to infinity
  for (const char* text : {"1", "1+2", "1+-2j", "1 +2j", "+1+2j", "j", "1-+2j"}) {
    EXPECT_FALSE(reads<std::complex<float>>(text)) << text;
  }
  EXPECT_FALSE(reads<uint8_t>("256"));
  EXPECT_FALSE(reads<uint8_t>("-1"));
  EXPECT_FALSE(reads<int64_t>("9223372036854775808"));
  EXPECT_FALSE(reads<bool>("1"));
  EXPECT_TRUE(reads<float>(".5"));
}

TEST(Quoted, ReadsBack) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& text : {std::string(), std::string("a \"b\" \\ c\n\r\t\x01\x7f"), all}) {
    const std::string there = quoted_text(text);
    EXPECT_EQ(there.find('\n'), std::string::npos);
    std::string again;
    const char* at = there.data();
    ASSERT_TRUE(read_quoted(at, there.data() + there.size(), again)) << there;
    EXPECT_EQ(again, text);
    EXPECT_EQ(at, there.data() + there.size());
  }
  EXPECT_EQ(quoted_text("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\x01\"");
}

TEST(Quoted, RefusesTornTexts) {
  for (const std::string_view text : {"", "a", "\"", "\"a", "\"\\", "\"\\\"", "\"\\x", "\"\\x1\"",
                                      "\"\\xg0\"", "\"\\q\"", "\"\n\""}) {
    std::string out;
    const char* at = text.data();
    EXPECT_FALSE(read_quoted(at, text.data() + text.size(), out)) << text;
    EXPECT_EQ(at, text.data());
  }
}

TEST(AttrText, IsExact) {
  EXPECT_EQ(to_string(AttrValue(std::string("a\"b\\\n"))), "\"a\\\"b\\\\\\n\"");
  EXPECT_EQ(to_string(AttrValue(0.1)), "0.1");
  EXPECT_EQ(to_string(AttrValue(
                std::vector<double>{1, -0.0, std::bit_cast<double>(0x7ff8000000000001U)})),
            "[1, -0, nan(0x7ff8000000000001)]");
  EXPECT_EQ(to_string(AttrValue(std::vector<int64_t>{})), "[]");
}

}  // namespace
}  // namespace etude::internal
