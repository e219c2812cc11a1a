// SPDX-License-Identifier: Apache-2.0
// Float16 (IEEE binary16) and BFloat16 (the high half of a float): storage types of two bytes. Used
// as element types of tensors. Arithmetic and comparison use float, by implicit conversion. The
// explicit conversion back rounds once, to nearest with ties to even. Not for fast conversion of
// arrays, for which kernels have vector code.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Rounds x to a float, to odd: if x lies between two floats, returns the float whose last bit is
// set. A second rounding, to fewer bits, then has the same result as a single rounding.
constexpr float round_to_odd(double x) {
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double size = x < 0 ? -x : x;
  // Beyond kMax, a cast to float would be undefined. The last bit of kMax is set.
  if (size > kMax && size < kInfinity) return x < 0 ? -kMax : kMax;
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const double rounded = nearest < 0 ? -static_cast<double>(nearest) : static_cast<double>(nearest);
  if (rounded > size) --bits;  // back to the float below in magnitude
  return std::bit_cast<float>(bits | 1);
}

// Returns value / 2^shift, rounded to nearest, ties to even. shift is in [1, 31].
constexpr uint32_t shift_to_nearest_even(uint32_t value, int shift) {
  const uint32_t half = uint32_t{1} << (shift - 1);
  const uint32_t kept_is_odd = value >> shift & 1;
  return (value + (half - 1) + kept_is_odd) >> shift;
}

constexpr uint16_t float16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t size = bits & 0x7fffffff;
  uint32_t result = 0;
  if (size > 0x7f800000) {  // NaN: the high bits of the payload, made quiet
    result = 0x7e00 | (size >> 13 & 0x3ff);
  } else if (size >= 0x47800000) {  // 65536 and more, infinity
    result = 0x7c00;
  } else if (size >= 0x38800000) {  // normal; rounding may carry into the exponent, to infinity
    result = shift_to_nearest_even(size - 0x38000000, 13);
  } else if (size >= 0x33000000) {  // subnormal: 2^-25 and more
    const int exponent = static_cast<int>(size >> 23);
    const uint32_t mantissa = (size & 0x7fffff) | 0x800000;
    result = shift_to_nearest_even(mantissa, 126 - exponent);
  }
  return static_cast<uint16_t>(sign | result);
}

constexpr float float16_value(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t size = half & 0x7fffu;
  if (size > 0x7c00) {  // NaN, made quiet
    return std::bit_cast<float>(sign | 0x7fc00000 | (size & 0x3ff) << 13);
  }
  if (size == 0x7c00) return std::bit_cast<float>(sign | 0x7f800000);
  if (size >= 0x400) return std::bit_cast<float>(sign | ((size << 13) + 0x38000000));
  const float value = static_cast<float>(size) * 0x1p-24f;
  return sign != 0 ? -value : value;
}

constexpr uint16_t bfloat16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000) {  // NaN: made quiet, and not rounded to infinity
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

constexpr float bfloat16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

struct Binary16Format {
  static constexpr uint16_t bits(float x) { return float16_bits(x); }
  static constexpr float value(uint16_t bits) { return float16_value(bits); }
};

struct BFloat16Format {
  static constexpr uint16_t bits(float x) { return bfloat16_bits(x); }
  static constexpr float value(uint16_t bits) { return bfloat16_value(bits); }
};

// The implementation of both types.
template <class Format>
class ShortFloat {
 public:
  ShortFloat() = default;  // uninitialised, like a float; ShortFloat{} is 0
  explicit constexpr ShortFloat(float x) : bits_(Format::bits(x)) {}
  explicit constexpr ShortFloat(double x) : bits_(Format::bits(round_to_odd(x))) {}  // rounds once
  // An integer beyond 2^53 in magnitude is first rounded to a double.
  template <std::integral T>
  explicit constexpr ShortFloat(T x) : ShortFloat(static_cast<double>(x)) {}

  static constexpr ShortFloat from_bits(uint16_t bits) {
    ShortFloat result{};
    result.bits_ = bits;
    return result;
  }
  constexpr uint16_t bits() const { return bits_; }

  // Exact. A NaN stays a NaN.
  constexpr operator float() const { return Format::value(bits_); }
  constexpr ShortFloat operator-() const {
    return from_bits(static_cast<uint16_t>(bits_ ^ 0x8000));
  }

 private:
  uint16_t bits_;
};

}  // namespace internal

using Float16 = internal::ShortFloat<internal::Binary16Format>;
using BFloat16 = internal::ShortFloat<internal::BFloat16Format>;

}  // namespace etude

template <>
class std::numeric_limits<etude::Float16> : public std::numeric_limits<float> {
  using T = etude::Float16;

 public:
  static constexpr int digits = 11, digits10 = 3, max_digits10 = 5;
  static constexpr int min_exponent = -13, min_exponent10 = -4;
  static constexpr int max_exponent = 16, max_exponent10 = 4;
  static constexpr T min() { return T::from_bits(0x0400); }
  static constexpr T max() { return T::from_bits(0x7bff); }
  static constexpr T lowest() { return T::from_bits(0xfbff); }
  static constexpr T epsilon() { return T::from_bits(0x1400); }
  static constexpr T round_error() { return T::from_bits(0x3800); }
  static constexpr T infinity() { return T::from_bits(0x7c00); }
  static constexpr T quiet_NaN() { return T::from_bits(0x7e00); }
  static constexpr T signaling_NaN() { return T::from_bits(0x7d00); }
  static constexpr T denorm_min() { return T::from_bits(0x0001); }
};

template <>
class std::numeric_limits<etude::BFloat16> : public std::numeric_limits<float> {
  using T = etude::BFloat16;

 public:
  static constexpr int digits = 8, digits10 = 2, max_digits10 = 4;
  static constexpr T min() { return T::from_bits(0x0080); }
  static constexpr T max() { return T::from_bits(0x7f7f); }
  static constexpr T lowest() { return T::from_bits(0xff7f); }
  static constexpr T epsilon() { return T::from_bits(0x3c00); }
  static constexpr T round_error() { return T::from_bits(0x3f00); }
  static constexpr T infinity() { return T::from_bits(0x7f80); }
  static constexpr T quiet_NaN() { return T::from_bits(0x7fc0); }
  static constexpr T signaling_NaN() { return T::from_bits(0x7fa0); }
  static constexpr T denorm_min() { return T::from_bits(0x0001); }
};
