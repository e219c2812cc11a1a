// SPDX-License-Identifier: Apache-2.0

#include "etude/kernels/cpu/simd/math_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace etude::internal {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double minimum(double x, double y) { return std::isnan(x) ? x : x < y ? x : y; }
double maximum(double x, double y) { return std::isnan(x) ? x : x > y ? x : y; }

using std::copysign;

// Halley's method on erf, or on erfc where that is the small one.
double erfinv(double x) {
  if (!(std::abs(x) < 1))
    return std::abs(x) == 1 ? x * std::numeric_limits<double>::infinity() : kNan;
  const long double a = std::abs(x), log = std::log((1 - a) * (1 + a)), guess = 4.33L + log / 2;
  if (x == 0) return x;
  long double y = std::sqrt(std::sqrt(guess * guess - log / 0.147L) - guess);
  if (!(y > 0)) y = a * 0.886226925452758L;
  for (int i = 0; i < 6; ++i) {
    const long double error = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const long double step = error / (1.128379167095512574L * std::exp(-y * y));
    y -= step / (1 + y * step);
  }
  return std::copysign(static_cast<double>(y), x);
}

double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0 && (x == std::floor(x))) return kNan;
  const long double pi = 3.14159265358979323846L;
  if (x < 0.5) {
    const long double r = x - std::nearbyint(x);
    long double z = 1 - static_cast<long double>(x),
                sum = -pi * std::cos(pi * r) / std::sin(pi * r);
    for (; z < 30; z += 1) sum -= 1 / z;
    const long double s = 1 / (z * z);
    return sum + std::log(z) - 1 / (2 * z) -
           s * (1 / 12.0L - s * (1 / 120.0L - s * (1 / 252.0L - s / 240)));
  }
  long double z = x, sum = 0;
  for (; z < 30; z += 1) sum -= 1 / z;
  const long double s = 1 / (z * z);
  return sum + std::log(z) - 1 / (2 * z) -
         s * (1 / 12.0L - s * (1 / 120.0L - s * (1 / 252.0L - s / 240)));
}

double sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

double remainder(double x, double y) {
  const double r = std::fmod(x, y);
  if (r == 0) return std::copysign(0.0, y);
  return std::signbit(r) == std::signbit(y) ? r : r + y;
}

double floor_divide(double x, double y) {
  if (y == 0) return x / y;
  if (std::isinf(x) || std::isnan(x)) return kNan;
  return x != 0 && std::isinf(y) && std::signbit(x) != std::signbit(y) ? -1 : std::floor(x / y);
}

double logaddexp(double x, double y) {
  if (x == y) return x + std::log(2.0);
  return std::max(x, y) + (std::isnan(x + y) && (std::isnan(x) || std::isnan(y))
                               ? kNan
                               : std::log1p(std::exp(-std::abs(x - y))));
}

double nextafter(double x, double y) {
  return std::nextafter(static_cast<float>(x), static_cast<float>(y));
}

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

#define UNARY(name, ulp, ...)                                 \
  {                                                           \
    name, ulp, [](double x) -> double { return __VA_ARGS__; } \
  }
#define BINARY(name, ulp, ...)                                                   \
  {                                                                              \
    name, ulp, nullptr, [](double x, double y) -> double { return __VA_ARGS__; } \
  }

const MathReference kReferences[] = {
    UNARY("abs", 0, std::abs(x)),
    UNARY("neg", 0, -x),
    UNARY("floor", 0, std::floor(x)),
    UNARY("ceil", 0, std::ceil(x)),
    UNARY("trunc", 0, std::trunc(x)),
    UNARY("round", 0, std::nearbyint(x)),
    UNARY("sqrt", 0.5, std::sqrt(x)),
    UNARY("exp", 2, std::exp(x)),
    UNARY("exp2", 2, std::exp2(x)),
    UNARY("exp10", 2, std::pow(10.0, x)),
    UNARY("expm1", 2, std::expm1(x)),
    UNARY("sigmoid", 2, sigmoid(x)),
    UNARY("tanh", 2, std::tanh(x)),
    UNARY("erf", 2, std::erf(x)),
    UNARY("log", 2, std::log(x)),
    UNARY("log2", 2, std::log2(x)),
    UNARY("log10", 2, std::log10(x)),
    UNARY("log1p", 2, std::log1p(x)),
    UNARY("sin", 2, std::sin(x)),
    UNARY("cos", 2, std::cos(x)),
    UNARY("tan", 2, std::tan(x)),
    UNARY("asin", 2, std::asin(x)),
    UNARY("acos", 2, std::acos(x)),
    UNARY("atan", 2, std::atan(x)),
    UNARY("sinh", 2, std::sinh(x)),
    UNARY("cosh", 2, std::cosh(x)),
    UNARY("asinh", 2, std::asinh(x)),
    UNARY("acosh", 2, std::acosh(x)),
    UNARY("atanh", 2, std::atanh(x)),
    UNARY("cbrt", 2, std::cbrt(x)),
    UNARY("rsqrt", 2, 1 / std::sqrt(x)),
    UNARY("reciprocal", 0.5, 1 / x),
    UNARY("sign", 0, sign(x)),
    UNARY("erfc", 2, std::erfc(x)),
    UNARY("erfinv", 2, erfinv(x)),
    UNARY("lgamma", 2, static_cast<double>(std::lgamma(static_cast<long double>(x)))),
    UNARY("digamma", 2, digamma(x)),
    BINARY("add", 0.501, x + y),
    BINARY("subtract", 0.501, x - y),
    BINARY("multiply", 0.5, x* y),
    BINARY("divide", 0.501, x / y),
    BINARY("minimum", 0, minimum(x, y)),
    BINARY("maximum", 0, maximum(x, y)),
    BINARY("copysign", 0, copysign(x, y)),
    BINARY("pow", 2, std::pow(x, y)),
    BINARY("atan2", 2, std::atan2(x, y)),
    BINARY("hypot", 2, std::hypot(x, y)),
    BINARY("remainder", 0.501, remainder(x, y)),
    BINARY("floor_divide", 0.501, floor_divide(x, y)),
    BINARY("logaddexp", 2, logaddexp(x, y)),
    BINARY("nextafter", 0, nextafter(x, y)),
};

}  // namespace

std::span<const MathReference> math_references() { return kReferences; }

const MathReference* find_reference(std::string_view name) {
  for (const MathReference& reference : kReferences) {
    if (reference.name == name) return &reference;
  }
  return nullptr;
}

std::vector<MathReference> references_of_arity(int arity) {
  std::vector<MathReference> found;
  for (const MathReference& reference : kReferences) {
    if ((reference.unary != nullptr ? 1 : 2) == arity) found.push_back(reference);
  }
  return found;
}

}  // namespace etude::internal
