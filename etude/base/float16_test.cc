// SPDX-License-Identifier: Apache-2.0
#include "etude/base/float16.h"

#include <cmath>
#include <type_traits>

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace etude {
namespace {

static_assert(sizeof(Float16) == 2 && std::is_trivially_copyable_v<Float16>);
static_assert(sizeof(BFloat16) == 2 && std::is_trivial_v<BFloat16>);
static_assert(Float16{}.bits() == 0 && Float16(1.0f).bits() == 0x3c00);
static_assert(BFloat16(1.0f).bits() == 0x3f80 && BFloat16(3) == 3);
static_assert(Float16(1.0f) < Float16(2.0f) && Float16(-0.0f) == Float16(0.0f));
static_assert(!std::is_convertible_v<float, Float16> && std::is_convertible_v<Float16, float>);
static_assert(-Float16(2.5f) == -2.5f);

// The value of a finite pattern by the definition of the format, without its bit tricks.
double defined_value(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double size =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return bits & 0x8000 ? -size : size;
}

template <class T, int exponent_bits>
void check_all_patterns() {
  constexpr int kInfinity = (0x7fff >> (15 - exponent_bits)) << (15 - exponent_bits);
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const T x = T::from_bits(bits);
    const float value = x;
    ASSERT_EQ(std::signbit(value), i >= 0x8000) << i;
    if ((i & 0x7fff) > kInfinity) {
      ASSERT_TRUE(std::isnan(value)) << i;
      const int quiet = 1 << (14 - exponent_bits);
      ASSERT_EQ(T(value).bits(), bits | quiet) << i;  // sign and payload stay
      ASSERT_FALSE(x == x);
      continue;
    }
    if ((i & 0x7fff) == kInfinity) {
      ASSERT_TRUE(std::isinf(value)) << i;
    } else {
      ASSERT_EQ(value, defined_value(bits, exponent_bits)) << i;
    }
    ASSERT_EQ(T(value).bits(), bits) << i;
    ASSERT_EQ(T(static_cast<double>(value)).bits(), bits) << i;
  }
}

TEST(Float16, AllPatternsSurviveTheRoundTrip) { check_all_patterns<Float16, 5>(); }
TEST(BFloat16, AllPatternsSurviveTheRoundTrip) { check_all_patterns<BFloat16, 8>(); }

// Between two neighbours: the middle goes to the even one, all else to the nearer one.
template <class T, int exponent_bits>
void check_all_gaps() {
  constexpr int kInfinity = (0x7fff >> (15 - exponent_bits)) << (15 - exponent_bits);
  for (int i = 0; i < kInfinity; ++i) {
    const auto low = static_cast<uint16_t>(i), high = static_cast<uint16_t>(i + 1);
    const uint16_t even = i % 2 == 0 ? low : high;
    // One step above the largest finite value represents infinity.
    const double middle =
        (defined_value(low, exponent_bits) + defined_value(high, exponent_bits)) / 2;
    const auto tie = static_cast<float>(middle);
    ASSERT_EQ(tie, middle) << i;
    const float infinity = std::numeric_limits<float>::infinity();
    ASSERT_EQ(T(tie).bits(), even) << i;
    ASSERT_EQ(T(std::nextafter(tie, 0.0f)).bits(), low) << i;
    ASSERT_EQ(T(std::nextafter(tie, infinity)).bits(), high) << i;
    ASSERT_EQ(T(-tie).bits(), even | 0x8000) << i;
    // Doubles that a float would round to the tie.
    ASSERT_EQ(T(middle).bits(), even) << i;
    ASSERT_EQ(T(std::nextafter(middle, 0.0)).bits(), low) << i;
    ASSERT_EQ(T(std::nextafter(middle, double{infinity})).bits(), high) << i;
    ASSERT_EQ(T(-std::nextafter(middle, 0.0)).bits(), low | 0x8000) << i;
  }
}

TEST(Float16, RoundsOnceToNearestEven) { check_all_gaps<Float16, 5>(); }
TEST(BFloat16, RoundsOnceToNearestEven) { check_all_gaps<BFloat16, 8>(); }

TEST(Float16, OverflowsToInfinity) {
  EXPECT_EQ(Float16(65519.99).bits(), 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits(), 0x7c00);
  EXPECT_EQ(Float16(1e300).bits(), 0x7c00);
  EXPECT_EQ(Float16(-1e30f).bits(), 0xfc00);
  EXPECT_EQ(BFloat16(-1e300).bits(), 0xff80);
  EXPECT_EQ(BFloat16(std::numeric_limits<double>::infinity()).bits(), 0x7f80);
  EXPECT_EQ(Float16(1e-300).bits(), 0);
  EXPECT_EQ(Float16(-1e-300).bits(), 0x8000);
}

template <class T>
void check_limits() {
  using Limits = std::numeric_limits<T>;
  EXPECT_EQ(Limits::max(),
            std::ldexp(2 - std::ldexp(1.0, 1 - Limits::digits), Limits::max_exponent - 1));
  EXPECT_EQ(Limits::lowest(), -Limits::max());
  EXPECT_EQ(Limits::min(), std::ldexp(1.0, Limits::min_exponent - 1));
  EXPECT_EQ(Limits::epsilon(), std::ldexp(1.0, 1 - Limits::digits));
  EXPECT_EQ(Limits::denorm_min(), std::ldexp(1.0, Limits::min_exponent - Limits::digits));
  EXPECT_EQ(Limits::round_error(), 0.5f);
  EXPECT_TRUE(std::isinf(Limits::infinity()) && std::isnan(Limits::quiet_NaN()));
  EXPECT_TRUE(std::isnan(Limits::signaling_NaN()));
}

TEST(Float16, Limits) { check_limits<Float16>(); }
TEST(BFloat16, Limits) { check_limits<BFloat16>(); }

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t hardware_bits(float x) {
  const __m128i packed = _mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT);
  return static_cast<uint16_t>(_mm_extract_epi16(packed, 0));
}

TEST(Float16, AgreesWithTheProcessor) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "needs F16C";  // every AVX2 unit has it
  for (uint64_t bits = 0; bits <= 0xffffffff; bits += 1021) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(Float16(x).bits(), hardware_bits(x)) << bits;
  }
}
#endif

}  // namespace
}  // namespace etude
