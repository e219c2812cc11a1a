// SPDX-License-Identifier: Apache-2.0
#include "etude/diff/scalar_operators.h"

#include <thread>

#include <gtest/gtest.h>

#include "etude/diff/scalar_expect.h"

namespace etude::scalar_operators_test {
namespace {

using Pair = std::tuple<double, double>;
using Doubles = std::vector<double>;

// spec: D20
TEST(ScalarGradient, ProductsAndSums) {
  EXPECT_EQ(gradient([](auto x, auto y) { return x * y; }, 3.0, 4.0), Pair(4, 3));
  EXPECT_EQ(gradient([](auto x, auto y) { return -x * y; }, 3.0, 4.0), Pair(-4, -3));
  EXPECT_EQ(gradient([](auto x) { return x - x; }, 3.0), 0);
  EXPECT_EQ(gradient([](auto x) { return x + x; }, 3.0), 2);
  EXPECT_EQ(gradient([](auto x, auto y) { return x + x + x * y; }, 3.0, 2.0), Pair(4, 3));
  EXPECT_EQ(gradient([](auto x) { return x * x * x * x * x; }, 3.0), 405);
  EXPECT_EQ(gradient([](auto x) { return x * x; }, 3.0f), 6.0f);
}

template <class T>
struct Spring {
  T stiffness, length;
  int turns = 0;
};
struct Oscillator {
  Real mass, pull;
};

// spec: D20, D3
TEST(ScalarGradient, StructsContainersAndFunctionsOnReal) {
  const auto energy = [](const auto& s, auto x) {
    const auto d = x - s.length;
    return 0.5 * s.stiffness * d * d;
  };
  const auto [of_spring, of_x] = gradient(energy, Spring<double>{4, 1, 7}, 3.0);
  EXPECT_EQ(of_spring[&Spring<double>::stiffness], 2);
  EXPECT_EQ(of_spring[&Spring<double>::length], -8);
  EXPECT_EQ(of_x, 8);

  Real (*const cube)(Real) = [](Real x) { return x * x * x; };
  EXPECT_EQ(gradient(cube, 2.0), 12);
  const auto on_struct = [](const Oscillator& o) { return o.mass * o.pull * o.pull; };
  const auto tangent = gradient(on_struct, Oscillator{2, 3});
  EXPECT_EQ(tangent.mass.value(), 9);
  EXPECT_EQ(tangent.pull.value(), 12);

  const auto mixed = [](const auto& list, const auto& pair, const auto& map) {
    return list[0] * pair.first + list[1] * map.at("a") * pair.second;
  };
  const auto [list, pair, map] = gradient(mixed, std::array<double, 2>{2, 3}, std::pair(4.0, 5),
                                          std::map<std::string, double>{{"a", 6}, {"b", 7}});
  EXPECT_EQ(list, (std::array<double, 2>{4, 30}));
  EXPECT_EQ(pair.first, 2);
  EXPECT_EQ(map, (std::map<std::string, double>{{"a", 15}, {"b", 0}}));
}

// spec: D22
TEST(ScalarGradient, ValueComesFromTheSameRun) {
  int runs = 0;
  const auto both = value_with_gradient(
      [&](auto x) {
        ++runs;
        return x * x;
      },
      4.0);
  EXPECT_EQ(both, std::pair(16.0, 8.0));
  EXPECT_EQ(runs, 1);
}

// spec: D34.a
TEST(ScalarGradient, ArgumentsAndFieldsKeptOut) {
  const auto product = [](auto x, auto y) { return x * y; };
  EXPECT_EQ(gradient(product, 3.0, no_derivative(4.0)), 4);
  EXPECT_EQ(gradient(product, no_derivative(3.0), 4.0), 3);
  EXPECT_EQ(gradient([](auto x, int n) { return x * n; }, 3.0, 5), 5);
}

// spec: D23
TEST(ScalarPullback, CanBeCalledAgainAndOnAnotherThread) {
  auto make = [] {
    double x = 2, y = 3;
    auto result = value_with_pullback(
        [](auto a, auto b) {
          return std::tuple{a * b, a + b};
        },
        x, y);
    x = y = 100;
    return result;
  };
  const auto [value, pull] = make();
  EXPECT_EQ(value, Pair(6, 5));
  EXPECT_EQ(pull({1, 1}), Pair(4, 3));
  EXPECT_EQ(pull({1, 0}), Pair(3, 2));
  Pair other;
  std::thread([&, &p = pull] { other = p({1, 1}); }).join();
  EXPECT_EQ(other, Pair(4, 3));
}

// spec: G16
TEST(ScalarPullback, CotangentOfAnotherSizeIsAnError) {
  const auto pull = pullback([](const auto& v) { return v; }, Doubles{1, 2, 3});
  try {
    pull({1, 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the cotangent has 2 numbers, but the result has 3"),
              std::string::npos)
        << error.what();
  }
}

// spec: D24, D25
TEST(ScalarForward, DerivativesAndTangents) {
  EXPECT_EQ(derivative([](auto x) { return x * x * x; }, 2.0), 12);
  EXPECT_EQ(value_with_tangent([](auto x) { return x * x; }, 4.0, 2.0), std::pair(16.0, 16.0));
  const auto on_pair = [](const auto& f) { return value_with_tangent(f, Pair(4, 5), Pair(1, 1)); };
  EXPECT_EQ(on_pair([](const auto& p) { return std::get<0>(p) * std::get<1>(p); }),
            std::pair(20.0, 9.0));
  EXPECT_EQ(on_pair([](const auto& p) {
              const auto& [x, y] = p;
              return (x + y) * -y;
            }),
            std::pair(-45.0, -19.0));
}

// spec: D23, D24
TEST(ScalarForward, ProductsWithTheJacobian) {
  const auto product = [](auto x, auto y) { return x * y; };
  EXPECT_EQ(jvp(product, Pair(4, 5), Pair(1, 1)), std::pair(20.0, 9.0));
  EXPECT_EQ(jvp([](auto x) { return x * x; }, 4.0, 2.0), std::pair(16.0, 16.0));
  EXPECT_EQ(vjp(product, Pair(4, 5), 2.0), std::pair(20.0, Pair(10, 8)));
  EXPECT_EQ(vjp([](auto x) { return x * x; }, 4.0, 2.0), std::pair(16.0, 16.0));
  const auto along = differential(product, 4.0, 5.0);
  EXPECT_EQ(along(1, 1), 9);
  EXPECT_EQ(along(1, 0), 5);
  const auto lists = [](const auto& v, auto x) { return v[0] * v[1] * x; };
  EXPECT_EQ(differential(lists, Doubles{2, 3}, 4.0)({1, 0}, 1), 12 + 6);
  EXPECT_THROW(differential(lists, Doubles{2, 3}, 4.0)({1}, 1), Error);
}

// spec: D27.a, D27.c, D27.g
TEST(ScalarNesting, SecondOrderInEveryMix) {
  const auto cube = [](auto x) { return x * x * x; };
  EXPECT_EQ(gradient([&](auto x) { return gradient(cube, x); }, 2.0), 12);
  EXPECT_EQ(derivative([&](auto x) { return gradient(cube, x); }, 2.0), 12);
  EXPECT_EQ(gradient([&](auto x) { return derivative(cube, x); }, 2.0), 12);
  EXPECT_EQ(derivative([&](auto x) { return derivative(cube, x); }, 2.0), 12);
  const auto sixth = [](auto x) { return x * x * x * x * x * x; };
  EXPECT_EQ(
      gradient([&](auto x) { return gradient([&](auto y) { return gradient(sixth, y); }, x); },
               2.0),
      6 * 5 * 4 * 8);
  // Five numbers are recorded: a tape of numbers of a tape.
  const auto quartic = [](const auto& v) {
    auto sum = v[0] * 0;
    for (const auto& e : v) sum += e * e * e * e;
    return sum;
  };
  const auto second = [&](const auto& v) {
    const auto g = gradient(quartic, v);
    return g[1] + g[4];
  };
  EXPECT_EQ(gradient(second, Doubles{1, 2, 3, 4, 5}), (Doubles{0, 48, 0, 0, 300}));
  // A cotangent of 0 that varies still counts.
  const auto square = [](auto x) { return (x - 1.0) * (x - 1.0); };
  EXPECT_EQ(gradient([&](auto x) { return gradient(square, x); }, 1.0), 2);
  // Inner derivatives do not see outer ones.
  EXPECT_EQ(gradient([](auto x) { return x * gradient([&](auto y) { return x + y; }, x); }, 1.0),
            1);
  EXPECT_EQ(
      derivative([](auto x) { return x * derivative([&](auto y) { return x + y; }, x); }, 1.0), 1);
}

// spec: D27.h
TEST(ScalarNesting, ACapturedOuterNumberNeedsAnInnerArgumentMadeFromIt) {
  // In forward mode this is a compile-time error: tests/compile_fail/numbers_of_two_derivatives.cc.
  const auto outer = [](const auto& v, const auto& ones) {
    const auto inner = gradient([&](const auto& w) { return w[0] * v[0] + w[4]; }, ones);
    return v[0] * inner[0];
  };
  const Doubles at(5, 2.0), ones(5, 1.0);
  try {
    gradient([&](const auto& v) { return outer(v, ones); }, at);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(
        std::string(error.what())
            .find("a number of an outer derivative is used in an inner one whose own argument "
                  "is plain. Make the inner argument from the outer one: decltype(x)(1.0)"),
        std::string::npos)
        << error.what();
  }
  const auto made = [&](const auto& v) { return outer(v, std::remove_cvref_t<decltype(v)>(5, 1)); };
  EXPECT_EQ(gradient(made, at), (Doubles{4, 0, 0, 0, 0}));
}

// spec: D27.b, D37
TEST(ScalarNesting, JacobianHessianAndProductsWithIt) {
  using Matrix = std::vector<Doubles>;
  const auto squares = [](auto v) {
    for (auto& e : v) e *= e;
    return v;
  };
  EXPECT_EQ(jacobian(squares, Doubles{1, 2}), (Matrix{{2, 0}, {0, 4}}));
  const auto f = [](const auto& v) { return v[0] * v[0] * v[1]; };
  EXPECT_EQ(hvp(f, Doubles{1, 2}, {1, 0}), (Doubles{4, 2}));
  EXPECT_EQ(hessian(f, Doubles{1, 2}), (Matrix{{4, 2}, {2, 0}}));
}

// spec: D28
TEST(ScalarGradient, StopGradientIsAConstant) {
  EXPECT_EQ(gradient([](auto x) { return x * stop_gradient(x); }, 3.0), 3);
  EXPECT_EQ(derivative([](auto x) { return x * stop_gradient(x); }, 3.0), 3);
}

// spec: D8.a, D10.b, D10.c
TEST(ScalarGradient, OptionalsPointersAndClosures) {
  const auto squared = [](const auto& o) {
    using T = typename std::remove_cvref_t<decltype(o)>::value_type;
    return o ? *o * *o : T(0);
  };
  EXPECT_EQ(gradient(squared, std::optional(10.0)), std::optional(20.0));
  EXPECT_EQ(gradient(squared, std::optional<double>()), std::nullopt);
  const auto pointed = [](auto x) {
    const auto p = std::make_shared<Spring<decltype(x)>>();
    p->length = x;
    p->length *= x;
    return p->length;
  };
  EXPECT_EQ(gradient(pointed, 10.0), 20);
  const auto closure = [](auto x) { return [x](auto y) { return x * y; }; };
  EXPECT_EQ(gradient([&](auto x) { return closure(x)(2.0); }, 3.0), 2);
}

// spec: D8.b
TEST(ScalarGradient, OptionalsThatAreAssignedAndReset) {
  const auto product = [](const auto& o, auto x) { return o.value_or(x) * x; };
  EXPECT_EQ(gradient(product, std::optional<double>(), 3.0), std::tuple(std::nullopt, 6.0));
  EXPECT_EQ(gradient(product, std::optional(2.0), 3.0), std::tuple(std::optional(3.0), 2.0));
  const auto reset = [](auto x) {
    std::optional<decltype(x)> o;
    o = x * x;
    const auto y = *o;
    o.reset();
    return o.value_or(y * x);
  };
  EXPECT_EQ(gradient(reset, 3.0), 27);
}

// spec: D39
TEST(ScalarGradient, NothingGrows) {
  const auto f = [](auto x) {
    auto y = x;
    for (int i = 0; i < 100; ++i) y = sin(y);
    return y;
  };
  const double first = pullback(f, 1.0)(1);
  for (int i = 0; i < (kIsInstrumented ? 500 : 10000); ++i) ASSERT_EQ(pullback(f, 1.0)(1), first);
}

}  // namespace
}  // namespace etude::scalar_operators_test
