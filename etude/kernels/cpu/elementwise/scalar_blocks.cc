// SPDX-License-Identifier: Apache-2.0
// Blocks of the tile interpreter for integers, reals and complex numbers.
#include <limits>

#include "etude/base/check.h"
#include "etude/kernels/cpu/elementwise/scalar_math.h"

namespace etude::kernels::cpu {
namespace {

using scalar::Fn;

template <class T, class F>
bool map2(T* out, const T* a, const T* b, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
  return true;
}
template <class T, class F>
bool map1(T* out, const T* a, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
  return true;
}
bool unsupported(Fn fn, DType dtype) {
  return report_fault(ErrorCode::kUnimplemented,
                      fmt::format("{} has no kernel for {}", scalar::info(fn).op, name(dtype)));
}

template <class T>
T floor_quotient(T x, T y) {
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return math_subtract(T(0), x);  // the one quotient that overflows wraps
    const T q = static_cast<T>(x / y);
    return static_cast<T>(q - ((x % y != 0) && ((x < 0) != (y < 0)) ? 1 : 0));
  } else {
    return static_cast<T>(x / y);
  }
}
template <class T>
T floor_remainder(T x, T y) {
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return 0;
    const T r = static_cast<T>(x % y);
    return static_cast<T>(r != 0 && ((r < 0) != (y < 0)) ? r + y : r);
  } else {
    return static_cast<T>(x % y);
  }
}
template <class T>
T shift_left(T x, T y) {
  const auto bits = static_cast<T>(sizeof(T) * 8);
  return y < 0 || y >= bits ? T(0) : static_cast<T>(static_cast<uint64_t>(x) << y);
}
template <class T>
T shift_right(T x, T y) {
  const auto bits = static_cast<T>(sizeof(T) * 8);
  return static_cast<T>(y < 0 || y >= bits ? (x < 0 ? T(-1) : T(0)) : x >> y);
}

template <class T>
bool has_zero(const T* b, int64_t n) {
  return std::find(b, b + n, T(0)) != b + n;
}

// Inverse error function: a rational start value refined by two Newton steps on erf; at 15 digits.
double inverse_erf(double x) {
  if (!(std::abs(x) < 1)) return std::abs(x) == 1 ? std::copysign(INFINITY, x) : NAN;
  const double w = -std::log1p(-x * x);
  // Winitzki's approximation with a = 0.147 as the start value.
  const double t = 2 / (M_PI * 0.147) - w / 2;
  double y = std::copysign(std::sqrt(std::sqrt(t * t + w / 0.147) - t), x);
  for (int i = 0; i < 4; ++i) {
    const double error = std::abs(x) < 0.5 ? std::erf(y) - x
                         : x > 0           ? (1 - x) - std::erfc(y)
                                           : std::erfc(-y) - (1 + x);
    y -= error / (2 / std::sqrt(M_PI) * std::exp(-y * y));
  }
  return y;
}

// digamma by the recurrence up to 10, then the asymptotic series; reflection for x < 0.5.
double digamma(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0 && x == std::floor(x)) return NAN;
  if (x < 0.5) return digamma(1 - x) - M_PI / std::tan(M_PI * (x - std::nearbyint(x)));
  double shift = 0;
  for (; x < 10; x += 1) shift -= 1 / x;
  const double f = 1 / (x * x);
  const double series =
      f * (1.0 / 12 - f * (1.0 / 120 -
                           f * (1.0 / 252 -
                                f * (1.0 / 240 - f * (5.0 / 660 - f * (691.0 / 32760 - f / 12))))));
  return shift + std::log(x) - 0.5 / x - series;
}

template <class T>
T lgamma_of(T x) {
  int sign = 0;
  return static_cast<T>(::lgamma_r(static_cast<double>(x), &sign));  // std::lgamma writes a global
}
template <class T>
T logaddexp(T x, T y) {
  if (std::isnan(x) || std::isnan(y)) return x + y;
  const T high = std::max(x, y), low = std::min(x, y);
  return std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
}
template <class T>
T floored_remainder(T x, T y) {
  T r = std::fmod(x, y);
  if (r != 0 && (r < 0) != (y < 0)) r += y;
  return r == 0 ? std::copysign(T(0), y) : r;
}
template <class T>
T floored_quotient(T x, T y) {
  if (y == 0 || std::isnan(x) || std::isnan(y)) return x / y;
  if (std::isinf(x)) return std::numeric_limits<T>::quiet_NaN();
  if (std::isinf(y)) return x != 0 && (x < 0) != (y < 0) ? T(-1) : x / y;
  const T q = (x - floored_remainder(x, y)) / y;
  return q == 0 ? std::copysign(T(0), x / y) : std::round(q);
}

template <class T>
bool real_binary(Fn fn, T* out, const T* a, const T* b, int64_t n) {
  switch (fn) {
    case Fn::kDivide:
      return map2(out, a, b, n, [](T x, T y) { return x / y; });
    case Fn::kFloorDivide:
      return map2(out, a, b, n, floored_quotient<T>);
    case Fn::kRemainder:
      return map2(out, a, b, n, floored_remainder<T>);
    case Fn::kMaximum:
      return map2(out, a, b, n, [](T x, T y) { return x != x ? x : x > y ? x : y; });
    case Fn::kMinimum:
      return map2(out, a, b, n, [](T x, T y) { return x != x ? x : x < y ? x : y; });
    case Fn::kAtan2:
      return map2(out, a, b, n, [](T x, T y) { return std::atan2(x, y); });
    case Fn::kHypot:
      return map2(out, a, b, n, [](T x, T y) { return std::hypot(x, y); });
    case Fn::kCopysign:
      return map2(out, a, b, n, [](T x, T y) { return std::copysign(x, y); });
    case Fn::kNextafter:
      return map2(out, a, b, n, [](T x, T y) { return std::nextafter(x, y); });
    case Fn::kLogaddexp:
      return map2(out, a, b, n, logaddexp<T>);
    default:
      return unsupported(fn, dtype_of<T>);
  }
}

template <class T>
bool rounding_block(Fn fn, T* out, const T* a, int64_t n) {
  switch (fn) {
    case Fn::kFloor:
      return map1(out, a, n, [](T x) { return std::floor(x); });
    case Fn::kCeil:
      return map1(out, a, n, [](T x) { return std::ceil(x); });
    case Fn::kRound:
      return map1(out, a, n, [](T x) { return std::nearbyint(x); });
    case Fn::kTrunc:
      return map1(out, a, n, [](T x) { return std::trunc(x); });
    case Fn::kSqrt:
      return map1(out, a, n, [](T x) { return std::sqrt(x); });
    case Fn::kRsqrt:
      return map1(out, a, n, [](T x) { return 1 / std::sqrt(x); });
    case Fn::kCbrt:
      return map1(out, a, n, [](T x) { return std::cbrt(x); });
    case Fn::kErf:
      return map1(out, a, n, [](T x) { return std::erf(x); });
    case Fn::kErfc:
      return map1(out, a, n, [](T x) { return std::erfc(x); });
    case Fn::kErfinv:
      return map1(out, a, n, [](T x) { return static_cast<T>(inverse_erf(x)); });
    case Fn::kLgamma:
      return map1(out, a, n, lgamma_of<T>);
    case Fn::kDigamma:
      return map1(out, a, n, [](T x) { return static_cast<T>(digamma(x)); });
    case Fn::kSigmoid:
      return map1(out, a, n, [](T x) { return 1 / (1 + std::exp(-x)); });
    default:
      return false;
  }
}

// Functions that reals and complex numbers share.
template <class T>
bool analytic_block(Fn fn, T* out, const T* a, int64_t n) {
  switch (fn) {
    case Fn::kExp:
      return map1(out, a, n, [](T x) { return std::exp(x); });
    case Fn::kLog:
      return map1(out, a, n, [](T x) { return std::log(x); });
    case Fn::kLog10:
      return map1(out, a, n, [](T x) { return std::log10(x); });
    case Fn::kSin:
      return map1(out, a, n, [](T x) { return std::sin(x); });
    case Fn::kCos:
      return map1(out, a, n, [](T x) { return std::cos(x); });
    case Fn::kTan:
      return map1(out, a, n, [](T x) { return std::tan(x); });
    case Fn::kAsin:
      return map1(out, a, n, [](T x) { return std::asin(x); });
    case Fn::kAcos:
      return map1(out, a, n, [](T x) { return std::acos(x); });
    case Fn::kAtan:
      return map1(out, a, n, [](T x) { return std::atan(x); });
    case Fn::kSinh:
      return map1(out, a, n, [](T x) { return std::sinh(x); });
    case Fn::kCosh:
      return map1(out, a, n, [](T x) { return std::cosh(x); });
    case Fn::kTanh:
      return map1(out, a, n, [](T x) { return std::tanh(x); });
    case Fn::kAsinh:
      return map1(out, a, n, [](T x) { return std::asinh(x); });
    case Fn::kAcosh:
      return map1(out, a, n, [](T x) { return std::acosh(x); });
    case Fn::kAtanh:
      return map1(out, a, n, [](T x) { return std::atanh(x); });
    default:
      return unsupported(fn, dtype_of<T>);
  }
}

// expm1 and log1p of complex numbers without cancellation near zero.
template <class T>
std::complex<T> complex_expm1(std::complex<T> z) {
  const T x = z.real(), y = z.imag(), s = std::sin(y / 2);
  if (y == 0) return {std::expm1(x) + T(0), y};  // of x = -0, too, the real part is +0
  if (!std::isfinite(x) || !std::isfinite(y)) return std::exp(z) - T(1);  // infinities have signs
  return {std::expm1(x) * std::cos(y) - 2 * s * s, std::exp(x) * std::sin(y)};
}
template <class T>
std::complex<T> complex_log1p(std::complex<T> z) {
  const T x = z.real(), y = z.imag();
  if (!std::isfinite(x) || !std::isfinite(y) || std::abs(x) > T(0.5) || std::abs(y) > T(0.5)) {
    return std::log(T(1) + z);
  }
  return {T(0.5) * std::log1p(x * (2 + x) + y * y), std::atan2(y, 1 + x)};
}
// Not by std::polar, which makes NaN of an infinite real number and asserts that there is no NaN.
template <class T>
std::complex<T> complex_cbrt(std::complex<T> z) {
  if (z.imag() == 0 && !(z.real() < 0)) return {std::cbrt(z.real()), z.imag()};
  const T size = std::cbrt(std::abs(z)), angle = std::arg(z) / 3;
  return {size * std::cos(angle), size * std::sin(angle)};
}

}  // namespace

template <class T>
bool integer_block(Fn fn, T* out, const T* a, const T* b, int64_t n) {
  const bool divides = fn == Fn::kFloorDivide || fn == Fn::kRemainder;
  if (divides && has_zero(b, n)) {
    return report_fault(ErrorCode::kInvalidArgument,
                        "operand 'x2' has a zero, and integers cannot be divided by it. Mask zeros "
                        "with where, or divide floats");
  }
  switch (fn) {
    case Fn::kFloorDivide:
      return map2(out, a, b, n, floor_quotient<T>);
    case Fn::kRemainder:
      return map2(out, a, b, n, floor_remainder<T>);
    case Fn::kMaximum:
      return map2(out, a, b, n, [](T x, T y) { return std::max(x, y); });
    case Fn::kMinimum:
      return map2(out, a, b, n, [](T x, T y) { return std::min(x, y); });
    case Fn::kBitwiseAnd:
      return map2(out, a, b, n, [](T x, T y) { return static_cast<T>(x & y); });
    case Fn::kBitwiseOr:
      return map2(out, a, b, n, [](T x, T y) { return static_cast<T>(x | y); });
    case Fn::kBitwiseXor:
      return map2(out, a, b, n, [](T x, T y) { return static_cast<T>(x ^ y); });
    case Fn::kBitwiseLeftShift:
      return map2(out, a, b, n, shift_left<T>);
    case Fn::kBitwiseRightShift:
      return map2(out, a, b, n, shift_right<T>);
    case Fn::kBitwiseInvert:
      return map1(out, a, n, [](T x) { return static_cast<T>(~x); });
    case Fn::kFloor:
    case Fn::kCeil:
    case Fn::kRound:
    case Fn::kTrunc:
      return map1(out, a, n, [](T x) { return x; });
    default:
      return unsupported(fn, dtype_of<T>);
  }
}

template <class T>
bool real_block(Fn fn, T* out, const T* a, const T* b, int64_t n) {
  if (scalar::info(fn).arity == 2) return real_binary(fn, out, a, b, n);
  switch (fn) {
    case Fn::kExp2:
      return map1(out, a, n, [](T x) { return std::exp2(x); });
    case Fn::kExp10:
      return map1(out, a, n, [](T x) { return std::pow(T(10), x); });
    case Fn::kExpm1:
      return map1(out, a, n, [](T x) { return std::expm1(x); });
    case Fn::kLog2:
      return map1(out, a, n, [](T x) { return std::log2(x); });
    case Fn::kLog1p:
      return map1(out, a, n, [](T x) { return std::log1p(x); });
    default:
      return rounding_block(fn, out, a, n) || analytic_block(fn, out, a, n);
  }
}

template <class T>
bool complex_block(Fn fn, T* out, const T* a, const T* b, int64_t n) {
  using R = typename T::value_type;
  switch (fn) {
    case Fn::kDivide:
      return map2(out, a, b, n, [](T x, T y) { return x / y; });
    case Fn::kSqrt:
      return map1(out, a, n, [](T x) { return std::sqrt(x); });
    case Fn::kRsqrt:
      return map1(out, a, n, [](T x) { return T(1) / std::sqrt(x); });
    case Fn::kCbrt:
      return map1(out, a, n, complex_cbrt<R>);
    case Fn::kExp2:
      return map1(out, a, n, [](T x) { return std::exp(x * static_cast<R>(M_LN2)); });
    case Fn::kExp10:
      return map1(out, a, n, [](T x) { return std::exp(x * static_cast<R>(M_LN10)); });
    case Fn::kExpm1:
      return map1(out, a, n, complex_expm1<R>);
    case Fn::kLog2:
      return map1(out, a, n, [](T x) { return std::log(x) / static_cast<R>(M_LN2); });
    case Fn::kLog1p:
      return map1(out, a, n, complex_log1p<R>);
    case Fn::kSigmoid:
      return map1(out, a, n, [](T x) { return T(1) / (T(1) + std::exp(-x)); });
    default:
      return analytic_block(fn, out, a, n);
  }
}

#define ETUDE_INTEGER_BLOCK(T) template bool integer_block<T>(Fn, T*, const T*, const T*, int64_t);
ETUDE_INTEGER_BLOCK(int8_t)
ETUDE_INTEGER_BLOCK(int16_t)
ETUDE_INTEGER_BLOCK(int32_t)
ETUDE_INTEGER_BLOCK(int64_t)
ETUDE_INTEGER_BLOCK(uint8_t)
ETUDE_INTEGER_BLOCK(uint16_t)
ETUDE_INTEGER_BLOCK(uint32_t)
ETUDE_INTEGER_BLOCK(uint64_t)
template bool real_block<float>(Fn, float*, const float*, const float*, int64_t);
template bool real_block<double>(Fn, double*, const double*, const double*, int64_t);
template bool complex_block(Fn, std::complex<float>*, const std::complex<float>*,
                            const std::complex<float>*, int64_t);
template bool complex_block(Fn, std::complex<double>*, const std::complex<double>*,
                            const std::complex<double>*, int64_t);

}  // namespace etude::kernels::cpu
