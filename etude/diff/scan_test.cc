// SPDX-License-Identifier: Apache-2.0
// scan: the same values and derivatives as the equivalent loop, and its errors.
#include "etude/diff/scan.h"

#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace etude {
namespace {

using Doubles = std::vector<double>;

constexpr auto kCooling = [](auto heat, auto rate) { return heat - 0.01 * rate * heat; };
constexpr auto kMixed = [](auto s, const auto& p, auto x) {
  using std::sin, std::exp, std::sqrt;
  const auto t = s * p[0] + sin(s) * x;
  return t + where(s > 0.5, s * s, p[1]) / (1.0 + exp(-s)) - sqrt(t * t + 1.0);
};

// spec: D20, D22, D59.a
TEST(Scan, EqualsItsLoop) {
  const auto cooled = [](auto start, auto rate) { return scan(1000, start, rate, kCooling); };
  EXPECT_NEAR(cooled(2.0, 0.5), 2 * std::pow(0.995, 1000), 1e-14);
  const auto back = pullback(cooled, 2.0, 0.5)(1.0);
  const auto forth = gradient(cooled, 2.0, 0.5);
  EXPECT_NEAR(std::get<0>(back), std::pow(0.995, 1000), 1e-15);
  EXPECT_NEAR(std::get<0>(back), std::get<0>(forth), 1e-15);
  EXPECT_NEAR(std::get<1>(back), std::get<1>(forth), 1e-14);
  EXPECT_NEAR(std::get<1>(back), 2 * 1000 * std::pow(0.995, 999) * -0.01, 1e-13);
}

// spec: D50.a, D36
TEST(Scan, ChoicesAndFunctions) {
  const Doubles x = {0.3, -0.1, 0.9, 0.2, 0.5, 0.4, -0.6, 0.8};
  const auto scanned = [&](const auto& v) {
    using T = std::decay_t<decltype(v[0])>;
    return scan(x.size(), v[0], std::array<T, 2>{v[1], v[2]}, kMixed, x);
  };
  const auto looped = [&](const auto& v) {
    using T = std::decay_t<decltype(v[0])>;
    T s = v[0];
    for (const double e : x) {
      const T t = s * v[1] + sin(s) * e;
      s = t + (s > 0.5 ? T(s * s) : v[2]) / (1.0 + exp(-s)) - sqrt(t * t + 1.0);
    }
    return s;
  };
  const Doubles at = {0.7, 0.2, 0.05, 0, 0};
  const Doubles got = gradient(scanned, at), want = gradient(looped, at);
  EXPECT_EQ(value_with_gradient(scanned, at).first, value_with_gradient(looped, at).first);
  for (std::size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14);
  EXPECT_NE(want[1], 0);
}

// Values that depend on parameters only are computed once, and so is their derivative.
constexpr auto kSettled = [](const auto& s, const auto& p) {
  using std::exp, std::log, std::sqrt;
  const auto rate = log(p[0]) / (p[1] + 1.0), top = where(p[0] > p[2], p[0] * p[0], p[2]);
  return std::array{s[0] + rate * (top - s[0]) * exp(-p[2]), sqrt(p[3] * 1.0) + s[0], p[1]};
};
TEST(Scan, PartsThatAreTheSameInAllSteps) {
  const auto scanned = [](const auto& v) {
    using T = std::decay_t<decltype(v[0])>;
    const auto last = scan(6, std::array<T, 3>{v[0], v[0], v[0]},
                           std::array<T, 4>{v[1], v[2], v[3], v[4]}, kSettled);
    return last[0] * last[1] + last[2] * 3.0;
  };
  const auto looped = [](const auto& v) {
    using T = std::decay_t<decltype(v[0])>;
    T a = v[0], b = v[0];
    for (int i = 0; i < 6; ++i) {
      const T old = a;
      a = a + log(v[1]) / (v[2] + 1.0) * ((v[1] > v[3] ? T(v[1] * v[1]) : v[3]) - a) * exp(-v[3]);
      b = sqrt(v[4] * 1.0) + old;
    }
    return a * b + v[2] * 3.0;
  };
  for (const double p2 : {0.4, 2.0}) {
    const Doubles at = {0.3, 1.7, 0.6, p2, 2.5};
    const Doubles got = gradient(scanned, at), want = gradient(looped, at);
    for (std::size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-13) << i;
    EXPECT_NE(want[4], 0);
  }
  // A slope that is infinite meets nothing where nothing arrives.
  const auto at_zero = [](const auto& v) {
    using T = std::decay_t<decltype(v[0])>;
    return scan(2, std::array<T, 3>{v[0], v[0], v[0]}, std::array<T, 4>{v[1], v[2], v[3], v[4]},
                kSettled)[2];
  };
  EXPECT_EQ(gradient(at_zero, Doubles{0.3, 1.7, 0.6, 0.4, 0}), (Doubles{0, 0, 1, 0, 0}));
}

// spec: D80.a, D27.b
TEST(Scan, SequencesAreDifferentiated) {
  const auto product = [](const auto& v) {
    using T = std::decay_t<decltype(v[0])>;
    return scan(
        v.size(), T(1), T(2), [](auto s, auto p, auto e) { return s * e * p; }, v);
  };
  EXPECT_EQ(gradient(product, Doubles{1, 2, 3, 4, 5}),
            (Doubles{32 * 120, 32 * 60, 32 * 40, 32 * 30, 32 * 24}));
  const Doubles two = hvp(product, Doubles{1, 2, 3, 4, 5}, {1, 0, 0, 0, 0});
  EXPECT_EQ(two, (Doubles{0, 32 * 60, 32 * 40, 32 * 30, 32 * 24}));
}

template <class T>
struct Body {
  T position, velocity;
};

// Elements that are computed when they are read, in loops that add up and in others.
template <class T>
struct Computed {
  const std::vector<T>& v;
  std::size_t size() const { return 200; }
  T operator[](std::size_t i) const { return v[i % 5] * v[(i + 1) % 5] + 0.5; }
};
TEST(Scan, ComputedElements) {
  const auto looped = [](const auto& v, auto body) {
    using T = std::decay_t<decltype(v[0])>;
    T s = v[0];
    const Computed<T> x{v};
    for (std::size_t i = 0; i < x.size(); ++i) s = body(s, v[1], T(x[i]));
    return s;
  };
  const auto scanned = [](const auto& v, auto body) {
    using T = std::decay_t<decltype(v[0])>;
    return scan(200, v[0], v[1], body, Computed<T>{v});
  };
  const auto agree = [&](auto body) {
    const Doubles at = {0.3, -0.4, 0.5, 0.6, -0.7};
    const auto want = gradient([&](const auto& v) { return looped(v, body); }, at);
    const auto got = gradient([&](const auto& v) { return scanned(v, body); }, at);
    for (std::size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-11) << i;
  };
  agree([](auto s, auto p, auto x) { return x * x * p + s; });
  agree([](auto s, auto p, auto x) { return s * 0.9 + x * p; });
  agree([](auto s, auto, auto) { return s + 1.0; });
}

// spec: D56.a, D23
TEST(Scan, StructsAsStates) {
  const auto swing = [](auto x, auto stiffness) {
    using T = decltype(x);
    const Body<T> end = scan(100, Body<T>{x, T(0)}, stiffness, [](const auto& b, auto k) {
      auto next = b;
      next.velocity -= 0.01 * k * b.position;
      next.position += 0.01 * next.velocity;
      return next;
    });
    return end.position * end.velocity;
  };
  const auto pull = pullback(swing, 1.0, 4.0);
  const auto want = gradient(swing, 1.0, 4.0);
  const auto got = pull(1.0);
  EXPECT_NEAR(std::get<0>(got), std::get<0>(want), 1e-13);
  EXPECT_NEAR(std::get<1>(got), std::get<1>(want), 1e-13);
  EXPECT_EQ(pull(1.0), got);
  EXPECT_EQ(std::get<0>(pull(0.0)), 0);
}

// spec: D75.b
TEST(Scan, NoStepsAndWrongLengths) {
  const auto none = [](const auto& v) { return scan(0, v[0], v[1], kCooling); };
  EXPECT_EQ(gradient(none, Doubles{2, 3, 0, 0, 0}), (Doubles{1, 0, 0, 0, 0}));
  try {
    scan(
        3, 1.0, 1.0, [](auto s, auto, auto e) { return s * e; }, Doubles{1, 2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "scan: a sequence has 2 elements for 3 steps. Give one for each step");
  }
}

}  // namespace
}  // namespace etude
