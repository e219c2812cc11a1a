// SPDX-License-Identifier: Apache-2.0
// The expression language of scalars: recording, simplification and derivatives.
#include "etude/base/scalars/expression.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/base/scalars/differentiate.h"
#include "etude/base/scalars/evaluate.h"
#include "etude/base/scalars/expression_math.h"
#include "etude/base/scalars/scalar_program.h"

namespace etude::scalar {
namespace {

template <class F, int n, int params>
constexpr Program kProgram = build<F, n, params>();
template <class F, int n, int params, int wrt>
constexpr Program kPartial = partial_of(kProgram<F, n, params>, wrt);

template <int n, int params = 0, class F>
std::string text(F) {
  return to_string(kProgram<F, n, params>);
}
// The partial, with x1, x2, ... for operands, y for the result and t for the tangent.
template <int wrt, int n, int params = 0, class F>
std::string partial(F) {
  const Program& program = kPartial<F, n, params, wrt>;
  std::string out;
  const std::string from = to_string(program);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool operand = from[i] == 'x' && i + 1 < from.size() && from[i + 1] >= '1' &&
                         from[i + 1] <= '9' && (i == 0 || from[i - 1] < 'a');
    if (!operand) {
      out += from[i];
      continue;
    }
    const int source = program.sources[static_cast<std::size_t>(from[++i] - '1')];
    out += source < n ? "x" + std::to_string(source + 1) : source == n ? "y" : "t";
  }
  return out;
}

TEST(Expression, EqualCallsAreOneNode) {
  EXPECT_EQ(text<1>([](auto x) { return math::exp(x) / (1.0 + math::exp(x)); }),
            "v1 = exp(x1); divide(v1, add(1, v1))");
  EXPECT_EQ((text<1, 1>([](auto x, auto p) { return math::where(x > 0.0, x, p * x); })),
            "where(greater(x1, 0), x1, multiply(p1, x1))");
}

// 0 and -0 are two constants.
TEST(Expression, ZerosKeepTheirSigns) {
  const auto both = [](auto x) { return math::copysign(x, 0.0) - math::copysign(x, -0.0); };
  EXPECT_EQ(text<1>(both), "subtract(copysign(x1, 0), copysign(x1, -0))");
}

TEST(Expression, OnlyExactSimplifications) {
  EXPECT_EQ(text<1>([](auto x) { return -(-(x * 1.0)) / 1.0 - 0.0 + -0.0; }), "x1");
  EXPECT_EQ(text<1>([](auto x) { return -1.0 * x; }), "negative(x1)");
  EXPECT_EQ(text<1>([](auto x) { return x / -1.0; }), "negative(x1)");
  EXPECT_EQ(text<1>([](auto x) { return math::where(x > 0.0, x, x); }), "x1");
  EXPECT_EQ(text<1>([](auto x) { return x * (Symbol(2.0) * 3.0 - 1.0); }), "multiply(x1, 5)");
  // -0 + 0 is 0; infinity * 0 and x - x may be NaN.
  EXPECT_EQ(text<1>([](auto x) { return x + 0.0; }), "add(x1, 0)");
  EXPECT_EQ(text<1>([](auto x) { return x - -0.0; }), "subtract(x1, -0)");
  EXPECT_EQ(text<1>([](auto x) { return 0.0 * x; }), "multiply(0, x1)");
  EXPECT_EQ(text<1>([](auto x) { return x - x; }), "subtract(x1, x1)");
  EXPECT_EQ(text<1>([](auto x) { return x / x; }), "divide(x1, x1)");
}

TEST(Derivatives, ReadTheResultWhereThatKeepsNoMore) {
  EXPECT_EQ((partial<0, 1>([](auto x) { return math::tanh(x); })),
            "strong_product(t, subtract(1, multiply(y, y)))");
  EXPECT_EQ((partial<0, 2>([](auto a, auto b) { return a / b; })),
            "strong_product(t, divide(1, x2))");
  EXPECT_EQ((partial<1, 2>([](auto a, auto b) { return a / b; })),
            "strong_product(t, divide(negative(y), x2))");
  EXPECT_EQ((partial<0, 1>([](auto x) { return 1.0 / x; })),
            "negative(strong_product(t, multiply(y, y)))");
  // x and y would be two values.
  EXPECT_EQ((partial<0, 1>([](auto x) { return x / (x + 1.0); })),
            "v1 = add(x1, 1); "
            "strong_product(t, add(divide(1, v1), divide(negative(divide(x1, v1)), v1)))");
}

TEST(Derivatives, OfLinearOnesReadNothing) {
  EXPECT_EQ((partial<0, 1>([](auto x) { return x; })), "t");
  EXPECT_EQ((partial<1, 2>([](auto a, auto b) { return a - b; })), "negative(t)");
  EXPECT_EQ((partial<0, 1, 1>([](auto x, auto p) { return p * x + 1.0; })),
            "strong_product(t, p1)");
  EXPECT_EQ((partial<0, 1>([](auto x) { return math::floor(x); })), "0");
  EXPECT_EQ((partial<0, 1>([](auto x) { return 3.0 * x - 1.0; })), "multiply(t, 3)");
}

// An operand that a choice does not select is not multiplied with 0; a choice between equal values
// has none.
TEST(Derivatives, GoThroughChoices) {
  EXPECT_EQ((partial<0, 1, 1>([](auto x, auto p) { return math::where(x > 0.0, x, p * x); })),
            "where(greater(x1, 0), t, strong_product(t, p1))");
  EXPECT_EQ((partial<1, 3>([](auto c, auto a, auto b) { return math::where(c, a, b); })),
            "where(x1, t, 0)");
  EXPECT_EQ((partial<0, 3>([](auto c, auto a, auto b) { return math::where(c, a, b); })), "0");
  EXPECT_EQ((partial<0, 2>([](auto a, auto b) { return math::maximum(a, b); })),
            "where(equal(x1, x2), multiply(t, 0.5), where(greater(x1, x2), t, 0))");
}

// Several paths to one operand, and an inner derivative that may meet a pole.
TEST(Derivatives, GoThroughFormulas) {
  EXPECT_EQ((partial<0, 1>([](auto x) { return x * math::sigmoid(x); })),
            "v1 = sigmoid(x1); "
            "strong_product(t, add(v1, strong_product(multiply(v1, subtract(1, v1)), x1)))");
  EXPECT_EQ((partial<0, 1>([](auto x) { return math::sqrt(x * x); })),
            "strong_product(t, strong_product(add(x1, x1), divide(0.5, sqrt(multiply(x1, x1)))))");
  EXPECT_EQ((partial<1, 2>([](auto a, auto b) { return (a - b) * (a - b); })),
            "v1 = subtract(x1, x2); strong_product(t, subtract(negative(v1), v1))");
}

TEST(Evaluate, GivesWhatTheLambdaGives) {
  const auto f = [](auto x, auto y, auto p) {
    return where(x > y, exp(x) * p - remainder(y, x), pow(x, y) / fmin(x, p));
  };
  const Program& program = kProgram<decltype(f), 2, 1>;
  for (const double x : {0.5, 2.0}) {
    const double operands[] = {x, 1.5}, param = 0.75;
    const double want = x > 1.5 ? std::exp(x) * 0.75 - std::remainder(1.5, x)
                                : std::pow(x, 1.5) / std::fmin(x, 0.75);
    EXPECT_EQ(evaluate(program, operands, {&param, 1}), want);
  }
}

TEST(Evaluate, TruthsAreZeroAndOne) {
  const auto f = [](auto x) { return math::logical_and(math::isfinite(x), x >= 2.0); };
  const Program& program = kProgram<decltype(f), 1, 0>;
  for (const auto& [x, want] : {std::pair{2.0, 1.0}, {1.0, 0.0}, {HUGE_VAL, 0.0}}) {
    EXPECT_EQ(evaluate(program, {&x, 1}, {}), want);
  }
}

TEST(Evaluate, FunctionsOfTensorsAreRefused) {
  const auto f = [](auto x) { return math::erfinv(x); };
  const double x = 0.5;
  try {
    evaluate(kProgram<decltype(f), 1, 0>, {&x, 1}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'erfinv' is a function of tensors; a program of it has no single value");
  }
}

// Which an op cannot be made of.
TEST(Program, FunctionsOfNumbersRunOnNoTensors) {
  const auto known = [](auto x) { return exp(x); };
  const auto unknown = [](auto x) { return exp(tgamma(x)); };
  EXPECT_TRUE(runs_on_tensors(kProgram<decltype(known), 1, 0>));
  EXPECT_FALSE(runs_on_tensors(kProgram<decltype(unknown), 1, 0>));
}

}  // namespace
}  // namespace etude::scalar
