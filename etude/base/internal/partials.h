// SPDX-License-Identifier: Apache-2.0
// Helper functions for the derivatives in scalar_functions.inc: for numbers of all kinds, and for
// symbols.
#pragma once

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal::partials {

// Selects a number. Symbols have their own overload.
template <class T>
constexpr T where(bool condition, const T& a, const T& b) {
  return condition ? a : b;
}

// The other component of a point, divided by the square of its distance from the origin: the
// partial of the angle. Avoids the square, which may overflow or underflow. 0 at the origin.
template <class T>
constexpr T angle_partial(const T& other, const T& distance) {
  return where(distance == T(0), T(0), other / distance / distance);
}

// The share of a in `chosen`, the smaller or larger of a and b: half if they are equal.
template <class T>
constexpr T share_of(const T& chosen, const T& a, const T& b) {
  return where(a == b, T(0.5), where(chosen == a, T(1), T(0)));
}
// The same for the larger, by comparison. 0 if one of them is NaN.
template <class T>
constexpr T share_above(const T& a, const T& b) {
  return where(a == b, T(0.5), where(a > b, T(1), T(0)));
}

// a, or 1 if a has no logarithm.
template <class T>
constexpr T with_logarithm(const T& a) {
  return where(a <= T(0), T(1), a);
}

// The derivative of digamma. For x above 0.5: the recurrence up to x + 5, then the asymptotic
// series. Below: reflection, pi^2 / sin^2(pi x) minus the value at 1 - x. Source: Abramowitz and
// Stegun, 6.4.6, 6.4.7 and 6.4.12.
template <class T>
constexpr T trigamma(const T& x) {
  const T reflected = where(x < T(0.5), T(1) - x, x);
  T sum = T(1) / (reflected * reflected);
  for (int k = 1; k < 5; ++k) {
    const T shifted = reflected + T(k);
    sum = sum + T(1) / (shifted * shifted);
  }
  const T inverse = T(1) / (reflected + T(5));
  const T f = inverse * inverse;
  const T tail = f * (T(1.0 / 42) - f * (T(1.0 / 30) - f * T(5.0 / 66)));
  const T series = inverse + f * (T(0.5) + inverse * (T(1.0 / 6) - f * (T(1.0 / 30) - tail)));
  const T right = sum + series;
  constexpr double kPi = 3.14159265358979323846;
  const T partial = T(kPi) / sin(T(kPi) * (x - floor(x)));
  return where(x < T(0.5), partial * partial - right, right);
}

}  // namespace internal::partials
}  // namespace etude
