// SPDX-License-Identifier: Apache-2.0
// Rules of functions on tensors with a jvp, by ETUDE_DIFFERENTIABLE or by hand: forward mode runs
// it in all modes and nestings, and it serves reverse mode where there is no vjp.
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/gradient.h"
#include "etude/diff/derivative.h"
#include "etude/graph/binary.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/gradient/expect.h"

namespace etude::tensor_marks_test {

using Doubles = std::vector<double>;

// log(x), by whose rule the slope is 3 x backward and 5 x forward: a test sees which one ran.
Tensor odd_log(const Tensor& x) { return log(x); }
// a b + c with a host number, an integer and a struct.
struct Pair {
  Tensor a, b;
};
Tensor product(const Pair& p, double c, const Tensor& n) { return p.a * p.b + c * n; }
// Both powers.
std::tuple<Tensor, Tensor> powers(const Tensor& x) { return {x * x, x * x * x}; }
// x^2, whose rule has a jvp alone, with the slope 7 x.
Tensor forward_square(const Tensor& x) { return x * x; }
// The same with tangents of the wrong shape, and not linear in them.
Tensor wide(const Tensor& x) { return x * x; }
Tensor bent(const Tensor& x) { return x * x; }
Tensor shifted(const Tensor& x) { return x * x; }
// A rule that cannot be in a graph: its jvp reads elements.
Tensor reading(const Tensor& x) { return x * x; }

}  // namespace etude::tensor_marks_test

ETUDE_DIFFERENTIABLE(etude::tensor_marks_test::odd_log);
ETUDE_DIFFERENTIABLE(etude::tensor_marks_test::product);
ETUDE_DIFFERENTIABLE(etude::tensor_marks_test::powers);

namespace etude {

using tensor_marks_test::Pair;
using OddLog = derivative_of<&tensor_marks_test::odd_log>;
using Product = derivative_of<&tensor_marks_test::product>;
using Powers = derivative_of<&tensor_marks_test::powers>;

std::pair<Tensor, Tensor> OddLog::jvp(const Tensor& x, const Tensor& dx) {
  return {log(x), 5.0 * x * dx};
}
std::pair<Tensor, OddLog::Pullback> OddLog::vjp(const Tensor& x) {
  return {log(x), [x](const Tensor& dy, Tensor& dx) { dx += 3.0 * x * dy; }};
}
std::pair<Tensor, Tensor> Product::jvp(const Pair& p, double c, const Tensor& n, const Pair& dp,
                                       double, const Tensor&) {
  return {tensor_marks_test::product(p, c, n), 2.0 * dp.a * p.b + 3.0 * p.a * dp.b};
}
std::pair<Tensor, Product::Pullback> Product::vjp(const Pair& p, double c, const Tensor& n) {
  return {tensor_marks_test::product(p, c, n), [p](const Tensor& dy, Pair& dp, double&, Tensor&) {
            dp.a += 20.0 * p.b * dy;
            dp.b += 30.0 * p.a * dy;
          }};
}
std::pair<std::tuple<Tensor, Tensor>, std::tuple<Tensor, Tensor>> Powers::jvp(const Tensor& x,
                                                                              const Tensor& dx) {
  return {tensor_marks_test::powers(x), {10.0 * x * dx, 100.0 * x * dx}};
}
std::pair<std::tuple<Tensor, Tensor>, Powers::Pullback> Powers::vjp(const Tensor& x) {
  return {tensor_marks_test::powers(x), [x](const std::tuple<Tensor, Tensor>& dy, Tensor& dx) {
            const auto& [a, b] = dy;  // absent where no cotangent arrives
            if (a.has_value()) dx += x * a;
            if (b.has_value()) dx += 2.0 * x * b;
          }};
}

}  // namespace etude

template <>
struct etude::derivative_of<&etude::tensor_marks_test::forward_square> {
  static auto jvp(const Tensor& x, const Tensor& dx) { return std::pair{x * x, 7.0 * x * dx}; }
};
template <>
struct etude::derivative_of<&etude::tensor_marks_test::wide> {
  static auto jvp(const Tensor& x, const Tensor& dx) { return std::pair{x * x, sum(x * dx)}; }
};
template <>
struct etude::derivative_of<&etude::tensor_marks_test::bent> {
  static auto jvp(const Tensor& x, const Tensor& dx) { return std::pair{x * x, dx * dx}; }
};
template <>
struct etude::derivative_of<&etude::tensor_marks_test::shifted> {
  static auto jvp(const Tensor& x, const Tensor&) { return std::pair{x * x, x + 1.0}; }
};
template <>
struct etude::derivative_of<&etude::tensor_marks_test::reading> {
  static auto vjp(const Tensor& x) {
    return std::pair{x * x, [x](const Tensor& dy, Tensor& dx) { dx += 2.0 * x * dy; }};
  }
  static auto jvp(const Tensor& x, const Tensor& dx) {
    return std::pair{x * x, x.to_vector<double>()[0] * dx};
  }
};

namespace etude::tensor_marks_test {
namespace {

using tests::expect_error;
using tests::expect_values;

const Tensor kX(Doubles{.5, .25}), kAlong(Doubles{1, 10}), kTwo = sum(Tensor(Doubles{2}));

Tensor logs(const Tensor& x) { return differentiable<&odd_log>(x); }
Tensor squares(const Tensor& x) { return differentiable<&forward_square>(x); }
template <class F>
auto slope(const F& f) {
  return [f](const Tensor& x) { return gradient([&](const Tensor& t) { return sum(f(t)); }, x); };
}
template <class F>
auto forward(const F& f) {
  return [f](const Tensor& x) { return jvp(f, x, ones(x.shape(), {.dtype = kFloat64})).second; };
}

// spec: D41, D47.b
TEST(TensorMarks, EachModeRunsItsRule) {
  expect_values(logs(kX), {std::log(.5), std::log(.25)});
  expect_values(slope(logs)(kX), {1.5, .75});
  expect_values(forward(logs)(kX), {2.5, 1.25});
  expect_values(jvp(logs, kX, kAlong).second, {2.5, 12.5});
  expect_values(jvp<&odd_log>(kX, kAlong).second, {2.5, 12.5});
  expect_values(pullback<&odd_log>(kX)(kAlong), {1.5, 7.5});
  const auto [values, tangents] = jvp<&powers>(kX, kAlong);
  expect_values(std::get<1>(values), {.125, .015625});
  expect_values(std::get<0>(tangents), {5, 25});
  expect_values(std::get<1>(tangents), {50, 250});
  // One result of two is used.
  const auto second = [](const Tensor& x) { return std::get<1>(differentiable<&powers>(x)); };
  expect_values(forward(second)(kX), {50, 25});
  expect_values(slope(second)(kX), {1, .5});
}

// spec: D41, D47.b
TEST(TensorMarks, TakeArgumentsOfAllKinds) {
  const Pair p{kX, 2.0 * kX};
  const auto f = [](const Pair& q) {
    return sum(differentiable<&product>(q, 4.0, Tensor(Doubles{1, 1})));
  };
  const auto dp = gradient(f, p);
  expect_values(dp.a, {20, 10});
  expect_values(dp.b, {15, 7.5});
  const auto along = [&](const Pair& dq) { return jvp(f, p, dq).second; };
  expect_values(along({kAlong, 0.0 * kX}), {2 * (1 * 1 + 10 * .5)});
  expect_values(along({0.0 * kX, kAlong}), {3 * (.5 + 2.5)});
  // A tangent of one field alone: the other one is zero.
  const auto by_field = [&](const Tensor& a) { return f({a, 2.0 * kX}); };
  expect_values(jvp(by_field, kX, kAlong).second, {2 * (1 * 1 + 10 * .5)});
}

// spec: D41, D47.b
TEST(TensorMarks, InAllModes) {
  for (const auto& f : {std::function(logs), std::function(squares)}) {
    const Tensor want_slope = slope(f)(kX), want_forward = forward(f)(kX);
    const auto staged = function([f](const Tensor& x) { return f(x); });
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(same_value(slope(staged)(kX), want_slope));
      EXPECT_TRUE(same_value(forward(staged)(kX), want_forward));
      EXPECT_TRUE(same_value(function(slope(f))(kX), want_slope));
      EXPECT_TRUE(same_value(function(forward(f))(kX), want_forward));
    }
    const LazyScope lazy;
    EXPECT_TRUE(same_value(slope(f)(kX), want_slope));
    EXPECT_TRUE(same_value(forward(f)(kX), want_forward));
  }
}

// The graph of a rule is stored with both of its parts.
TEST(TensorMarks, AreStoredInGraphs) {
  const auto staged = function([](const Tensor& x) { return logs(x); });
  staged(kX);
  const GraphRef graph(&staged.traces()[0].graph());
  for (const GraphRef& again : {parse_graph(to_text(*graph)), read_binary(to_binary(*graph))}) {
    const auto f = [&](const Tensor& x) { return interpret(*again, std::vector{x})[0]; };
    expect_values(slope(f)(kX), {1.5, .75});
    expect_values(forward(f)(kX), {2.5, 1.25});
  }
}

// The calls of the rule that ran are differentiated: 3 after reverse, 5 after forward mode.
// spec: D27.c, D47.b
TEST(TensorMarks, NestedTwice) {
  expect_values(slope(slope(logs))(kX), {3, 3});
  expect_values(forward(slope(logs))(kX), {3, 3});
  expect_values(slope(forward(logs))(kX), {5, 5});
  expect_values(forward(forward(logs))(kX), {5, 5});
  expect_values(hessian([](const Tensor& x) { return sum(logs(x)); }, kX), {3, 0, 0, 3});
  expect_values(hvp([](const Tensor& x) { return sum(logs(x)); }, kX, kAlong), {3, 30});
  expect_values(hvp<&odd_log>(Tensor(.5), Tensor(10.0)), {30});
  const auto staged = function([](const Tensor& x) { return logs(x); });
  expect_values(slope(slope(staged))(kX), {3, 3});
  expect_values(forward(slope(staged))(kX), {3, 3});
  expect_values(slope(forward(staged))(kX), {5, 5});
  expect_values(forward(forward(staged))(kX), {5, 5});
}

// spec: D38, D47.b
TEST(TensorMarks, WithVmap) {
  expect_values(vmap(forward(logs))(kX), {2.5, 1.25});
  expect_values(vmap(slope(logs))(kX), {1.5, .75});
  expect_values(forward(vmap(logs))(kX), {2.5, 1.25});
  expect_values(slope(vmap(logs))(kX), {1.5, .75});
  const auto staged = function([](const Tensor& x) { return logs(x); });
  expect_values(forward(vmap([&](const Tensor& x) { return staged(x); }))(kX), {2.5, 1.25});
  expect_values(vmap(forward(staged))(kX), {2.5, 1.25});
  expect_values(function(forward(vmap(logs)))(kX), {2.5, 1.25});
  // An argument that all examples share.
  const auto shared = [](const Tensor& w) {
    return sum(vmap([&](const Tensor& x) {
      return differentiable<&product>(Pair{x, w}, 4.0, kTwo);
    })(kX));
  };
  expect_values(forward(shared)(kTwo), {3 * .75});
  expect_values(slope(shared)(kTwo), {30 * .75});
  const auto staged_shared = function([&](const Tensor& w) { return shared(w); });
  expect_values(forward(staged_shared)(kTwo), {3 * .75});
}

// spec: D41
TEST(TensorMarks, AForwardRuleAloneServesReverseMode) {
  expect_values(squares(kX), {.25, .0625});
  expect_values(slope(squares)(kX), {3.5, 1.75});
  expect_values(forward(squares)(kX), {3.5, 1.75});
  expect_values(slope(slope(squares))(kX), {7, 7});
  expect_values(forward(slope(squares))(kX), {7, 7});
  expect_values(slope(forward(squares))(kX), {7, 7});
  expect_values(vmap(slope(squares))(kX), {3.5, 1.75});
  expect_values(slope(vmap(squares))(kX), {3.5, 1.75});
  GradientTape tape;
  tape.watch(kX);
  const Tensor y = squares(kX);
  expect_values(tape.gradient(y, kX), {3.5, 1.75});
}

// spec: D41
TEST(TensorMarks, RulesThatDoNotFitAreErrors) {
  const auto of = [](auto f) { return [f](const Tensor& x) { return f(x); }; };
  expect_error([&] { forward(of(differentiable<&wide>))(kX); }, ErrorCode::kInvalidArgument,
               {"derivative_of: the jvp returned a tangent float64[] for result 0, which is "
                "float64[2]. Return one of the shape and dtype of the result"});
  expect_error([&] { slope(of(differentiable<&bent>))(kX); }, ErrorCode::kInvalidArgument,
               {"derivative_of: reverse mode needs a jvp that is linear in its tangents, but "
                "multiply at ",
                "is not. Write a vjp as well, or make the tangent of calls that are linear in dx"});
  expect_error([&] { slope(of(differentiable<&shifted>))(kX); }, ErrorCode::kInvalidArgument,
               {"derivative_of: reverse mode needs a jvp that is linear in its tangents, but it "
                "computes outside of tensors or adds a constant"});
  // The rule is traced with the call. A failure there is an error of the mode that needs it.
  const auto staged = function([](const Tensor& x) { return differentiable<&reading>(x); });
  expect_values(slope(staged)(kX), {1, .5});
  expect_error([&] { forward(staged)(kX); }, ErrorCode::kInvalidArgument,
               {"tangent of derivative_of: ", "has no elements"});
  expect_values(forward(of(differentiable<&reading>))(kX), {.5, .5});
}

}  // namespace
}  // namespace etude::tensor_marks_test
