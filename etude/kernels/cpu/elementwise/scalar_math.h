// SPDX-License-Identifier: Apache-2.0
// The scalar functions of programs on one element, for the tile interpreter: integers wrap, double
// uses libm, complex the standard library. float32 results come from the SIMD kernels instead.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

template <class T>
inline constexpr bool kIsComplexNumber = false;
template <class T>
inline constexpr bool kIsComplexNumber<std::complex<T>> = true;

// Integer arithmetic wraps: it uses 64-bit unsigned numbers, for which overflow is defined.
#define ETUDE_WRAPPING(name, op)                                                   \
  template <class T>                                                               \
  T name(T x, T y) {                                                               \
    if constexpr (std::is_integral_v<T>) {                                         \
      return static_cast<T>(static_cast<uint64_t>(x) op static_cast<uint64_t>(y)); \
    } else {                                                                       \
      return x op y;                                                               \
    }                                                                              \
  }
ETUDE_WRAPPING(math_add, +)
ETUDE_WRAPPING(math_subtract, -)
ETUDE_WRAPPING(math_multiply, *)
#undef ETUDE_WRAPPING

template <class T>
T math_negative(T x) {
  if constexpr (std::is_integral_v<T>)
    return math_subtract(T(0), x);
  else
    return -x;  // also of zeros
}
template <class T>
T math_abs(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return x;
  else if constexpr (std::is_integral_v<T>)
    return x < 0 ? math_subtract(T(0), x) : x;
  else
    return T(std::abs(x));
}
template <class T>
T math_sign(T x) {
  if constexpr (kIsComplexNumber<T>)
    return x == T(0) ? x : x / std::abs(x);
  else if constexpr (std::is_floating_point_v<T>)
    return x != x ? x : x > 0 ? T(1) : x < 0 ? T(-1) : x;
  else
    return static_cast<T>((x > 0) - (x < 0));
}
template <class T>
T math_pow(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    T result = 1;
    for (auto e = static_cast<uint64_t>(y); e != 0; e >>= 1) {
      if ((e & 1) != 0) result = math_multiply(result, x);
      x = math_multiply(x, x);
    }
    return result;
  } else if constexpr (kIsComplexNumber<T>) {
    if (y == T(0)) return T(1);
    if (x == T(0) && y.real() > 0) return T(0);
    return std::pow(x, y);
  } else {
    return std::pow(x, y);
  }
}
template <class T>
bool math_isnan(T x) {
  if constexpr (kIsComplexNumber<T>)
    return std::isnan(x.real()) || std::isnan(x.imag());
  else if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}
template <class T>
bool math_isinf(T x) {
  if constexpr (kIsComplexNumber<T>)
    return std::isinf(x.real()) || std::isinf(x.imag());
  else if constexpr (std::is_floating_point_v<T>)
    return std::isinf(x);
  else
    return false;
}
template <class T>
bool math_signbit(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::signbit(x);
  else
    return x < T(0);
}

// Functions on blocks, for each kind of element. They return false after report_fault, or if the
// kind lacks the function.
template <class T>
bool integer_block(scalar::Fn fn, T* out, const T* a, const T* b, int64_t n);
template <class T>
bool real_block(scalar::Fn fn, T* out, const T* a, const T* b, int64_t n);
template <class T>
bool complex_block(scalar::Fn fn, T* out, const T* a, const T* b, int64_t n);

}  // namespace etude::kernels::cpu
