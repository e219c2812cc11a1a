// SPDX-License-Identifier: Apache-2.0
// Loops of scan that add up, and the sequences that they read: the same values and derivatives as
// loops over tapes, for every number of steps that fills vectors or does not.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace etude {
namespace {

using Doubles = std::vector<double>;

template <class T>
T number(std::size_t i) {
  return static_cast<T>(std::sin(static_cast<double>(3 * i + 1)));
}
template <class T>
std::vector<T> numbers(std::size_t count) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = number<T>(i);
  return out;
}

// Every kind of call: arithmetic, functions of one and two numbers, choices, and two terms.
constexpr auto kTerms = [](auto s, const auto& p, const auto& x, auto y) {
  using std::exp, std::sin, std::atan2, std::fmax, std::pow, std::floor;
  const auto r = x[0] * p[0] - y / (2.0 + x[1] * x[1]);
  const auto chosen = where(r > 0.1, r * r, -exp(p[1]) * x[1]);
  return s + chosen * sin(x[0]) + (atan2(r, 1.5 + y) + fmax(r, y) * pow(2.0 + r, p[2])) + floor(y);
};
// The equivalent loop, with branches and functions as in user programs.
template <class S, class P, class X>
auto looped(std::size_t steps, const S& start, const P& p, const X& x, const Doubles& y) {
  S s = start;
  for (std::size_t i = 0; i < steps; ++i) {
    const S a = x[2 * i], b = x[2 * i + 1], r = a * p[0] - y[i] / (2.0 + b * b);
    const S chosen = r > 0.1 ? S(r * r) : S(-exp(p[1]) * b);
    s = s + chosen * sin(a) + (atan2(r, 1.5 + y[i]) + fmax(r, S(y[i])) * pow(2.0 + r, p[2])) +
        std::floor(y[i]);
  }
  return s;
}

// spec: D20, D59.a, D80.a
TEST(ScanSums, EqualTheirLoops) {
  for (std::size_t steps = 0; steps < 140; steps += steps < 20 ? 1 : 17) {
    const Doubles y = numbers<double>(steps);
    const auto by_loop = [&](const auto& v) {
      return looped(steps, v[0], std::array{v[1], v[2], v[3]}, &v[4], y);
    };
    const auto by_scan = [&](const auto& v) {
      const auto pairs = sequence(steps, [&](std::size_t i) {
        return std::array{v[4 + 2 * i], v[5 + 2 * i]};
      });
      return scan(steps, v[0], std::array{v[1], v[2], v[3]}, kTerms, pairs, y);
    };
    const Doubles at = numbers<double>(2 * steps + 6);
    EXPECT_NEAR(by_scan(at), by_loop(at), 1e-13) << steps;
    const auto [want, slopes] = value_with_gradient(by_loop, at);
    const auto [got, ours] = value_with_gradient(by_scan, at);
    EXPECT_NEAR(got, want, 1e-13) << steps;
    for (std::size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(ours[i], slopes[i], 1e-12) << i;
  }
}

// The steps are added in the same order everywhere, so that a loss is equal to the last bit:
// computed plainly, forward, on a small tape, on a large tape, and in nested derivatives.
TEST(ScanSums, OneOrderInAllModes) {
  const Doubles y = numbers<double>(37);
  const auto loss = [&](const auto& a, const auto& b) {
    const auto body = [](auto s, const auto& p, auto x) { return s + p[0] * sin(x) + p[1] / x; };
    return scan(y.size(), a, std::array{a, b}, body, y);
  };
  double in_order = 0.3;
  for (const double x : y) in_order = in_order + 0.3 * std::sin(x) + 1.7 / x;
  const double want = loss(0.3, 1.7);
  EXPECT_NE(want, in_order) << "the order does not show";
  EXPECT_EQ(value_with_gradient(loss, 0.3, 1.7).first, want);
  for (const std::size_t size : {5UL, 5000UL}) {
    Doubles at(size);
    at[0] = 0.3, at[1] = 1.7;
    const auto of_many = [&](const auto& v) { return loss(v[0], v[1]); };
    EXPECT_EQ(value_with_gradient(of_many, at).first, want) << size;
    EXPECT_EQ(value_with_pullback(of_many, at).first, want) << size;
    EXPECT_EQ(value_with_tangent(of_many, at, at).first, want) << size;
  }
  double inside = 0;
  const auto nested = [&](const auto& v) {
    const auto made = value_with_gradient(
        [&](const auto& a) { return loss(a, std::decay_t<decltype(a)>(v[1])); }, v[0]);
    inside = value_of(made.first);
    return made.second;
  };
  static_cast<void>(gradient(nested, Doubles{0.3, 1.7, 0, 0, 0}));
  EXPECT_EQ(inside, want);
}

// spec: D24
TEST(ScanSums, ForwardAndSecondOrder) {
  const Doubles y = numbers<double>(9);
  const auto by_loop = [&](const auto& v) {
    return looped(9, v[0], std::array{v[1], v[2], v[3]}, &v[4], y);
  };
  const auto by_scan = [&](const auto& v) {
    const auto pairs = sequence(9, [&](std::size_t i) {
      return std::array{v[4 + 2 * i], v[5 + 2 * i]};
    });
    return scan(9, v[0], std::array{v[1], v[2], v[3]}, kTerms, pairs, y);
  };
  const Doubles at = numbers<double>(22), along = numbers<double>(22);
  EXPECT_NEAR(jvp(by_scan, std::tuple(at), std::tuple(along)).second,
              jvp(by_loop, std::tuple(at), std::tuple(along)).second, 1e-12);
  const Doubles want = hvp(by_loop, at, along), got = hvp(by_scan, at, along);
  for (std::size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-11) << i;
}

// Constants have no derivative that could be infinite.
TEST(ScanSums, SlopesOfConstantsAreNotTaken) {
  const Doubles roots = {0, 4, 0, 9};
  const auto f = [&](const auto& v) {
    const auto body = [](auto s, auto p, auto x) {
      using std::sqrt;
      return s + p * sqrt(x);
    };
    return scan(roots.size(), v[0], v[1], body, roots);
  };
  EXPECT_EQ(gradient(f, Doubles{1, 2, 0, 0, 0}), (Doubles{1, 5, 0, 0, 0}));
}

// Elements that hold numbers and constants.
TEST(ScanSums, ConstantsBesideNumbers) {
  const auto f = [](const auto& v) {
    const auto element = [&](std::size_t i) { return std::pair(v[i], 2.0 + i); };
    const auto body = [](auto s, const auto&, const auto& x) { return s + x.first * x.second; };
    return scan(v.size(), 0.0, std::tuple(), body, sequence(v.size(), element));
  };
  EXPECT_EQ(gradient(f, Doubles{7, 6, 5, 4, 3, 2}), (Doubles{2, 3, 4, 5, 6, 7}));
}

template <class T>
class ScanSumsOf : public testing::Test {};
using Numbers = testing::Types<float, long double>;  // double: all other tests
TYPED_TEST_SUITE(ScanSumsOf, Numbers, );

TYPED_TEST(ScanSumsOf, EachType) {
  using T = TypeParam;
  const std::vector<T> x = numbers<T>(37);
  const auto f = [&](const auto& v) {
    const auto body = [](auto s, const auto& p, auto e) {
      const auto r = p[0] * e - p[1];
      return s + r * r;
    };
    return scan(x.size(), v[2], std::array{v[0], v[1]}, body, x);
  };
  T by_first = 0, by_second = 0, value = T(1.5);
  const std::vector<T> at = {T(0.75), T(-0.25), T(1.5), T(0), T(0)};
  for (const T e : x) {
    const T r = at[0] * e - at[1];
    value += r * r;
    by_first += 2 * r * e;
    by_second -= 2 * r;
  }
  // Valgrind computes long double as double.
  const T close =
      100 * std::max<T>(std::numeric_limits<T>::epsilon(), std::numeric_limits<double>::epsilon());
  EXPECT_NEAR(f(at), value, close);
  const auto [got, slopes] = value_with_gradient(f, at);
  EXPECT_NEAR(got, value, close);
  EXPECT_NEAR(slopes[0], by_first, close);
  EXPECT_NEAR(slopes[1], by_second, close);
  EXPECT_EQ(slopes[2], T(1));
}

// The mean of n neighbours times a power of the step.
constexpr auto kBlendOf = [](std::size_t n, auto s, auto p, const auto& near, auto x) {
  auto sum = near[0] * x;
  for (std::size_t i = 1; i < n; ++i) sum += near[i] * (x + static_cast<double>(i));
  return s + p * sum * sum;
};
template <std::size_t n>
constexpr auto kBlend =
    [](auto s, auto p, const auto& near, auto x) { return kBlendOf(n, s, p, near, x); };
// The loop of each of these scans: one type for all n, whose derivatives compile once.
auto blend_loop(std::size_t n, const std::vector<std::size_t>& begins, const Doubles& x) {
  return [n, &begins, &x](const auto& v) {
    auto s = v[0] * 1.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      s = kBlendOf(n, s, v[1], v.data() + begins[i], x[i]);
    }
    return s;
  };
}
template <std::size_t n, class Begin>
void expect_windows(std::size_t size, std::size_t steps) {
  std::vector<Begin> begins(steps);
  for (std::size_t i = 0; i < steps; ++i) {
    begins[i] = static_cast<Begin>(i * i % (size - n + 1));
  }
  const std::vector<std::size_t> places(begins.begin(), begins.end());
  const Doubles x = numbers<double>(steps);
  const auto by_loop = blend_loop(n, places, x);
  const auto by_scan = [&](const auto& v) {
    return scan(steps, v[0], v[1], kBlend<n>, windows<n>(v, begins), x);
  };
  const Doubles at = numbers<double>(size);
  const auto want = value_with_gradient(by_loop, at), got = value_with_gradient(by_scan, at);
  EXPECT_NEAR(by_scan(at), want.first, 1e-11);
  EXPECT_NEAR(got.first, want.first, 1e-11);
  for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(got.second[i], want.second[i], 1e-11) << i;
  if constexpr (n == 3) {  // elsewhere it reads as loops of another kind do, whatever the length
    const Doubles along = numbers<double>(size);
    const Doubles curved = hvp(by_loop, at, along), ours = hvp(by_scan, at, along);
    for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(ours[i], curved[i], 1e-10) << i;
  }
}

// spec: D27.b, D80.a
TEST(Windows, AreReadAndDifferentiated) {
  for (const std::size_t steps : {0u, 1u, 7u, 64u, 65u, 200u}) {
    expect_windows<1, std::size_t>(5, steps);
    expect_windows<2, uint8_t>(6, steps);    // two and four are vectors of the machine
    expect_windows<3, int16_t>(300, steps);  // more numbers than steps
    expect_windows<4, int64_t>(9, steps);
  }
}

// In a loop that is not a sum, and on an array with some constants.
TEST(Windows, InOtherLoops) {
  const std::array<int, 3> begins = {1, 0, 2};
  const auto f = [&](auto a, auto b) {
    using T = decltype(a);
    const std::array<T, 4> v = {a, T(2.0), b, T(3.0)};
    return scan(
        3, T(1.0), std::tuple(), [](auto s, const auto&, const auto& w) { return s * w[0] + w[1]; },
        windows<2>(v, begins));
  };
  // ((1 * 2 + b) * a + 2) * b + 3
  EXPECT_EQ(f(5.0, 7.0), ((2 + 7) * 5 + 2) * 7 + 3.0);
  EXPECT_EQ(gradient(f, 5.0, 7.0), std::tuple(9 * 7.0, 5 * 7 + 47.0));
  EXPECT_EQ(pullback(f, 5.0, 7.0)(1.0), std::tuple(9 * 7.0, 5 * 7 + 47.0));
}

template <class Begin>
std::string error_of(Begin begin, std::size_t size, bool with_gradient) {
  const std::vector<Begin> begins = {0, begin, 0};
  const auto f = [&](const auto& v) {
    const auto body = [](auto s, const auto&, const auto& w) { return s + w[0] * w[2]; };
    return scan(3, v[0] * 0.0, std::tuple(), body, windows<3>(v, begins));
  };
  try {
    const Doubles at(size, 1.0);
    if constexpr (sizeof(Begin) <= 4) {  // wider types have the same check
      if (with_gradient) return static_cast<void>(value_with_gradient(f, at)), "no error";
    }
    static_cast<void>(f(at));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    return error.what();
  }
  return "no error";
}

TEST(Windows, BeyondTheNumbersAreErrors) {
  for (const bool with_gradient : {false, true}) {
    EXPECT_EQ(error_of<int>(3, 6, with_gradient), "no error");
    EXPECT_EQ(error_of<int>(4, 6, with_gradient),
              "windows: element 1 begins at 4 and has 3 numbers, but there are 6. Let it begin at "
              "0 to 3");
    EXPECT_EQ(error_of<int8_t>(-1, 6, with_gradient),
              "windows: element 1 begins at -1 and has 3 numbers, but there are 6. Let it begin at "
              "0 to 3");
    EXPECT_EQ(error_of<int64_t>(int64_t{1} << 32, 6, with_gradient),
              "windows: element 1 begins at 4294967296 and has 3 numbers, but there are 6. Let it "
              "begin at 0 to 3");
    EXPECT_EQ(error_of<std::size_t>(0, 2, with_gradient),
              "windows: element 0 begins at 0 and has 3 numbers, but there are 2. Give more "
              "numbers");
  }
}

}  // namespace
}  // namespace etude
