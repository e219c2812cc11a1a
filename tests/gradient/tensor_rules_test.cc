// SPDX-License-Identifier: Apache-2.0
// Rules of functions on tensors (derivative_of), and DifferentiableFunctions of tensors: the same
// derivative in all operators and modes.
#include <tuple>
#include <utility>
#include <vector>

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/gradient.h"
#include "etude/diff/derivative.h"
#include "etude/diff/function_values.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/gradient/expect.h"

namespace etude::tensor_rules_test {

using Doubles = std::vector<double>;

// log(x), by whose rule the slope is x.
Tensor odd_log(const Tensor& x) { return log(x); }
// a x + y with a host number, by whose rule the slopes are 2 a and 3.
Tensor line(const Tensor& x, double a, const Tensor& y) { return a * x + y; }
struct Pair {
  Tensor a, b;
};
// a b, with the slopes of a + b by its rule.
Tensor product(const Pair& p) { return p.a * p.b; }
// Both powers, by whose rule the slopes are 10 and 100.
std::tuple<Tensor, Tensor> powers(const Tensor& x) { return {x * x, x * x * x}; }
// A member function.
struct Scale {
  Tensor by;
  Tensor of(const Tensor& x) const { return x * by; }
};

}  // namespace etude::tensor_rules_test

template <>
struct etude::derivative_of<&etude::tensor_rules_test::odd_log> {
  static auto vjp(const Tensor& x) {
    return std::pair{etude::tensor_rules_test::odd_log(x),
                     [x](const Tensor& dy, Tensor& dx) { dx += dy * x; }};
  }
};
template <>
struct etude::derivative_of<&etude::tensor_rules_test::line> {
  static auto vjp(const Tensor& x, double a, const Tensor& y) {
    return std::pair{etude::tensor_rules_test::line(x, a, y),
                     [a](const Tensor& dy, Tensor& dx, double&, Tensor& du) {
                       dx += 2.0 * a * dy;
                       du += 3.0 * dy;
                     }};
  }
};
template <>
struct etude::derivative_of<&etude::tensor_rules_test::product> {
  using Pair = etude::tensor_rules_test::Pair;
  static auto vjp(const Pair& p) {
    return std::pair{etude::tensor_rules_test::product(p), [](const Tensor& dy, Pair& dp) {
                       dp.a += dy;
                       dp.b += dy;
                     }};
  }
};
template <>
struct etude::derivative_of<&etude::tensor_rules_test::powers> {
  static auto vjp(const Tensor& x) {
    return std::pair{etude::tensor_rules_test::powers(x),
                     [](const std::tuple<Tensor, Tensor>& dy, Tensor& dx) {
                       dx += 10.0 * std::get<0>(dy) + 100.0 * std::get<1>(dy);
                     }};
  }
};
template <>
struct etude::derivative_of<&etude::tensor_rules_test::Scale::of> {
  using Scale = etude::tensor_rules_test::Scale;
  static auto vjp(const Scale& s, const Tensor& x) {
    return std::pair{s.of(x), [](const Tensor& dy, Scale& ds, Tensor& dx) {
                       ds.by += 5.0 * dy;
                       dx += 7.0 * dy;
                     }};
  }
};

namespace etude::tensor_rules_test {
namespace {

using tests::expect_values;

const Tensor kX(Doubles{.5, .25});

Tensor sum_of_logs(const Tensor& x) { return sum(differentiable<&odd_log>(x)); }

// spec: D47.b
TEST(TensorRules, AreUsedByAllOperators) {
  expect_values(differentiable<&odd_log>(kX), {std::log(.5), std::log(.25)});
  expect_values(gradient(sum_of_logs, kX), {.5, .25});
  expect_values(gradient<&odd_log>(Tensor(.5)), {.5});
  expect_values(value_with_gradient<&odd_log>(Tensor(.5)).first, {std::log(.5)});
  expect_values(pullback<&odd_log>(kX)(Tensor(Doubles{1, 10})), {.5, 2.5});
  expect_values(jvp(sum_of_logs, kX, Tensor(Doubles{1, 10})).second, {3});
  GradientTape tape;
  tape.watch(kX);
  expect_values(tape.gradient(differentiable<&odd_log>(kX), kX), {.5, .25});
  const auto of_each = vmap([](const Tensor& x) { return gradient(differentiable<&odd_log>, x); });
  expect_values(of_each(kX), {.5, .25});
}

// The slope x of the rule is differentiated, not log.
// spec: D47.b
TEST(TensorRules, AreDifferentiatedThemselves) {
  expect_values(hessian(sum_of_logs, kX), {1, 0, 0, 1});
  expect_values(hvp(sum_of_logs, kX, Tensor(Doubles{2, 3})), {2, 3});
}

// spec: D47.b
TEST(TensorRules, AreUsedInAllModes) {
  const auto staged = function([](const Tensor& x) { return gradient(sum_of_logs, x); });
  const auto inner = function(sum_of_logs);
  for (int i = 0; i < 2; ++i) {
    expect_values(staged(kX), {.5, .25});
    expect_values(gradient(inner, kX), {.5, .25});
  }
  const LazyScope lazy;
  expect_values(gradient(sum_of_logs, kX), {.5, .25});
}

// spec: D47.b
TEST(TensorRules, TakeArgumentsOfAllKinds) {
  const auto of_line = [](const Tensor& x, const Tensor& y) {
    return sum(differentiable<&line>(x, 4.0, y));
  };
  const auto [dx, dy] = gradient(of_line, kX, kX);
  expect_values(dx, {8, 8});
  expect_values(dy, {3, 3});
  const auto dp =
      gradient([](const Pair& p) { return sum(differentiable<&product>(p)); }, Pair{kX, 2.0 * kX});
  expect_values(dp.a, {1, 1});
  expect_values(dp.b, {1, 1});
  const auto of_both = [](const Tensor& x) {
    const auto [square, cube] = differentiable<&powers>(x);
    return sum(square) + 2.0 * sum(cube);
  };
  expect_values(gradient(of_both, kX), {210, 210});
  const auto of_part = [](const Tensor& x) {
    Tensor y = 2.0 * x;
    return differentiable<&odd_log>(y.at(1)) + differentiable<&odd_log>(x.at(0));
  };
  expect_values(gradient(of_part, kX), {.5, 1});
  const auto of_member = [](const Scale& s, const Tensor& x) {
    return sum(differentiable<&Scale::of>(s, x));
  };
  const auto [ds, du] = gradient(of_member, Scale{kX}, kX);
  expect_values(ds.by, {5, 5});
  expect_values(du, {7, 7});
}

struct Layer {
  Tensor weight = Tensor(Doubles{2, 3});
  DifferentiableFunction<Tensor(Tensor)> activation = [](const Tensor& x) { return x * x; };
  Tensor operator()(const Tensor& x) const { return activation(weight * x); }
};

TEST(TensorRules, FunctionsOfTensorsAreValues) {
  const DifferentiableFunction<Tensor(Tensor)> square = [](const auto& x) { return x * x; };
  expect_values(square(kX), {.25, .0625});
  const auto [value, pull] = square.vjp(kX);
  expect_values(value, {.25, .0625});
  expect_values(std::get<0>(pull(Tensor(Doubles{1, 10}))), {1, 5});
  expect_values(square.jvp(kX, Tensor(Doubles{1, 10})).second, {1, 5});
  const DifferentiableFunction<Tensor(Tensor)> ruled = differentiable<&odd_log>;
  expect_values(gradient([&](const Tensor& x) { return sum(ruled(x)); }, kX), {.5, .25});
  const DifferentiableFunction<Tensor(Tensor, Tensor)> times =
      [](const Tensor& a, const Tensor& b) { return a * b; };
  const auto both = times.vjp(kX, 2.0 * kX).second(ones({2}, {.dtype = kFloat64}));
  expect_values(std::get<0>(both), {1, .5});
  expect_values(std::get<1>(both), {.5, .25});
  // Fields of layers: (w x)^2 has the slope 2 w x^2 by w.
  const auto g = gradient([](const Layer& l) { return sum(l(kX)); }, Layer());
  expect_values(g[&Layer::weight], {1, .375});
}

}  // namespace
}  // namespace etude::tensor_rules_test
