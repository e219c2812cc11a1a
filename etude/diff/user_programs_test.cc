// SPDX-License-Identifier: Apache-2.0
// Small programs as users write them that knew numbers alone before: functions of <cmath> and
// <algorithm> by their names in std, postfix operators, keys and alternatives of any type. Each in
// all modes.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "etude/diff/scalar_expect.h"

namespace etude::user_programs_test {
namespace {

// Programs that are compiled together: one class, one derivative for each mode.
struct Program {
  int number;
  template <class T>
  T operator()(const T& x) const {
    switch (number) {
      case 0:
        return std::fma(x, x, 1.0) + fma(x, 2.0, 1.0);
      case 1:
        return std::lerp(1.0, x, 0.5) * x;
      case 2:
        return std::hypot(x, 2.0, 1.0);
      case 3:
        return std::clamp(x, 0.0, 1.0) * x;
      case 4:
        return std::clamp(x, 0, 1) * x;
      case 5:
        return std::max(x, 0) * std::min(2.0, x);
      case 6:
        return x * static_cast<double>(std::lround(x));
      case 7:
        return questioned(x);
      default:
        return stepped(x);
    }
  }
  template <class T>
  static T questioned(const T& x) {
    const bool is_odd = std::isnan(x) || std::isinf(x) || std::signbit(x) || !std::isfinite(x);
    const bool is_found = isnan(x) || isinf(x) || signbit(x) || !isfinite(x);
    return is_odd || is_found ? x : x * x;
  }
  template <class T>
  static T stepped(T x) {
    x++;
    const auto y = x--;
    return y * x;  // (x + 1) x
  }
};

// Checks the slope of a program at x in all modes, and the second one through two of them.
void expect_slope(const Program& f, double x, double slope, double second) {
  EXPECT_NEAR(gradient(f, x), slope, 1e-12);
  EXPECT_NEAR(derivative(f, x), slope, 1e-12);
  EXPECT_NEAR(pullback(f, x)(1.0), slope, 1e-12);
  const auto of_five = [&](const auto& v) { return f(v[0]); };
  EXPECT_NEAR(gradient(of_five, std::vector<double>(5, x))[0], slope, 1e-12);
  EXPECT_NEAR(hessian(f, x), second, 1e-12);
  const auto taped = [&](auto y) { return gradient(of_five, std::vector<decltype(y)>(5, y))[0]; };
  EXPECT_NEAR(pullback(taped, x)(1.0), second, 1e-12);
}

// spec: D20
TEST(UserPrograms, FunctionsOfTheStandardByTheirNames) {
  expect_slope({0}, 2, 6, 2);
  expect_slope({1}, 2, 2.5, 1);
  expect_slope({2}, 2, 2.0 / 3, 5.0 / 27);
  expect_slope({3}, 0.5, 1, 2);
  expect_slope({4}, 3, 1, 0);
  expect_slope({5}, 1, 2, 2);
  expect_slope({6}, 2.2, 2, 0);
}

// spec: D20
TEST(UserPrograms, QuestionsToNumbers) {
  expect_slope({7}, 2, 4, 2);
  expect_slope({7}, -2, 1, 0);
  EXPECT_EQ(std::to_string(Real(2)), std::to_string(2.0));
}

// spec: D71.a
TEST(UserPrograms, PostfixOperators) { expect_slope({8}, 2, 5, 2); }

// spec: D9.a
TEST(UserPrograms, MapsWithKeysOfAnyTypeMove) {
  enum class Side { kLeft, kRight };
  std::unordered_map<int, std::vector<double>> by_number = {{1, {2, 3}}};
  const auto product = [](const auto& m) { return m.at(1)[0] * m.at(1)[1]; };
  move(by_number, -0.5 * gradient(product, by_number));
  EXPECT_EQ(by_number.at(1), (std::vector{0.5, 2.0}));
  std::map<Side, double> by_side = {{Side::kRight, 3}};
  move(by_side, gradient([](const auto& m) { return m.at(Side::kRight) * 2.0; }, by_side));
  EXPECT_EQ(by_side.at(Side::kRight), 5);
  std::map<std::pair<int, int>, double> by_pair = {{{1, 2}, 3}};
  move(by_pair, gradient([](const auto& m) { return m.at({1, 2}) * 2.0; }, by_pair));
  EXPECT_EQ(by_pair.at({1, 2}), 5);
  try {
    move(by_number, {{7, {1, 1}}});
    FAIL() << "a key that the value has not";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the value has no key '7'"), std::string::npos);
  }
}

// spec: D19
TEST(UserPrograms, TangentsOfVariantsAreVectors) {
  std::variant<double, std::vector<double>> x = std::vector{2.0, 3.0};
  const auto f = [](const auto& v) { return std::get<1>(v)[0] * std::get<1>(v)[1]; };
  const auto g = gradient(f, x);
  move(x, -0.5 * g + 0.5 * g - 0.5 * g);
  EXPECT_EQ(std::get<1>(x), (std::vector{0.5, 2.0}));
  EXPECT_EQ(norm(g), std::sqrt(13));
}

template <class T>
T sum_of_squares(std::span<const T> numbers) {
  T sum(0);
  for (const T& e : numbers) sum += e * e;
  return sum;
}

// spec: D87.a
TEST(UserPrograms, SpansInsideOfAFunction) {
  const auto f = [](const auto& v) {
    using T = std::remove_cvref_t<decltype(v[0])>;
    return sum_of_squares(std::span<const T>(v).subspan(1));
  };
  EXPECT_EQ(gradient(f, std::vector{1.0, 2.0, 3.0}), (std::vector{0.0, 4.0, 6.0}));
  EXPECT_EQ(gradient(f, std::vector<double>(6, 1.0)), (std::vector<double>{0, 2, 2, 2, 2, 2}));
}

// A step of gradient descent inside a derivative by its rate, on values of each kind.
template <class T>
struct Net {
  std::vector<T> weights;
  T bias;
};
// spec: D27.c
TEST(UserPrograms, DescentInsideOfADerivative) {
  const auto after_steps = [](auto rate) {
    using T = decltype(rate);
    Net<T> net{{T(1.0), T(2.0)}, T(0.5)};
    std::map<int, T> others = {{3, T(1.0)}};
    const auto loss = [](const auto& n, const auto& m) {
      return n.bias * n.bias + (n.weights[0] - m.at(3)) * n.weights[1] * n.bias;
    };
    for (int i = 0; i < 3; ++i) {
      const auto [by_net, by_others] = gradient(loss, net, others);
      move(net, -rate * by_net);
      move(others, -rate * by_others);
    }
    return loss(net, others);
  };
  const double step = 1e-5;
  const double slope = (after_steps(0.1 + step) - after_steps(0.1 - step)) / (2 * step);
  EXPECT_NEAR(gradient(after_steps, 0.1), slope, 1e-7);
  EXPECT_NEAR(derivative(after_steps, 0.1), slope, 1e-7);
  EXPECT_NEAR(pullback(after_steps, 0.1)(1.0), slope, 1e-7);
}

// An inner argument that is plain meets an outer number where values are compared alone.
// spec: D27.g
TEST(UserPrograms, NumbersOfTwoDerivativesAreCompared) {
  const auto f = [](auto a) {
    const auto inner = [&](auto y) { return y < a && !(y == a) && a >= y ? y * y : y; };
    return a * gradient(inner, 1.0) + a * pullback(inner, 5.0)(1.0);
  };
  EXPECT_EQ(gradient(f, 3.0), 3);
  EXPECT_EQ(pullback(f, 3.0)(1.0), 3);
  EXPECT_EQ(derivative(f, 3.0), 3);
}

// A result that is declared as a double is compiled with the numbers of a derivative.
TEST(UserPrograms, AConstantResultIsComputedWithTheNumbersOfADerivative) {
  int runs = 0;
  const auto f = [&](const auto& v) -> double {
    runs += std::is_same_v<std::remove_cvref_t<decltype(v[0])>, double> ? 100 : 1;
    return v[0] > 0 ? 2 : 3;
  };
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT_EQ(value_with_gradient(f, std::vector{1.0}), std::pair(2.0, std::vector{0.0}));
#pragma GCC diagnostic pop
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace etude::user_programs_test
