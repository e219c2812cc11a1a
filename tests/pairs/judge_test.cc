// SPDX-License-Identifier: Apache-2.0
// Rounding to types of 16 bits, and programs that leave their range.
#include "tests/pairs/judge.h"

#include <cstddef>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace pairs {
namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

TEST(Judge, RoundsToFloat16) {
  const auto half = [](long double x) { return rounded(x, kHalf); };
  EXPECT_EQ(half(65504), 65504);
  EXPECT_EQ(half(65519.99L), 65504);
  EXPECT_EQ(half(65520), kInfinity);  // half a step above the largest
  EXPECT_EQ(half(-1e9L), -kInfinity);
  EXPECT_EQ(half(1 + 0x1p-11L), 1);  // of two the even one
  EXPECT_EQ(half(1 + 3 * 0x1p-11L), 1 + 0x1p-9L);
  EXPECT_EQ(half(0x1p-14L + 0x1p-26L), 0x1p-14L);
  EXPECT_EQ(half(0x1.8p-24L), 0x1p-23L);  // below the normal numbers in steps of 2^-24
  EXPECT_EQ(half(0x1.01p-25L), 0x1p-24L);
  EXPECT_EQ(half(0x1p-25L), 0);
}

TEST(Judge, RoundsToBfloat16) {
  const auto brain = [](long double x) { return rounded(x, kBrainFloat); };
  EXPECT_EQ(brain(65520), 65536);
  EXPECT_EQ(brain(0x1.FEp127L), 0x1.FEp127L);
  EXPECT_EQ(brain(0x1.FFp127L), kInfinity);
  EXPECT_EQ(brain(1 + 0x1p-8L), 1);
  EXPECT_EQ(brain(0x1.8p-133L), 0x1p-132L);
}

// Casts of the library give the same, from below the smallest number of float16 to beyond its
// largest.
TEST(Judge, RoundsAsTheLibraryDoes) {
  std::vector<double> points;
  for (double x = 0x1p-27; x < 1e6; x *= 1.0001) points.push_back(x);
  const auto stored = [&](etude::DType type) {
    return etude::astype(etude::Tensor(points), type).to_vector<double>();
  };
  const std::vector<double> half = stored(etude::kFloat16), brain = stored(etude::kBFloat16);
  int different = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool is_same =
        half[i] == rounded(points[i], kHalf) && brain[i] == rounded(points[i], kBrainFloat);
    different += is_same ? 0 : 1;
  }
  EXPECT_EQ(different, 0);
}

constexpr Point kOnes = {{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};

// A program that stores x times a factor.
Results storing(double factor, const FloatFormat& type) {
  return judge(
      [&](JudgeRun& run, const Numbers& x) {
        const Numbers y = x * factor;
        run.stores(y, type);
        return y * 0.5;
      },
      kOnes);
}

TEST(Judge, TellsOfNumbersThatLeaveARange) {
  EXPECT_EQ(storing(65504, kHalf).left, nullptr);
  EXPECT_STREQ(storing(65520, kHalf).left, "float16");
  EXPECT_STREQ(storing(-1e30, kHalf).left, "float16");
  EXPECT_EQ(storing(1e30, kBrainFloat).left, nullptr);
  EXPECT_STREQ(storing(4e38, kBrainFloat).left, "bfloat16");
  EXPECT_EQ(storing(1e30, kBrainFloat).value[0], 1e30 * 0.5 * 0.75);  // with all digits
}

TEST(Judge, TellsOfDerivativesThatLeaveARange) {
  const auto steep = [](JudgeRun& run, const Numbers& x) {
    const Numbers y = sin(x * 1e6);
    run.stores(y, kHalf);
    return y;
  };
  EXPECT_STREQ(judge(steep, kOnes).left, "float16");
  const auto beside = [](JudgeRun& run, const Numbers& x) {
    run.stores(x, kHalf);
    return sin(x * 1e6);
  };
  EXPECT_EQ(judge(beside, kOnes).left, nullptr);
}

TEST(Judge, TellsOfSinesThatRoundingDecides) {
  const auto sine_of = [](double factor) {
    return judge(
               [factor](JudgeRun& run, const Numbers& x) {
                 run.takes_sine(x * factor, kHalf);
                 return sin(x * factor);
               },
               kOnes)
        .left;
  };
  EXPECT_EQ(sine_of(63.9), nullptr);
  EXPECT_STREQ(sine_of(64), "float16");
  EXPECT_STREQ(sine_of(-64), "float16");
}

}  // namespace
}  // namespace pairs
