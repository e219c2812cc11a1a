// SPDX-License-Identifier: Apache-2.0
// The functions that base/scalars/scalar_functions.inc uses, for plain numbers. active.h and dual.h
// have the overloads for active scalars and dual numbers.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "etude/base/internal/partials.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Returns x without its dependence: a constant for all derivatives that are being computed. Active
// scalars and dual numbers have their own overloads.
template <std::floating_point T>
constexpr T stop_gradient(T x) {
  return x;
}

namespace internal::scalar_math {

using std::abs, std::fabs, std::exp, std::exp2, std::expm1, std::log, std::log2, std::log10,
    std::log1p, std::sqrt, std::cbrt, std::sin, std::cos, std::tan, std::asin, std::acos, std::atan,
    std::sinh, std::cosh, std::tanh, std::asinh, std::acosh, std::atanh, std::erf, std::erfc,
    std::lgamma, std::tgamma, std::pow, std::atan2, std::hypot, std::fmod, std::remainder, std::fma,
    std::lerp, std::fmin, std::fmax, std::fdim, std::copysign, std::ceil, std::floor, std::round,
    std::trunc, std::rint, std::nearbyint, std::isnan, std::isinf, std::isfinite, std::signbit;

using partials::where, partials::share_of, partials::angle_partial, partials::with_logarithm;

// The product of the chain rule: x * y, but 0 if one factor is 0 and the other is infinite or NaN.
// So a call with a cotangent or partial of 0 adds nothing to a derivative, in all modes
// (docs/differentiable.md, "Singular points").
template <std::floating_point T>
constexpr T strong_product(const T& x, const T& y) {
  const T product = x * y;
  if (product == product) [[likely]]
    return product;
  return x == 0 || y == 0 ? T(0) : product;
}
// Whether every plain product with x equals the strong product. True if x is finite and not 0.
template <std::floating_point T>
constexpr bool is_plain_factor(const T& x) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>) {
    using Bits = std::conditional_t<std::is_same_v<T, double>, uint64_t, uint32_t>;
    constexpr Bits infinite = std::bit_cast<Bits>(std::numeric_limits<T>::infinity()) << 1;
    return static_cast<Bits>((std::bit_cast<Bits>(x) << 1) - 1) < infinite - 1;  // one comparison
  } else {
    return x != 0 && x - x == 0;
  }
}

// Whether x is 0. An active scalar or dual number must also not vary.
template <std::floating_point T>
constexpr bool is_exact_zero(const T& x) {
  return x == 0;
}
template <std::floating_point T>
constexpr bool is_exact_one(const T& x) {
  return x == 1;
}

}  // namespace internal::scalar_math

namespace internal {

// Whether an N is a constant in arithmetic with an Active or Dual of value type T. True for plain
// numbers, for T, and for the value types nested in T, which are numbers of outer derivatives.
template <class N, class T>
constexpr bool is_plain_for() {
  if constexpr (std::is_arithmetic_v<N> || std::is_same_v<N, T>) {
    return true;
  } else if constexpr (requires { typename T::Value; }) {
    return is_plain_for<N, typename T::Value>();
  } else {
    return false;
  }
}
template <class N, class T>
concept PlainFor = is_plain_for<N, T>();

}  // namespace internal

namespace internal::scalar_math {

// The partial of |x|: -1, 0 or 1, and NaN for NaN.
template <class T>
T sign_of(const T& x) {
  const T none = where(x == T(0), T(0), T(std::numeric_limits<double>::quiet_NaN()));
  return where(x > T(0), T(1), where(x < T(0), T(-1), none));
}

// The square root of 1 + x * x. The square does not overflow.
template <class T>
T root_of_one_and(const T& x) {
  return hypot(x, T(1));
}

// The derivative of lgamma. It is infinite at 0, with the sign of -x, and NaN at negative integers.
// Source: Abramowitz and Stegun, 6.3.5, 6.3.7 and 6.3.18.
template <class T>
T digamma(T x) {
  T y(0);
  if (x == T(0)) return T(-1) / x;
  if (x < T(0)) {
    if (floor(x) == x) return T(std::numeric_limits<double>::quiet_NaN());
    y = T(-std::numbers::pi) / tan(T(std::numbers::pi) * x);
    x = T(1) - x;
  }
  for (; x < T(10); x = x + T(1)) y = y - T(1) / x;
  const T r = T(1) / (x * x);
  const T series =
      r *
      (T(1.0 / 12) -
       r * (T(1.0 / 120) -
            r * (T(1.0 / 252) - r * (T(1.0 / 240) - r * (T(1.0 / 132) - r * (T(691.0 / 32760)))))));
  return y + log(x) - T(0.5) / x - series;
}

}  // namespace internal::scalar_math
}  // namespace etude
