// SPDX-License-Identifier: Apache-2.0
// Derivatives of staged functions, by tapes outside, inside and in other functions.
#include <cmath>
#include <span>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/graph_derivatives.h"
#include "etude/etude.h"

namespace etude {
namespace {

using Floats = std::vector<float>;

// spec: FB-02.b
TEST(StagedDerivatives, OfAProductByItselfWhereverTheTapeIs) {
  const auto body = [](const Tensor& a) { return sum(matmul(a, a)); };
  const auto f = function(body);
  const auto slope = [&](const Tensor& a) { return gradient(f, a); };
  const auto inside = function([&](const Tensor& a) { return gradient(body, a); });
  const Tensor a({{1.0, 2.0}, {3.0, 4.0}});
  const Floats want = {7, 11, 9, 13};
  EXPECT_EQ(gradient(body, a).to_vector<float>(), want);
  EXPECT_EQ(slope(a).to_vector<float>(), want);
  EXPECT_EQ(function(slope)(a).to_vector<float>(), want);
  EXPECT_EQ(inside(a).to_vector<float>(), want);
}

// spec: FB-04.b, D27.e
TEST(StagedDerivatives, OfThirdOrder) {
  const auto f = function([](const Tensor& x) { return cos(x); });
  const auto slope_of = [](const auto& g) {
    return [g](const Tensor& x) { return gradient(g, x); };
  };
  const auto third = slope_of(slope_of(slope_of(f)));
  const Tensor x(0.7F);
  EXPECT_FLOAT_EQ(third(x).item<float>(), std::sin(0.7F));
  EXPECT_FLOAT_EQ(function(third)(x).item<float>(), std::sin(0.7F));
  const auto of_staged_slope = slope_of(slope_of(function(slope_of(f))));
  EXPECT_FLOAT_EQ(of_staged_slope(x).item<float>(), std::sin(0.7F));
}

// spec: FB-04.c
TEST(StagedDerivatives, MixedWithEagerTapes) {
  const auto f = function([](const Tensor& x) { return cos(x) * x; });
  const Tensor x(0.7F);
  GradientTape outer, inner;
  outer.watch(x);
  inner.watch(x);
  const Tensor y = f(x) * x;
  const Tensor dy = inner.gradient(y, x);
  const float c = std::cos(0.7F), s = std::sin(0.7F);
  EXPECT_FLOAT_EQ(dy.item<float>(), 1.4F * c - 0.49F * s);
  EXPECT_FLOAT_EQ(outer.gradient(dy, x).item<float>(), 2 * c - 4 * 0.7F * s - 0.49F * c);
}

// spec: FB-07.d
TEST(StagedDerivatives, OfVariablesThatABodyCaptures) {
  const Variable v(2.0);
  const auto cubed = [&](const Tensor& x) {
    return std::get<1>(
        while_loop([](const Tensor& i, const Tensor&) { return i < 3; },
                   [&](const Tensor& i, const Tensor& s) { return std::tuple(i + 1, s * v); },
                   std::tuple(Tensor(0), x)));
  };
  const auto chosen = [&](const Tensor& x) {
    return cond(
        x > 0.0F, [&] { return x * v * v; }, [&] { return -x * v; });
  };
  const auto slopes = [&](const auto& f, float at) {
    GradientTape tape;
    const Tensor x(at);
    tape.watch(x);
    const Tensor y = f(x);
    const auto [dx, dv] = tape.gradient(y, std::tie(x, v));
    return Floats{y.item<float>(), dx.item<float>(), dv.item<float>()};
  };
  for (const bool is_staged : {false, true}) {
    const auto f = function(cubed, {.run_eagerly = !is_staged});
    const auto g = function(chosen, {.run_eagerly = !is_staged});
    EXPECT_EQ(slopes(f, 5), (Floats{40, 8, 60}));
    EXPECT_EQ(slopes(g, 5), (Floats{20, 4, 20}));
    EXPECT_EQ(slopes(g, -5), (Floats{10, -2, 5}));
  }
}

// spec: D68.c
TEST(StagedDerivatives, OfVariants) {
  using Held = std::variant<Tensor, std::pair<Tensor, Tensor>>;
  const auto f = [](const Held& held, const Tensor& x) {
    if (held.index() == 0) return x * std::get<0>(held);
    return x * std::get<1>(held).first * std::get<1>(held).second;
  };
  const auto staged = function(f);
  const auto slopes =
      function([&](const Held& held, const Tensor& x) { return gradient(f, held, x); });
  const Tensor x(2.0F);
  const Held one(Tensor(10.0F)), two(std::pair(Tensor(4.0F), Tensor(5.0F)));
  for (int i = 0; i < 2; ++i) {
    for (const bool is_outside : {false, true}) {
      const auto [by_one, dx] = is_outside ? gradient(staged, one, x) : slopes(one, x);
      EXPECT_EQ(std::get<0>(by_one).item<float>(), 2);
      EXPECT_EQ(dx.item<float>(), 10);
      const auto [by_two, dy] = is_outside ? gradient(staged, two, x) : slopes(two, x);
      EXPECT_EQ(std::get<1>(by_two).first.item<float>(), 10);
      EXPECT_EQ(std::get<1>(by_two).second.item<float>(), 8);
      EXPECT_EQ(dy.item<float>(), 20);
    }
  }
  EXPECT_EQ(staged.trace_count(), 2u);  // one for each alternative
  EXPECT_EQ(slopes.trace_count(), 2u);
}

// spec: FB-01.a, FB-01.b
TEST(StagedDerivatives, HaveOneBackwardGraphWhichRepeatsNoProduct) {
  const auto f = function([](const Tensor& x, const Tensor& w) { return sum(tanh(matmul(x, w))); });
  const auto made = f.trace(ones({2, 3}), ones({3, 4}));
  const internal::Chosen both(std::vector<bool>{true, true});
  const auto pair = internal::derivative_of(made.graph(), both);
  EXPECT_EQ(internal::derivative_of(made.graph(), both).get(), pair.get());
  const auto products = [](const Graph& graph) {
    int count = 0;
    for (std::size_t i = 0; i < graph.size(); ++i) count += graph.node(i).op.name() == "matmul";
    return count;
  };
  EXPECT_EQ(products(*pair->forward), 1);
  EXPECT_EQ(products(*pair->backward), 2);  // one for each operand
}

// spec: CG-04.c
TEST(StagedDerivatives, OfCallsThatATapeInATraceRecords) {
  const auto own = function([](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = exp(x);
    return tape.gradient(y, x);
  });
  EXPECT_FLOAT_EQ(own(Tensor(1.0F)).item<float>(), std::exp(1.0F));
  const auto by_hand = function([](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    Tensor y;
    {
      const auto pause = tape.pause();
      y = exp(x);
    }
    tape.record(std::span(&x, 1), std::span(&y, 1),
                [](std::span<const Tensor> dy) { return std::vector<Tensor>{dy[0]}; });
    return tape.gradient(y, x);
  });
  EXPECT_EQ(by_hand(Tensor(1.0F)).item<float>(), 1);
}

// A call that traces reads the Variable once more, and the Variable of the trace in between.
// spec: TP-12.b
TEST(StagedDerivatives, CountAVariableThatIsWatchedByHandOnce) {
  Variable v({0.25F, 0.5F});
  const Tensor x({2.0F, 3.0F});
  for (const bool traced_before : {false, true}) {
    const auto product = function([&](const Tensor& q) { return q * v.read(); });
    if (traced_before) product(x);
    GradientTape tape;
    tape.watch(v);
    const Tensor y = product(x) * v.read();
    EXPECT_EQ(tape.gradient(y, v).to_vector<float>(), (Floats{1, 3}));
  }
}

}  // namespace
}  // namespace etude
