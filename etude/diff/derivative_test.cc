// SPDX-License-Identifier: Apache-2.0
// Hand-written derivatives: rules of functions, members and closures, hooks, recomputation,
// transposes and function values, in both modes and at second order.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace {

double max2(double a, double b) { return a > b ? a : b; }
double element(const std::vector<double>& v, std::size_t i) { return v[i]; }
double cube(double x) { return x * x * x; }
double log1pexp(double x) { return std::log(1 + std::exp(x)); }
extern "C" double foreign_cosine(double x) { return std::cos(x); }

// A virtual function with an override, each with a rule.
struct Shape {
  double k = 1;
  Shape() = default;
  Shape(const Shape&) = default;
  virtual ~Shape() = default;
  virtual double area(double x) const { return k * x; }
  double scaled(double x) const { return 10 * k * x; }
  ETUDE_FIELDS(Shape, k);
};
struct Twice : Shape {
  double area(double x) const override { return 2 * x; }
  ETUDE_FIELDS(Twice, k);
};

// A rule for any scalar, and a more special one.
inline constexpr auto square = [](auto x) { return x * x; };

}  // namespace

template <>
struct etude::derivative_of<&Shape::area> {
  static auto vjp(const Shape& s, double x) {
    return std::pair{s.area(x), [k = s.k](double dy, auto&, double& dx) { dx += dy * k; }};
  }
};
template <>
struct etude::derivative_of<&Twice::area> {
  static auto vjp(const Twice& s, double x) {
    return std::pair{s.area(x), [](double dy, auto&, double& dx) { dx += dy * 2; }};
  }
};
template <>
struct etude::derivative_of<&Shape::scaled> {
  static auto vjp(const Shape& s, double x) {
    return std::pair{s.scaled(x), [k = s.k](double dy, auto&, double& dx) { dx += dy * 10 * k; }};
  }
};
template <>
struct etude::derivative_of<&max2> {
  static auto vjp(double a, double b) {
    return std::pair{max2(a, b), [first = a > b](double dy, double& da, double& db) {
                       (first ? da : db) += dy;
                     }};
  }
};
template <>
struct etude::derivative_of<&element> {
  static auto vjp(const std::vector<double>& v, std::size_t i) {
    return std::pair{v[i], [i](double dy, std::vector<double>& dv, NoTangent&) { dv[i] += dy; }};
  }
};
template <>
struct etude::derivative_of<&cube> {
  static auto jvp(double x, double dx) { return std::pair{cube(x), 3 * x * x * dx}; }
};
template <>
struct etude::derivative_of<&log1pexp> {
  template <class T>
  static auto vjp(const T& x) {
    using std::exp;
    T value = value_of(x) > 30 ? x : T(log1pexp(value_of(x)));
    return std::pair{value, [s = 1.0 / (1.0 + exp(-x))](const T& dy, T& dx) { dx += dy * s; }};
  }
};
template <>
struct etude::derivative_of<&foreign_cosine> {
  static auto vjp(double x) {
    return std::pair{foreign_cosine(x), [x](double dy, double& dx) { dx -= dy * std::sin(x); }};
  }
};
template <>
struct etude::derivative_of<&square> {
  template <class T>
  static auto vjp(const T& x) {
    return std::pair{T(x * x), [x](const T& dy, T& dx) { dx += 2.0 * x * dy; }};
  }
  static auto vjp(double x) {  // recognisable by its tenfold slope
    return std::pair{x * x, [x](double dy, double& dx) { dx += 20.0 * x * dy; }};
  }
};

namespace etude {
namespace {

using Doubles = std::vector<double>;

// spec: D40.a
TEST(Derivative, RulesServeEveryOperator) {
  using Pair = std::tuple<double, double>;
  EXPECT_EQ(gradient<&max2>(1.0, 2.0), Pair(0, 1));
  EXPECT_EQ(gradient(differentiable<&max2>, 1.0, 2.0), Pair(0, 1));
  const auto twice = [](auto a, auto b) { return differentiable<&max2>(a * 2.0, b) * 3.0; };
  EXPECT_EQ(gradient(twice, 1.0, 2.5), Pair(0, 3));
  EXPECT_EQ(pullback(twice, 1.5, 2.5)(1.0), Pair(6, 0));
  EXPECT_EQ(jvp(twice, std::tuple(1.5, 2.5), std::tuple(1.0, 5.0)), std::pair(9.0, 6.0));
  EXPECT_EQ(twice(1.0, 2.5), 7.5);
  EXPECT_EQ(value_with_gradient<&max2>(1.0, 2.0), std::pair(2.0, Pair(0, 1)));
  EXPECT_EQ(pullback<&max2>(1.0, 2.0)(3.0), Pair(0, 3));
}

// spec: D40.a
TEST(Derivative, ProjectionsTouchOneSlot) {
  EXPECT_EQ(gradient<&element>(Doubles{3, 4}, 1UL), (Doubles{0, 1}));
  const auto f = [](const auto& v) { return differentiable<&element>(v, 1UL) * v[0]; };
  EXPECT_EQ(gradient(f, Doubles{1, 2, 3}), (Doubles{2, 1, 0}));
}

// spec: D41
TEST(Derivative, AForwardRuleAloneServesReverseMode) {
  EXPECT_EQ(gradient<&cube>(2.0), 12);
  EXPECT_EQ(derivative([](auto x) { return differentiable<&cube>(x * 2.0); }, 1.0), 24);
  const auto f = [](const auto& v) { return differentiable<&cube>(v[0] * v[1]); };
  EXPECT_EQ(gradient(f, Doubles{1, 2, 3, 0, 0}), (Doubles{24, 12, 0, 0, 0}));
}

// Otherwise the value of an override would be paired with the slope of the base.
TEST(Derivative, ARuleDoesNotStandForOverrides) {
  const Twice twice;
  const Shape shape;
  const Shape& base = twice;
  const auto area = [](const Shape& s) {
    return [&s](auto x) { return differentiable<&Shape::area>(s, x); };
  };
  EXPECT_EQ(gradient(area(shape), 3.0), 1);
  EXPECT_EQ(area(base)(3.0), 6);  // no derivative is taken
  for (const auto& wrong : {std::function<void()>([&] { gradient(area(base), 3.0); }),
                            std::function<void()>([&] { pullback(area(base), 3.0); }),
                            std::function<void()>([&] { gradient<&Shape::area>(base, 3.0); })}) {
    try {
      wrong();
      ADD_FAILURE() << "it was accepted";
    } catch (const etude::Error& error) {
      EXPECT_EQ(error.code(), etude::ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("virtual function of"), std::string::npos);
    }
  }
  EXPECT_EQ(gradient([&](auto x) { return differentiable<&Twice::area>(twice, x); }, 3.0), 2);
  EXPECT_EQ(gradient([&](auto x) { return differentiable<&Shape::scaled>(base, x); }, 3.0), 10);
}

// spec: D43
TEST(Derivative, TheMoreSpecialRuleWins) {
  EXPECT_EQ(gradient(differentiable<&square>, 3.0f), 6);
  EXPECT_EQ(gradient<&square>(3.0f), 6);
  EXPECT_EQ(gradient<&square>(3.0), 60);
}

// The derivative of the derivative of x * stop_gradient(x) * x: the middle factor is a constant.
TEST(Derivative, StopGradientStopsAllOrders) {
  const auto f = [](auto x) { return x * stop_gradient(x) * x; };
  const auto tape = [&](auto x) {  // five numbers take a tape
    return gradient([&](const auto& v) { return f(v[0]); }, std::array<decltype(x), 5>{x})[0];
  };
  const auto forward = [&](auto x) { return gradient(f, x); };
  const auto of_five = [](const auto& slope) {
    return gradient([&](const auto& v) { return slope(v[0]); },
                    std::array{3.0, 0.0, 0.0, 0.0, 0.0})[0];
  };
  EXPECT_EQ(forward(3.0), 18);
  EXPECT_EQ(tape(3.0), 18);
  EXPECT_EQ(derivative(forward, 3.0), 6);
  EXPECT_EQ(derivative(tape, 3.0), 6);
  EXPECT_EQ(of_five(forward), 6);
  EXPECT_EQ(of_five(tape), 6);
  EXPECT_EQ(derivative([&](auto x) { return derivative(forward, x); }, 3.0), 0);
  EXPECT_EQ(hessian([&](const auto& v) { return f(v[0]); }, std::vector{3.0})[0][0], 6);
}

// spec: D45.a
TEST(Derivative, ARuleMendsNumerics) {
  // exp is infinite there, the slope of log 0, and a 0 wins: not the limit, which is 1.
  EXPECT_EQ(gradient([](auto x) { return log(1.0 + exp(x)); }, 1000.0), 0);
  EXPECT_EQ(gradient<&log1pexp>(1000.0), 1);
  EXPECT_EQ(gradient<&log1pexp>(100.0), 1);
  EXPECT_EQ(gradient([](auto x) { return differentiable<&log1pexp>(x * 1.0); }, 1000.0), 1);
}

// spec: D27.c
TEST(Derivative, RulesOfAnyScalarHaveSecondDerivatives) {
  const auto softplus = [](auto x) { return differentiable<&log1pexp>(x); };
  const auto slope = [&](auto x) { return gradient(softplus, x); };
  EXPECT_DOUBLE_EQ(gradient(slope, 0.0), 0.25);
  EXPECT_DOUBLE_EQ(derivative(slope, 0.0), 0.25);
  const auto pulled = [&](auto x) { return pullback(softplus, x)(decltype(x)(1.0)); };
  EXPECT_DOUBLE_EQ(gradient(pulled, 0.0), 0.25);
  EXPECT_DOUBLE_EQ(pullback(pulled, 0.0)(1.0), 0.25);
}

// spec: D46
TEST(Derivative, ARuleReplacesTheBody) {
  const auto f = [](auto x) { return x * differentiable<&foreign_cosine>(x); };
  EXPECT_DOUBLE_EQ(gradient(f, 2.0), std::cos(2.0) - 2 * std::sin(2.0));
  EXPECT_DOUBLE_EQ(pullback(f, 2.0)(1.0), std::cos(2.0) - 2 * std::sin(2.0));
}

// spec: D31
TEST(Derivative, ClosuresWithTheirOwnDerivative) {
  const auto squared = custom_gradient([](auto x) {
    return std::pair{x * x, [x](auto dy) { return 2.0 * dy * x; }};
  });
  EXPECT_EQ(squared(3.0), 9);
  EXPECT_EQ(gradient(squared, 3.0), 6);
  EXPECT_EQ(derivative(squared, 3.0), 6);
  EXPECT_EQ(pullback(squared, 3.0)(1), 6);
  EXPECT_EQ(gradient([&](auto x) { return gradient(squared, x); }, 3.0), 2);
  const auto product = custom_gradient([](const auto& v, auto x) {
    return std::pair{v[0] * x, [v, x](auto dy) {
                       auto dv = zero_tangent(v);
                       dv[0] = dy * x;
                       return std::tuple(dv, dy * v[0]);
                     }};
  });
  EXPECT_EQ(gradient(product, Doubles{2, 0, 0, 0}, 3.0), std::tuple(Doubles({3, 0, 0, 0}), 2.0));
  const auto wrong = custom_gradient([](const auto& v) {
    return std::pair{v[0], [](auto dy) { return std::vector{dy}; }};
  });
  try {
    gradient(wrong, Doubles{1, 2, 3, 4, 5});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the pullback of a rule gave 1 numbers as the tangents of its arguments, which "
                 "have 5. Make them with zero_tangent(x)");
  }
}

// spec: D29
TEST(Derivative, HooksOnCotangents) {
  int seen = 0;
  const auto f = [&](auto x) {
    const auto hooked = with_derivative(x, [&](auto dy) {
      ++seen;
      return 10.0 * dy;
    });
    return hooked * hooked;
  };
  const auto pull = pullback(f, 3.0);
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(pull(1.0), 60);
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(pull(1.0), 60);
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(derivative(f, 3.0), 60);
  seen = 0;  // a gradient of few numbers takes a reverse pass, too
  EXPECT_EQ(gradient(f, 3.0), 60);
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(gradient([&](auto x, auto y) { return f(x) * f(y); }, 1.0, 2.0), std::tuple(80, 40));
  const auto in_inner = [&](auto x) {  // the hook is on a number of the outer gradient
    return gradient([&](auto y) { return y * f(x) * y; }, decltype(x)(2.0));
  };
  EXPECT_EQ(gradient(in_inner, 3.0), 240);
  EXPECT_EQ(gradient([&](auto x) { return gradient(f, x); }, 3.0), 20);
  const auto clipped = [](const auto& v) {
    const auto w = with_derivative(v, [](auto dv) {
      for (auto& d : dv) d = fmin(d, decltype(d + d)(1.0));
      return dv;
    });
    return w[0] * 5.0 + w[1] * 0.5;
  };
  EXPECT_EQ(pullback(clipped, Doubles{1, 1, 1})(1.0), (Doubles{1, 0.5, 0}));
}

// spec: D30
TEST(Derivative, RecomputedCallsRunOnceMore) {
  int runs = 0;
  const auto f = [&](const auto& v) {
    ++runs;
    return v[0] * v[1] * v[1];
  };
  const auto [value, pull] = value_with_pullback(recompute_grad(f), Doubles{2, 3});
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(value, 18);
  EXPECT_EQ(pull(1), (Doubles{9, 12}));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(pull(2), (Doubles{18, 24}));
  EXPECT_EQ(runs, 3);
}

// spec: D30
TEST(Derivative, ChainsKeepTheSquareRootOfTheirLength) {
  std::size_t runs = 0, most = 0;
  const auto chain = [&](auto x) {
    return checkpointed(100, x, [&](std::size_t i, auto s) {
      ++runs;
      const auto* tape = internal::ScalarTape<double>::current();
      if (tape != nullptr) most = std::max(most, tape->size());
      using std::sin;
      return sin(s) + 0.001 * static_cast<double>(i) * s;
    });
  };
  const auto plain = [](auto x) {
    for (int i = 0; i < 100; ++i) x = sin(x) + 0.001 * i * x;
    return x;
  };
  const auto pull = pullback(chain, 0.5);
  EXPECT_EQ(runs, 100U);
  const std::size_t outer = most;
  most = 0;
  EXPECT_DOUBLE_EQ(pull(1.0), pullback(plain, 0.5)(1.0));
  EXPECT_EQ(runs, 200U) << "one more run";
  EXPECT_LE(outer + most, 2U * 25U) << "of at most two numbers a segment";
}

// spec: D26
TEST(Derivative, TransposesOfLinearFunctions) {
  EXPECT_EQ(transpose([](auto x) { return 3.0 * x; }, 1.0)(5.0), 15);
  EXPECT_EQ(transpose([](auto x, auto y) { return x + y; }, 1.0, 1.0)(2.0), std::tuple(2.0, 2.0));
  const auto rows = [](const auto& v) { return std::vector{v[0] - v[1] * 2.0, v[0] + 0.0}; };
  EXPECT_EQ(transpose(rows, Doubles{1, 2})(Doubles{1, 10}), (Doubles{11, -2}));
  try {  // the other calls: scalar_faults_test.cc
    transpose([](auto x) { return sin(x); }, 1.0)(5.0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "transpose: the function is not linear: 'sin' is not, of numbers that depend on the "
        "argument. Use pullback for a derivative");
  }
}

template <class T>
struct Unit {
  T w;
  DifferentiableFunction<double(double)> activation;
  template <class X>
  auto operator()(const X& x) const {
    return activation(w * x);
  }
};

// spec: D35
TEST(Derivative, FunctionsAsFields) {
  const DifferentiableFunction<double(double)> relu = [](auto x) {
    return x > 0.0 ? x : decltype(x)(0.0);
  };
  EXPECT_EQ(relu(-1.0), 0);
  EXPECT_EQ(relu(2.0), 2);
  const Unit<double> unit{1, relu};
  const auto at = [&](double x) { return gradient([&](auto y) { return unit(y); }, x); };
  EXPECT_EQ(at(-1), 0);
  EXPECT_EQ(at(2), 1);
  const auto by_layer = gradient([](const auto& u) { return u(5.0); }, unit);
  EXPECT_EQ(by_layer[&Unit<double>::w], 5);
  EXPECT_EQ(relu.jvp(2.0, 3.0), std::pair(2.0, 3.0));
  EXPECT_EQ(std::get<0>(relu.vjp(2.0).second(4.0)), 4);
  try {
    DifferentiableFunction<double(double)>()(1.0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "an empty DifferentiableFunction was called. Assign a function to it first");
  }
}

// spec: D38, D21
TEST(Derivative, OverManyPoints) {
  const auto g = gradient([](auto x) { return x * x; });
  EXPECT_EQ(g(3.0), 6);
  EXPECT_EQ(vmap(g)(Doubles{1, 2, 3}), (Doubles{2, 4, 6}));
  const auto product = gradient([](auto x, auto y) { return x * y; });
  EXPECT_EQ(vmap(product)(Doubles{1, 2}, Doubles{3, 4})[1], std::tuple(4.0, 2.0));
  try {
    vmap(product)(Doubles{1, 2}, Doubles{3});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "vmap: batches of 2 and of 1 points. Give equally many of each argument");
  }
}

// spec: D48
TEST(Derivative, AClosureDiesWithItsPullback) {
  const auto alive = std::make_shared<int>(0);
  const auto f = custom_gradient([&](auto x) {
    return std::pair{x, [held = alive](auto dy) { return dy; }};
  });
  {
    const auto pull = pullback(f, 3.0);
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

// spec: D33.a
TEST(Derivative, EachLayerRunsOnce) {
  int runs = 0;
  const auto layer = [&](auto x) {
    ++runs;
    return x * x;
  };
  EXPECT_EQ(value_with_gradient([&](auto x) { return layer(layer(layer(x))); }, 2.0),
            std::pair(256.0, 1024.0));
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace etude
