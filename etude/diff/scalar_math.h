// SPDX-License-Identifier: Apache-2.0
// The functions that math_rules.inc is written in, for plain numbers. Those of active scalars and
// dual numbers are found beside their types.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <numbers>
#include <type_traits>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal::scalar_math {

using std::abs, std::fabs, std::exp, std::exp2, std::expm1, std::log, std::log2, std::log10,
    std::log1p, std::sqrt, std::cbrt, std::sin, std::cos, std::tan, std::asin, std::acos, std::atan,
    std::sinh, std::cosh, std::tanh, std::asinh, std::acosh, std::atanh, std::erf, std::erfc,
    std::lgamma, std::tgamma, std::pow, std::atan2, std::hypot, std::fmod, std::remainder, std::fma,
    std::lerp, std::fmin, std::fmax, std::fdim, std::copysign, std::ceil, std::floor, std::round,
    std::trunc, std::rint, std::nearbyint, std::isnan, std::isfinite;

// Whether x is 0 and, were it an active scalar or dual number, does not vary either.
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

// Numbers that stand for a constant T beside a number with a derivative.
template <class N, class T>
concept PlainFor = std::is_arithmetic_v<N> || std::is_same_v<N, T>;

}  // namespace internal

namespace internal::scalar_math {

// -1, 0 or 1; the slope of |x|.
template <class T>
T sign_of(const T& x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0);
}

// How much of `chosen`, the smaller or larger of both, comes from a: half if they are equal.
template <class T>
T share_of(const T& chosen, const T& a, const T& b) {
  if (a == b) return T(0.5);
  return chosen == a ? T(1) : T(0);
}

// The derivative of lgamma. NaN at 0 and below at whole numbers.
// Source: Abramowitz and Stegun, 6.3.5, 6.3.7 and 6.3.18.
template <class T>
T digamma(T x) {
  T y(0);
  if (x <= T(0)) {
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
