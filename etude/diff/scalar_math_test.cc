// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "etude/diff/scan.h"
#include "tests/rows/modes.h"

namespace etude::scalar_math_test {
namespace {

using tests::Pair;

// Functions and where they are looked at. One class calls all of them, so that one derivative is
// compiled for each mode, not for each function.
#define ETUDE_UNARY_CASES(ETUDE_CASE) \
  ETUDE_CASE(exp, -1.5, 0, 2)         \
  ETUDE_CASE(exp2, -1.5, 0, 2)        \
  ETUDE_CASE(expm1, -1.5, 0, 2)       \
  ETUDE_CASE(log, .3, 1, 7)           \
  ETUDE_CASE(log2, .3, 1, 7)          \
  ETUDE_CASE(log10, .3, 1, 7)         \
  ETUDE_CASE(log1p, -.3, 0, 7)        \
  ETUDE_CASE(sqrt, .3, 9)             \
  ETUDE_CASE(cbrt, -.3, 9)            \
  ETUDE_CASE(sin, -1, 0, 4)           \
  ETUDE_CASE(cos, -1, 0, 4)           \
  ETUDE_CASE(tan, -1, 0, 1)           \
  ETUDE_CASE(asin, -.7, 0, .3)        \
  ETUDE_CASE(acos, -.7, 0, .3)        \
  ETUDE_CASE(atan, -.7, 0, 3)         \
  ETUDE_CASE(sinh, -.7, 0, 3)         \
  ETUDE_CASE(cosh, -.7, 0, 3)         \
  ETUDE_CASE(tanh, -.7, 0, 3)         \
  ETUDE_CASE(asinh, -.7, 0, 3)        \
  ETUDE_CASE(acosh, 1.5, 3)           \
  ETUDE_CASE(atanh, -.7, 0, .3)       \
  ETUDE_CASE(erf, -.7, 0, 1.3)        \
  ETUDE_CASE(erfc, -.7, 0, 1.3)       \
  ETUDE_CASE(lgamma, -1.6, .4, 3, 20) \
  ETUDE_CASE(tgamma, -1.6, .4, 3)     \
  ETUDE_CASE(abs, -2, 3)              \
  ETUDE_CASE(fabs, -2, 3)             \
  ETUDE_CASE(floor, -2.5, 3.5)        \
  ETUDE_CASE(ceil, -2.5, 3.5)         \
  ETUDE_CASE(round, -2.2, 3.2)        \
  ETUDE_CASE(trunc, -2.5, 3.5)
#define ETUDE_BINARY_CASES(ETUDE_CASE)         \
  ETUDE_CASE(pow, {2, 2}, {.5, -1.5})          \
  ETUDE_CASE(atan2, {1, 2}, {-1, -.5})         \
  ETUDE_CASE(hypot, {3, -4}, {.1, 2})          \
  ETUDE_CASE(fmod, {7.3, 2}, {-7.3, 2.1})      \
  ETUDE_CASE(remainder, {7.3, 2}, {-7.3, 2.1}) \
  ETUDE_CASE(fmin, {1, 2}, {2, 1})             \
  ETUDE_CASE(fmax, {1, 2}, {2, 1})             \
  ETUDE_CASE(fdim, {1, 2}, {2, 1})             \
  ETUDE_CASE(copysign, {1, -2}, {-2, 1})

enum Function {
#define ETUDE_CASE(f, ...) of_##f,
  ETUDE_UNARY_CASES(ETUDE_CASE) ETUDE_BINARY_CASES(ETUDE_CASE)
#undef ETUDE_CASE
};
struct CallOne {
  Function function;
  template <class T>
  T operator()(const T& x) const {
    switch (function) {
#define ETUDE_CASE(f, ...) \
  case of_##f: {           \
    using std::f;          \
    return f(x);           \
  }
      ETUDE_UNARY_CASES(ETUDE_CASE)
#undef ETUDE_CASE
      default:
        return x;
    }
  }
};
struct CallTwo {
  Function function;
  template <class T>
  T operator()(const T& x, const T& y) const {
    switch (function) {
#define ETUDE_CASE(f, ...) \
  case of_##f: {           \
    using std::f;          \
    return f(x, y);        \
  }
      ETUDE_BINARY_CASES(ETUDE_CASE)
#undef ETUDE_CASE
      default:
        return x;
    }
  }
};

// spec: D36
TEST(ScalarMath, SlopesEqualDifferences) {
  struct Case {
    const char* name;
    CallOne f;
    std::vector<double> points;
  };
#define ETUDE_CASE(f, ...) {#f, {of_##f}, {__VA_ARGS__}},
  const Case cases[] = {ETUDE_UNARY_CASES(ETUDE_CASE)};
#undef ETUDE_CASE
  for (const auto& [name, f, points] : cases) {
    for (const double x : points) {
      const double h = 1e-6 * (1 + std::abs(x));
      const double want = (f(x + h) - f(x - h)) / (2 * h);
      const double tolerance = 2e-8 * (1 + std::abs(want));
      EXPECT_NEAR(derivative(f, x), want, tolerance) << name << " at " << x;
      EXPECT_NEAR(pullback(f, x)(1), want, tolerance) << name << " at " << x;
    }
  }
}

// spec: D36
TEST(ScalarMath, SlopesOfTwoArgumentsEqualDifferences) {
  struct Case {
    const char* name;
    CallTwo f;
    std::vector<std::pair<double, double>> points;
  };
#define ETUDE_CASE(f, ...) {#f, {of_##f}, {__VA_ARGS__}},
  const Case cases[] = {ETUDE_BINARY_CASES(ETUDE_CASE)};
#undef ETUDE_CASE
  for (const auto& [name, f, points] : cases) {
    for (const auto& [x, y] : points) {
      const double h = 1e-6;
      const Pair want = {(f(x + h, y) - f(x - h, y)) / (2 * h),
                         (f(x, y + h) - f(x, y - h)) / (2 * h)};
      for (const Pair& got : {gradient(f, x, y), pullback(f, x, y)(1)}) {
        EXPECT_NEAR(std::get<0>(got), std::get<0>(want), 1e-7) << name << " at " << x << ", " << y;
        EXPECT_NEAR(std::get<1>(got), std::get<1>(want), 1e-7) << name << " at " << x << ", " << y;
      }
    }
  }
}

// Code written for double uses std::.
// spec: D36
TEST(ScalarMath, FunctionsOfStdTakeNumbersOfDerivatives) {
  const auto f = [](auto x, auto y) {
    return std::sin(x) * std::pow(y, 2.0) + std::pow(2, y) + std::hypot(x, y) + std::abs(y) +
           std::max(x, 0.25) * std::min(1.0, y) + std::floor(y) + (std::isfinite(x) ? x : y);
  };
  const double x = 0.7, y = 0.4, h = 1e-6;
  const Pair want = {(f(x + h, y) - f(x - h, y)) / (2 * h), (f(x, y + h) - f(x, y - h)) / (2 * h)};
  const auto inner = [&](auto a, auto b) { return std::exp(std::get<0>(gradient(f, a, b))); };
  for (const Pair& got : {gradient(f, x, y), pullback(f, x, y)(1)}) {
    EXPECT_NEAR(std::get<0>(got), std::get<0>(want), 1e-7);
    EXPECT_NEAR(std::get<1>(got), std::get<1>(want), 1e-7);
  }
  const double slope = std::get<0>(gradient(f, x, y));
  const double curve =
      (std::get<0>(gradient(f, x + h, y)) - std::get<0>(gradient(f, x - h, y))) / (2 * h);
  EXPECT_NEAR(std::get<0>(gradient(inner, x, y)), std::exp(slope) * curve, 1e-7);
  EXPECT_EQ(derivative([](auto a) { return std::max(a, 2.0) + std::min(a, 2.0); }, 3.0), 1);
  const auto loop = [](auto start, auto rate) {
    return scan(5, start, rate, [](auto s, auto k) { return s + 0.1 * std::sin(k * s); });
  };
  const auto plain = [](auto start, auto rate) {
    for (int i = 0; i < 5; ++i) start = start + 0.1 * std::sin(rate * start);
    return start;
  };
  EXPECT_NEAR(std::get<1>(gradient(loop, x, y)), std::get<1>(gradient(plain, x, y)), 1e-15);
}

// spec: D36
TEST(ScalarMath, Kinks) {
  const auto inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(derivative([](auto x) { return abs(x); }, 0.0), 0);
  EXPECT_EQ(derivative([](auto x) { return sqrt(x); }, 0.0), inf);
  EXPECT_EQ(derivative([](auto x) { return sqrt(x * 0); }, 1.0), 0);
  EXPECT_EQ(pullback([](auto x) { return 0 * sqrt(x); }, 0.0)(1), 0);
  const auto power = [](auto x, auto y) { return pow(x, y); };
  EXPECT_NEAR(std::get<1>(gradient(power, 2.0, 2.0)), 2.7725887, 1e-7);
  EXPECT_EQ(gradient(power, 0.0, 1.0), Pair(1, 0));
  EXPECT_EQ(gradient(power, 0.0, 0.0), Pair(0, 0));
  EXPECT_EQ(gradient([](auto x, auto y) { return fmax(x, y); }, 2.0, 2.0), Pair(.5, .5));
  EXPECT_EQ(gradient([](auto x, auto y) { return fmin(x, y); }, 2.0, 2.0), Pair(.5, .5));
  EXPECT_EQ(gradient([](auto x, auto y) { return hypot(x, y); }, 0.0, 0.0), Pair(0, 0));
}

// spec: D36
TEST(ScalarMath, FmaAndLerpRoundOnce) {
  const double a = 1 + 0x1p-30, b = 1 - 0x1p-30, c = -1;
  EXPECT_NE(std::fma(a, b, c), a * b + c);
  const auto f = [](const auto& v) { return fma(v[0], v[1], v[2]) + 0.0 * v[3] * v[4]; };
  const auto [value, grads] = value_with_gradient(f, std::vector{a, b, c, 0.0, 0.0});
  EXPECT_EQ(value, std::fma(a, b, c));
  EXPECT_EQ(grads, (std::vector{b, a, 1.0, 0.0, 0.0}));
  const auto g = [](auto x, auto y, auto t) { return lerp(x, y, t); };
  EXPECT_EQ(value_with_gradient(g, 0.1, 0.7, 1.0).first, std::lerp(0.1, 0.7, 1.0));
  const auto h = [](auto x) { return fma(x, x, x * -1.0); };
  EXPECT_EQ(value_with_derivative(h, a), std::pair(std::fma(a, a, -a), 2 * a - 1));
}

}  // namespace
}  // namespace etude::scalar_math_test
