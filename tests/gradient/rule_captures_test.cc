// SPDX-License-Identifier: Apache-2.0
// Captures in the rule of a custom_gradient have no derivative through it: the cases with a
// warning.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/custom_gradient.h"
#include "etude/base/warning.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/gradient/expect.h"
#include "tests/warnings.h"

namespace etude::rule_captures_test {
namespace {

using tests::expect_values;
using tests::warnings_of;

// t * 2t, by a rule that takes 2t for a constant.
Tensor captured(const Tensor& t) {
  const Tensor scale = t * 2.0F;
  const auto rule = custom_gradient([&](const Tensor& a) {
    return std::pair{a * scale, [scale](const Tensor& dy) { return dy * scale; }};
  });
  return rule(t) + rule(t);
}
constexpr int kLine = __LINE__ - 5;

template <class F>
void expect_one(const F& f) {
  const std::vector<std::string> told = warnings_of(f);
  ASSERT_EQ(told.size(), 1U);
  for (const std::string& part :
       {std::string("custom_gradient: the rule uses a float32"),
        std::string("that is no argument of it"), std::string("Pass it as an argument"),
        "rule_captures_test.cc:" + std::to_string(kLine)}) {
    EXPECT_NE(told[0].find(part), std::string::npos) << told[0];
  }
}

TEST(RuleCaptures, AreToldOnceForALine) {
  const Tensor x = 3.0F;
  expect_one([&] { expect_values(gradient(captured)(x), {12}); });
  expect_one([&] { expect_values(jvp(captured, x, Tensor(1.0F)).second, {12}); });
  expect_one([&] { expect_values(vmap(gradient(captured))(ones({2})), {4, 4}); });
  expect_one([&] {
    const auto f = [](const Tensor& t) { return sum(vmap(captured)(t)); };
    expect_values(gradient(f)(ones({2})), {4, 4});
  });
  expect_one([&] {
    const auto staged = function<Tensor(const Tensor&)>(gradient(captured));
    expect_values(staged(x), {12});
    expect_values(staged(x * 2.0F), {24});
  });
  expect_one([&] {
    const LazyScope lazy;
    expect_values(gradient(captured)(x), {12});
  });
  expect_one([&] {
    Variable v(3.0F);
    GradientTape tape;
    expect_values(tape.gradient(captured(v.read()), v), {12});
  });
}

TEST(RuleCaptures, AreToldOfWhatIsReturned) {
  const auto returned = [](const Tensor& t) {
    const Tensor y = t * 2.0F;
    return custom_gradient([&](const Tensor&) {
      return std::pair{y, [](const Tensor& dy) { return dy; }};
    })(t);
  };
  const auto told = warnings_of([&] { expect_values(gradient(returned)(Tensor(3.0F)), {1}); });
  EXPECT_EQ(told.size(), 1U);
}

// Of a function that captures, by its derivatives in all modes.
template <class F>
void expect_silence(const F& f, const std::vector<double>& slope) {
  const auto told = warnings_of([&] {
    const Tensor x = 3.0F;
    f(x);
    expect_values(gradient(f)(x), slope);
    jvp(f, x, Tensor(1.0F));
    expect_values(function<Tensor(const Tensor&)>(gradient(f))(x), slope);
    const LazyScope lazy;
    expect_values(gradient(f)(x), slope);
  });
  EXPECT_EQ(told, std::vector<std::string>());
}

TEST(RuleCaptures, AreNotToldOfConstants) {
  const Tensor half = 0.5F;
  const auto by = [](const Tensor& scale, const Tensor& t) {
    return custom_gradient([&](const Tensor& a) {
      return std::pair{a * scale, [scale](const Tensor& dy) { return dy * scale; }};
    })(t);
  };
  expect_silence([&](const Tensor& t) { return by(half, t); }, {.5});
  expect_silence([&](const Tensor& t) { return by(half * 2.0F, t); }, {1});
  // A stopped value has no warning, whatever its use.
  expect_silence([&](const Tensor& t) { return by(stop_gradient(t), t); }, {3});
  expect_silence([&](const Tensor& t) { return by(stop_gradient(t * 2.0F) * half, t); }, {3});
  expect_silence([&](const Tensor& t) { return by(floor(t) + half, t); }, {3.5});
  // Nor has a value that is stopped inside, or used only by the pullback.
  expect_silence(
      [](const Tensor& t) {
        return custom_gradient([&](const Tensor& a) {
          return std::pair{a * stop_gradient(t), [&](const Tensor& dy) { return dy * t; }};
        })(t);
      },
      {3});
  expect_silence(
      [](const Tensor& t) {
        return with_derivative(t, [](const Tensor& dy) { return dy * 2.0F; });
      },
      {2});
}

TEST(RuleCaptures, AreNotToldOfVariablesThatTheRuleHasDerivativesBy) {
  const Variable v(2.0F);
  const auto f = custom_gradient([&](const Tensor& a) {
    return std::pair{a * v, [a](const Tensor& dy, std::span<const Variable> all) {
                       return std::pair{dy * all[0], std::vector<Tensor>{dy * a}};
                     }};
  });
  const auto told = warnings_of([&] {
    GradientTape tape;
    const Tensor known = v.read();
    expect_values(tape.gradient(f(Tensor(3.0F)) + known, v), {4});
  });
  EXPECT_EQ(told, std::vector<std::string>());
}

// A rule that is given a sparse tensor works on its rows, or on the dense one made of them.
TEST(RuleCaptures, AreNotToldOfPartsOfArguments) {
  const Tensor values({{1.0F, 2.0F}, {3.0F, 4.0F}});
  const auto rule = custom_gradient([](const Tensor& rows) {
    const Tensor dense = rows * 2.0F + 1.0F;
    return std::pair{sum(dense), [like = dense * 0.0F](const Tensor& dy) { return like + dy; }};
  });
  const auto f = [&](const Tensor& t) {
    return rule(make_slices({Tensor(std::vector<int32_t>{2, 0}), t, Shape{3, 2}}));
  };
  const auto told = warnings_of([&] {
    expect_values(gradient(f)(values), {1, 1, 1, 1});
    const LazyScope lazy;
    expect_values(gradient(f)(values), {1, 1, 1, 1});
  });
  EXPECT_EQ(told, std::vector<std::string>());
}

}  // namespace
}  // namespace etude::rule_captures_test
