// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "etude/diff/scan.h"
#include "tests/rows/modes.h"

namespace etude {
namespace {

using testing::Pair;

// spec: D36
TEST(ScalarMath, SlopesEqualDifferences) {
  const auto check = [](const char* name, const auto& f, std::initializer_list<double> points) {
    for (const double x : points) {
      const double h = 1e-6 * (1 + std::abs(x));
      const double want = (f(x + h) - f(x - h)) / (2 * h);
      const double tolerance = 2e-8 * (1 + std::abs(want));
      EXPECT_NEAR(derivative(f, x), want, tolerance) << name << " at " << x;
      EXPECT_NEAR(pullback(f, x)(1), want, tolerance) << name << " at " << x;
    }
  };
#define ETUDE_CHECK(f, ...) \
  check(#f,                 \
        [](auto x) {        \
          using std::f;     \
          return f(x);      \
        },                  \
        {__VA_ARGS__})
  ETUDE_CHECK(exp, -1.5, 0, 2);
  ETUDE_CHECK(exp2, -1.5, 0, 2);
  ETUDE_CHECK(expm1, -1.5, 0, 2);
  ETUDE_CHECK(log, .3, 1, 7);
  ETUDE_CHECK(log2, .3, 1, 7);
  ETUDE_CHECK(log10, .3, 1, 7);
  ETUDE_CHECK(log1p, -.3, 0, 7);
  ETUDE_CHECK(sqrt, .3, 9);
  ETUDE_CHECK(cbrt, -.3, 9);
  ETUDE_CHECK(sin, -1, 0, 4);
  ETUDE_CHECK(cos, -1, 0, 4);
  ETUDE_CHECK(tan, -1, 0, 1);
  ETUDE_CHECK(asin, -.7, 0, .3);
  ETUDE_CHECK(acos, -.7, 0, .3);
  ETUDE_CHECK(atan, -.7, 0, 3);
  ETUDE_CHECK(sinh, -.7, 0, 3);
  ETUDE_CHECK(cosh, -.7, 0, 3);
  ETUDE_CHECK(tanh, -.7, 0, 3);
  ETUDE_CHECK(asinh, -.7, 0, 3);
  ETUDE_CHECK(acosh, 1.5, 3);
  ETUDE_CHECK(atanh, -.7, 0, .3);
  ETUDE_CHECK(erf, -.7, 0, 1.3);
  ETUDE_CHECK(erfc, -.7, 0, 1.3);
  ETUDE_CHECK(lgamma, -1.6, .4, 3, 20);
  ETUDE_CHECK(tgamma, -1.6, .4, 3);
  ETUDE_CHECK(abs, -2, 3);
  ETUDE_CHECK(fabs, -2, 3);
  ETUDE_CHECK(floor, -2.5, 3.5);
  ETUDE_CHECK(ceil, -2.5, 3.5);
  ETUDE_CHECK(round, -2.2, 3.2);
  ETUDE_CHECK(trunc, -2.5, 3.5);
#undef ETUDE_CHECK
}

// spec: D36
TEST(ScalarMath, SlopesOfTwoArgumentsEqualDifferences) {
  const auto check = [](const char* name, const auto& f,
                        std::initializer_list<std::pair<double, double>> points) {
    for (const auto& [x, y] : points) {
      const double h = 1e-6;
      const Pair want = {(f(x + h, y) - f(x - h, y)) / (2 * h),
                         (f(x, y + h) - f(x, y - h)) / (2 * h)};
      for (const Pair& got : {gradient(f, x, y), pullback(f, x, y)(1)}) {
        EXPECT_NEAR(std::get<0>(got), std::get<0>(want), 1e-7) << name << " at " << x << ", " << y;
        EXPECT_NEAR(std::get<1>(got), std::get<1>(want), 1e-7) << name << " at " << x << ", " << y;
      }
    }
  };
#define ETUDE_CHECK(f, ...)  \
  check(#f,                  \
        [](auto x, auto y) { \
          using std::f;      \
          return f(x, y);    \
        },                   \
        {__VA_ARGS__})
  ETUDE_CHECK(pow, {2, 2}, {.5, -1.5});
  ETUDE_CHECK(atan2, {1, 2}, {-1, -.5});
  ETUDE_CHECK(hypot, {3, -4}, {.1, 2});
  ETUDE_CHECK(fmod, {7.3, 2}, {-7.3, 2.1});
  ETUDE_CHECK(remainder, {7.3, 2}, {-7.3, 2.1});
  ETUDE_CHECK(fmin, {1, 2}, {2, 1});
  ETUDE_CHECK(fmax, {1, 2}, {2, 1});
  ETUDE_CHECK(fdim, {1, 2}, {2, 1});
  ETUDE_CHECK(copysign, {1, -2}, {-2, 1});
#undef ETUDE_CHECK
}

// Code that was written for double says std::.
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
}  // namespace etude
