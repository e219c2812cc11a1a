// SPDX-License-Identifier: Apache-2.0
// Decimal numbers in text, rounded to the nearest float, whatever the locale. Used by the reader of
// CSV files. Plain numbers are read 8 digits at a time, others by std::from_chars.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

namespace etude::internal {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// Reads up to 8 digits at `at`; `count` is their number. The result fits into 32 bits.
inline uint64_t digits_at(const char* at, int& count) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  word ^= 0x3030303030303030;  // digits are 0 to 9 now
  const uint64_t others =
      ((word & 0x7F7F7F7F7F7F7F7F) + 0x7676767676767676) | word;  // the high bit of non-digits
  count = std::countr_zero(others & 0x8080808080808080) / 8;      // 8 if all are digits
  if (count == 0) return 0;
  word <<= 8 * (8 - count);  // zeros at the front
  word = word * 10 + (word >> 8);
  constexpr uint64_t kPairs = 0x000000FF000000FF;
  return ((word & kPairs) * 0x000F424000000064 + (word >> 16 & kPairs) * 0x0000271000000001) >> 32 &
         0xFFFFFFFF;
}

// Adds the digits at `at` to `value`, which may overflow, and returns their end.
inline const char* read_digits(const char* at, const char* end, uint64_t& value) {
  constexpr std::array<uint64_t, 9> kPower = {1,      10,      100,      1000,     10000,
                                              100000, 1000000, 10000000, 100000000};
  while (end - at >= 8) {
    int count = 0;
    const uint64_t digits = digits_at(at, count);
    value = value * kPower[static_cast<std::size_t>(count)] + digits;
    at += count;
    if (count < 8) return at;
  }
  for (; at != end && is_digit(*at); ++at) value = value * 10 + static_cast<uint64_t>(*at - '0');
  return at;
}

// A decimal number that one division computes exactly, as for most numbers: a whole number up to
// 2^53 over a power of ten up to 10^22. Source: W. Clinger, "How to read floating point numbers
// accurately", 1990.
struct Decimal {
  uint64_t digits = 0;
  int scale = 0;  // digits after the point
  bool is_negative = false;
  const char* end = nullptr;  // null: not a number
};

inline Decimal decimal_at(const char* at, const char* end) {
  constexpr std::ptrdiff_t kMostDigits = 19;  // fit 64 bits
  Decimal out;
  if (at != end && *at == '-') {
    out.is_negative = true;
    ++at;
  }
  const char* stop = read_digits(at, end, out.digits);
  std::ptrdiff_t count = stop - at;
  if (stop != end && *stop == '.') {
    const char* point = stop + 1;
    stop = read_digits(point, end, out.digits);
    out.scale = static_cast<int>(std::min<std::ptrdiff_t>(stop - point, 100));
    count += stop - point;
  }
  if (count == 0 || count > kMostDigits || (stop != end && (*stop == 'e' || *stop == 'E')))
    return out;
  out.end = stop;
  return out;
}

template <class T>
inline constexpr std::array<T, 23> kPowers = {T(1e0),  T(1e1),  T(1e2),  T(1e3),  T(1e4),  T(1e5),
                                              T(1e6),  T(1e7),  T(1e8),  T(1e9),  T(1e10), T(1e11),
                                              T(1e12), T(1e13), T(1e14), T(1e15), T(1e16), T(1e17),
                                              T(1e18), T(1e19), T(1e20), T(1e21), T(1e22)};

// Reads the number at `at` as a T; null if there is none, or if it needs std::from_chars.
template <class T>
const char* number_as(const char* at, const char* end, double& value) {
  constexpr int kMostScale = sizeof(T) == 4 ? 10 : 22;  // powers that T represents exactly
  constexpr uint64_t kMostWhole = uint64_t{1} << std::numeric_limits<T>::digits;
  const Decimal decimal = decimal_at(at, end);
  if (decimal.end != nullptr && decimal.digits <= kMostWhole && decimal.scale <= kMostScale) {
    const T size =
        static_cast<T>(decimal.digits) / kPowers<T>[static_cast<std::size_t>(decimal.scale)];
    value = static_cast<double>(decimal.is_negative ? -size : size);
    return decimal.end;
  }
  T number{};
  const auto [stop, problem] = std::from_chars(at, end, number);
  value = static_cast<double>(number);
  return problem == std::errc() && std::isfinite(number) ? stop : nullptr;
}
// Reads the whole number at `at`; null if there is none.
inline const char* whole_at(const char* at, const char* end, int64_t& value) {
  constexpr std::ptrdiff_t kMostDigits = 18;  // fit 63 bits
  const bool is_negative = at != end && *at == '-';
  const char* first = at + is_negative;
  uint64_t digits = 0;
  const char* stop = read_digits(first, end, digits);
  if (stop == first || stop - first > kMostDigits) {
    const auto [last, problem] = std::from_chars(at, end, value);
    return problem == std::errc() ? last : nullptr;
  }
  value = is_negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits);
  return stop;
}

// The number that the whole of `text` spells; std::nullopt if `text` is not a number. Numbers
// beyond the range of T become infinity or zero.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    // The number is too large or too small for the type. A C function would distinguish the two
    // cases, but depends on the locale.
    if (problem == std::errc::result_out_of_range) {
      const std::string_view digits = text.substr(text.starts_with('-'));
      const bool is_small = digits.find("e-") != digits.npos || digits.find("E-") != digits.npos ||
                            digits.starts_with('0') || digits.starts_with('.');
      return std::copysign(is_small ? T(0) : std::numeric_limits<T>::infinity(),
                           text.starts_with('-') ? T(-1) : T(1));
    }
  }
  return problem == std::errc() ? std::optional<T>(value) : std::nullopt;
}

}  // namespace etude::internal
