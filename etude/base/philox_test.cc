// SPDX-License-Identifier: Apache-2.0
#include "etude/base/philox.h"

#include <cmath>

#include <gtest/gtest.h>

namespace etude {
namespace {

using Block = std::array<uint32_t, 4>;

// The known answers of the Random123 library, version 1.14.
static_assert(philox({0, 0}, 0) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox({~0ull, ~0ull}, ~0ull) ==
              Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox({0x299f31d0a4093822, 0x0370734413198a2e}, 0x85a308d3243f6a88) ==
              Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Philox, ElementsAreTheWordsOfBlocks) {
  const PhiloxKey key{42, 7};
  for (uint64_t index = 0; index < 40; ++index) {
    EXPECT_EQ(random_bits(key, index), philox(key, index / 4)[index % 4]);
  }
  EXPECT_NE(philox({42, 7}, 0), philox({42, 8}, 0));
  EXPECT_NE(philox({42, 7}, 0), philox({43, 7}, 0));
  EXPECT_NE(philox({42, 7}, 0), philox({42, 7}, uint64_t{1} << 32));
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(0xff), 0.0f);
  EXPECT_EQ(uniform_float(0xffffffff), std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(uniform_float(0x80000000), 0.5f);
  EXPECT_EQ(uniform_double(0, 0x7ff), 0.0);
  EXPECT_EQ(uniform_double(0, 0x800), 0x1p-53);
  EXPECT_EQ(uniform_double(0xffffffff, 0xffffffff), std::nextafter(1.0, 0.0));
  EXPECT_EQ(uniform_double(0x80000000, 0), 0.5);
}

TEST(Philox, MomentsOfTheUniformDistribution) {
  const PhiloxKey key{2024, 1};
  const int n = 1 << 20;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = uniform_float(random_bits(key, static_cast<uint64_t>(i)));
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / n));
}

}  // namespace
}  // namespace etude
