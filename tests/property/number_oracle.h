// SPDX-License-Identifier: Apache-2.0
// The oracle of random_numbers_test.cc: numbers whose derivative along one direction is the
// imaginary part of long double arithmetic, for a step so small that it changes no real part
// (complex-step differentiation: Squire and Trapp, SIAM Review 40, 1998). It shares no rule with
// the library. Comparisons look at real parts.
#pragma once

#include <cmath>
#include <complex>
#include <concepts>
#include <limits>
#include <type_traits>

#include "tests/property/number_values.h"

namespace etude::programs {

class Step {
 public:
  using Complex = std::complex<long double>;
  static constexpr long double kSize = 1e-30L;

  Step() = default;
  template <class N>
  requires(std::is_arithmetic_v<N>) Step(N value) : z_(static_cast<long double>(value)) {}
  explicit Step(Complex z) : z_(z) {}
  Step(long double value, long double slope) : z_(value, slope * kSize) {}

  long double value() const { return z_.real(); }
  long double slope() const { return z_.imag() / kSize; }
  template <std::integral N>
  explicit operator N() const {
    return static_cast<N>(value());
  }

  friend Step operator+(const Step& a, const Step& b) { return Step(a.z_ + b.z_); }
  friend Step operator-(const Step& a, const Step& b) { return Step(a.z_ - b.z_); }
  // Written out: libstdc++'s looks for infinities, and the square of the step is none of a
  // number's.
  friend Step operator*(const Step& a, const Step& b) {
    const long double x = a.z_.real(), y = b.z_.real();
    return Step(Complex(x * y, x * b.z_.imag() + y * a.z_.imag()));
  }
  friend Step operator/(const Step& a, const Step& b) {
    const long double y = a.z_.real() / b.z_.real();
    return Step(Complex(y, (a.z_.imag() - y * b.z_.imag()) / b.z_.real()));
  }
  friend Step operator-(const Step& a) { return Step(-a.z_); }
  Step& operator+=(const Step& b) { return *this = *this + b; }
  Step& operator-=(const Step& b) { return *this = *this - b; }
  Step& operator*=(const Step& b) { return *this = *this * b; }
  Step& operator/=(const Step& b) { return *this = *this / b; }
  Step& operator++() { return *this += 1; }
  Step& operator--() { return *this -= 1; }
  friend bool operator<(const Step& a, const Step& b) { return a.value() < b.value(); }
  friend bool operator>(const Step& a, const Step& b) { return a.value() > b.value(); }
  friend bool operator<=(const Step& a, const Step& b) { return a.value() <= b.value(); }
  friend bool operator>=(const Step& a, const Step& b) { return a.value() >= b.value(); }

#define ETUDE_ANALYTIC(f) \
  friend Step f(const Step& x) { return Step(std::f(x.z_)); }
  ETUDE_ANALYTIC(sin)
  ETUDE_ANALYTIC(cos)
  ETUDE_ANALYTIC(tan)
  ETUDE_ANALYTIC(asin)
  ETUDE_ANALYTIC(acos)
  ETUDE_ANALYTIC(atan)
  ETUDE_ANALYTIC(sinh)
  ETUDE_ANALYTIC(cosh)
  ETUDE_ANALYTIC(tanh)
  ETUDE_ANALYTIC(asinh)
  ETUDE_ANALYTIC(acosh)
  ETUDE_ANALYTIC(atanh)
  ETUDE_ANALYTIC(exp)
  ETUDE_ANALYTIC(log)
  ETUDE_ANALYTIC(log10)
  ETUDE_ANALYTIC(sqrt)
#undef ETUDE_ANALYTIC
  friend Step exp2(const Step& x) { return exp(x * std::log(2.0L)); }
  friend Step expm1(const Step& x) { return Step(std::expm1(x.value()), exp(x).slope()); }
  friend Step log2(const Step& x) { return log(x) / std::log(2.0L); }
  friend Step log1p(const Step& x) { return log(1 + x); }
  friend Step cbrt(const Step& x) { return exp(log(x) / 3); }  // of positive numbers
  // No complex ones exist: a difference, of order 4.
#define ETUDE_BY_DIFFERENCE(f)                                       \
  friend Step f(const Step& x) {                                     \
    const long double v = x.value(), h = 1e-4L;                      \
    const long double near = std::f(v + h) - std::f(v - h),          \
                      far = std::f(v + 2 * h) - std::f(v - 2 * h);   \
    return Step(std::f(v), x.slope() * (8 * near - far) / (12 * h)); \
  }
  ETUDE_BY_DIFFERENCE(erf)
  ETUDE_BY_DIFFERENCE(erfc)
  ETUDE_BY_DIFFERENCE(lgamma)
  ETUDE_BY_DIFFERENCE(tgamma)
#undef ETUDE_BY_DIFFERENCE
  friend Step abs(const Step& x) { return x < 0 ? -x : x; }
  friend Step fabs(const Step& x) { return abs(x); }
#define ETUDE_ROUNDING(f) \
  friend Step f(const Step& x) { return Step(std::f(x.value())); }
  ETUDE_ROUNDING(floor)
  ETUDE_ROUNDING(ceil)
  ETUDE_ROUNDING(round)
  ETUDE_ROUNDING(trunc)
  ETUDE_ROUNDING(rint)
  ETUDE_ROUNDING(nearbyint)
#undef ETUDE_ROUNDING

  friend Step pow(const Step& x, const Step& y) { return exp(y * log(x)); }  // of positive numbers
  friend Step pow(const Step& x, double n) { return n == 3 ? x * x * x : x * x; }
  friend Step pow(double x, const Step& y) { return pow(Step(x), y); }
  friend Step atan2(const Step& y, const Step& x) { return atan(y / x); }  // to the right of 0
  friend Step hypot(const Step& x, const Step& y) { return sqrt(x * x + y * y); }
  friend Step fmod(const Step& x, const Step& y) { return x - trunc(x / y) * y; }
  friend Step remainder(const Step& x, const Step& y) { return x - rint(x / y) * y; }
  // Of equal operands each gets half.
  friend Step fmin(const Step& x, const Step& y) { return x < y ? x : y < x ? y : (x + y) * 0.5; }
  friend Step fmax(const Step& x, const Step& y) { return x < y ? y : y < x ? x : (x + y) * 0.5; }
  friend Step fdim(const Step& x, const Step& y) { return x > y ? x - y : Step(); }
  friend Step copysign(const Step& x, const Step& y) {
    return std::signbit(x.value()) == std::signbit(y.value()) ? x : -x;
  }
  friend Step fma(const Step& x, const Step& y, const Step& z) { return x * y + z; }
  friend Step lerp(const Step& a, const Step& b, const Step& t) { return a + t * (b - a); }
  friend long double value_of(const Step& x) { return x.value(); }

 private:
  Complex z_ = 0;
};
template <>
inline constexpr bool kIsOracle<Step> = true;

}  // namespace etude::programs
