// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/exact_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "etude/core/dtype.h"

namespace etude::internal {
namespace {

template <class T>
auto bits_of(T value) {
  if constexpr (kIsHalf<T>) {
    return value.bits();
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<uint32_t>(value);
  } else {
    return std::bit_cast<uint64_t>(value);
  }
}
template <class T>
using BitsOf = decltype(bits_of(T{}));
template <class T>
T from_bits(BitsOf<T> bits) {
  if constexpr (kIsHalf<T>) {
    return T::from_bits(bits);
  } else {
    return std::bit_cast<T>(bits);
  }
}

template <class T>
inline constexpr auto kSign = static_cast<BitsOf<T>>(BitsOf<T>{1} << (8 * sizeof(T) - 1));
// Tested by bits, since a signalling NaN may not survive arithmetic.
template <class T>
bool is_nan_pattern(BitsOf<T> bits) {
  return static_cast<BitsOf<T>>(bits & ~kSign<T>) > bits_of(std::numeric_limits<T>::infinity());
}

// The shortest decimal that rounds to `value`: tries one digit, two, ...
template <class T>
std::string short_float_text(T value) {
  const auto wide = static_cast<float>(value);
  constexpr float kWholeBelow = 65536;  // below this all digits are shown: 65504, not 65500
  if (std::abs(wide) < kWholeBelow && wide == std::trunc(wide)) return fmt::format("{}", wide);
  for (int digits = 1; digits < std::numeric_limits<T>::max_digits10; ++digits) {
    const std::string text = fmt::format("{:.{}g}", wide, digits);
    const double decimal = std::stod(text);
    if (T(decimal).bits() == value.bits()) return fmt::format("{}", decimal);
  }
  return fmt::format("{}", wide);
}

template <class T>
std::string float_text(T value) {
  const auto bits = bits_of(value);
  const bool is_negative = (bits & kSign<T>) != 0;
  if (!is_nan_pattern<T>(bits)) {
    if constexpr (kIsHalf<T>) {
      return short_float_text(value);
    } else {
      return fmt::format("{}", value);
    }
  }
  const auto size = static_cast<BitsOf<T>>(bits & ~kSign<T>);
  if (size == bits_of(std::numeric_limits<T>::quiet_NaN())) return is_negative ? "-nan" : "nan";
  return fmt::format("nan({:#x})", bits);
}

bool take(const char*& at, const char* end, std::string_view word) {
  if (static_cast<std::size_t>(end - at) < word.size()) return false;
  if (std::string_view(at, word.size()) != word) return false;
  at += word.size();
  return true;
}

template <class N, class... Format>
bool read_number(const char*& at, const char* end, N& value, Format... format) {
  const auto [behind, fault] = std::from_chars(at, end, value, format...);
  if (fault != std::errc()) return false;
  at = behind;
  return true;
}

// After "nan": nothing, or "(0x7fc00001)".
template <class T>
bool read_nan(const char*& at, const char* end, bool is_negative, T& value) {
  BitsOf<T> bits = bits_of(std::numeric_limits<T>::quiet_NaN());
  if (is_negative) bits = static_cast<BitsOf<T>>(bits | kSign<T>);
  if (take(at, end, "(0x")) {
    if (is_negative || !read_number(at, end, bits, 16) || !take(at, end, ")")) return false;
    if (!is_nan_pattern<T>(bits)) return false;
  }
  value = from_bits<T>(bits);
  return true;
}

template <class T>
bool read_float(const char*& at, const char* end, T& value) {
  const bool is_negative = take(at, end, "-");
  const T infinity = std::numeric_limits<T>::infinity();
  if (take(at, end, "nan")) return read_nan(at, end, is_negative, value);
  if (take(at, end, "inf")) {
    value = is_negative ? T(-infinity) : infinity;
    return true;
  }
  // Excludes other words that from_chars accepts.
  if (at == end || !((*at >= '0' && *at <= '9') || *at == '.')) return false;
  std::conditional_t<kIsHalf<T>, double, T> number = 0;
  if (!read_number(at, end, number)) return false;
  value = T(is_negative ? -number : number);
  return !std::isinf(static_cast<double>(value));
}

template <class T>
bool read_complex(const char*& at, const char* end, std::complex<T>& value) {
  T real, imaginary;
  if (!read_float(at, end, real)) return false;
  const bool is_positive = take(at, end, "+");
  if (at == end || (*at == '-') == is_positive) return false;
  if (!read_float(at, end, imaginary) || !take(at, end, "j")) return false;
  value = {real, imaginary};
  return true;
}

template <class T>
bool read_element(const char*& at, const char* end, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = take(at, end, "true");
    return value || take(at, end, "false");
  } else if constexpr (std::is_integral_v<T>) {
    return read_number(at, end, value);
  } else if constexpr (kIsComplex<T>) {
    return read_complex(at, end, value);
  } else {
    return read_float(at, end, value);
  }
}

bool read_escape(const char*& at, const char* end, std::string& text) {
  constexpr std::string_view kShort = "nrt\"\\", kMeant = "\n\r\t\"\\";
  if (at == end) return false;
  const std::size_t known = kShort.find(*at);
  if (known != std::string_view::npos) {
    ++at;
    text += kMeant[known];
    return true;
  }
  uint8_t byte = 0;
  if (!take(at, end, "x") || end - at < 2) return false;
  const auto [behind, fault] = std::from_chars(at, at + 2, byte, 16);
  if (fault != std::errc() || behind != at + 2) return false;
  at = behind;
  text += static_cast<char>(byte);
  return true;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

template <class T>
std::string exact_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (kIsComplex<T>) {
    const std::string imaginary = float_text(value.imag());
    return float_text(value.real()) + (imaginary[0] == '-' ? "" : "+") + imaginary + "j";
  } else {
    return float_text(value);
  }
}

template <class T>
bool read_exact(const char*& at, const char* end, T& value) {
  const char* behind = at;
  if (!read_element(behind, end, value)) return false;
  at = behind;
  return true;
}

template std::string exact_text(const bool&);
template std::string exact_text(const int8_t&);
template std::string exact_text(const int16_t&);
template std::string exact_text(const int32_t&);
template std::string exact_text(const int64_t&);
template std::string exact_text(const uint8_t&);
template std::string exact_text(const uint16_t&);
template std::string exact_text(const uint32_t&);
template std::string exact_text(const uint64_t&);
template std::string exact_text(const Float16&);
template std::string exact_text(const BFloat16&);
template std::string exact_text(const float&);
template std::string exact_text(const double&);
template std::string exact_text(const std::complex<float>&);
template std::string exact_text(const std::complex<double>&);
template bool read_exact(const char*&, const char*, bool&);
template bool read_exact(const char*&, const char*, int8_t&);
template bool read_exact(const char*&, const char*, int16_t&);
template bool read_exact(const char*&, const char*, int32_t&);
template bool read_exact(const char*&, const char*, int64_t&);
template bool read_exact(const char*&, const char*, uint8_t&);
template bool read_exact(const char*&, const char*, uint16_t&);
template bool read_exact(const char*&, const char*, uint32_t&);
template bool read_exact(const char*&, const char*, uint64_t&);
template bool read_exact(const char*&, const char*, Float16&);
template bool read_exact(const char*&, const char*, BFloat16&);
template bool read_exact(const char*&, const char*, float&);
template bool read_exact(const char*&, const char*, double&);
template bool read_exact(const char*&, const char*, std::complex<float>&);
template bool read_exact(const char*&, const char*, std::complex<double>&);

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_control(c)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool read_quoted(const char*& at, const char* end, std::string& text) {
  const char* behind = at;
  text.clear();
  if (!take(behind, end, "\"")) return false;
  while (behind != end && *behind != '"') {
    if (is_control(*behind)) return false;
    if (!take(behind, end, "\\")) {
      text += *behind++;
    } else if (!read_escape(behind, end, text)) {
      return false;
    }
  }
  if (!take(behind, end, "\"")) return false;
  at = behind;
  return true;
}

}  // namespace etude::internal
