// SPDX-License-Identifier: Apache-2.0
// Training steps in a hand-written staged function: every optimiser with every schedule has the
// bits of the eager step, in one graph after its state exists.
#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/base/error.h"
#include "etude/core/context/ambient.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/losses/losses.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/optim/adam.h"
#include "etude/optim/adam_rules.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/sgd.h"
#include "etude/stage/function.h"
#include "tests/expect_error.h"

namespace etude::staged_steps_test {
namespace {

using namespace optim;
using etude::tests::expect_error;

struct Net {
  nn::Dense hidden{3, 4, {.activation = nn::relu}};
  nn::Dropout dropout{0.3};
  nn::Dense output{4, 2};
  Tensor operator()(const Tensor& x) const { return output(dropout(hidden(x))); }
};

template <class Optimizer>
Tensor train(Net& net, Optimizer& optimizer, const Tensor& x, const Tensor& y) {
  const auto [loss, gradients] =
      value_with_gradient([&](const Net& n) { return nn::softmax_cross_entropy(n(x), y); }, net);
  optimizer.update(net, gradients);
  return loss;
}

template <class Optimizer>
void expect_same_state(const Optimizer& a, const Optimizer& b, const char* what) {
  const State x = a.state(), y = b.state();
  ASSERT_EQ(x.size(), y.size()) << what;
  for (const auto& [name, tensor] : x) {
    ASSERT_TRUE(y.contains(name)) << what << " " << name;
    EXPECT_TRUE(same_value(tensor, y.at(name))) << what << " " << name;
  }
}

template <class Optimizer>
void expect_same_steps(const Optimizer& fresh, const char* what) {
  const PhaseScope training(Phase::kTraining);
  set_seed(7);
  const Tensor x = random::normal({5, 3}), y(std::vector<int32_t>{0, 1, 1, 0, 1});
  Net eager, staged = eager;
  Optimizer eager_optimizer = fresh, staged_optimizer = fresh;
  set_seed(8);
  std::vector<Tensor> losses;
  for (int i = 0; i < 9; ++i) losses.push_back(train(eager, eager_optimizer, x, y));
  const auto step = function(train<Optimizer>);
  set_seed(8);
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(same_value(step(staged, staged_optimizer, x, y), losses[i])) << what << " " << i;
  }
  EXPECT_TRUE(same_value(eager.hidden.weight, staged.hidden.weight)) << what;
  EXPECT_TRUE(same_value(eager.output.bias, staged.output.bias)) << what;
  EXPECT_EQ(staged_optimizer.updates(), 9) << what;
  expect_same_state(eager_optimizer, staged_optimizer, what);
  // One trace that makes the state, if there is any, and one with the state.
  EXPECT_LE(step.trace_count(), 2u) << what;
}

struct Row {
  const char* name;
  Schedule schedule;
};
std::vector<Row> schedules() {
  return {{"a number", 0.05},
          {"constant", constant(0.05)},
          {"piecewise", piecewise({2, 5}, {0.1, 0.05, 0.01})},
          {"step", step(0.1, 0.5, 3)},
          {"exponential", exponential(0.1, 0.9)},
          {"inverse_time", inverse_time(0.1, 0.3)},
          {"polynomial", polynomial(0.1, 0.01, 1.7, 6)},
          {"cosine", cosine(0.1, 7)},
          {"cosine_restarts", cosine_restarts(0.1, 2, 1.5, 0.01)},
          {"linear_warmup", linear_warmup(0.1, 4)},
          {"one_cycle", one_cycle(0.1, 8)},
          {"inverse_sqrt", inverse_sqrt(0.1, 3)},
          {"chain", chain({cosine(0.1, 9), step(1, 0.5, 3)})},
          {"join", join({constant(0.1), exponential(0.2, 0.5), 0.01}, {3, 6})},
          {"warmup", warmup(3, warmup(2, cosine(0.1, 6)))}};
}

// spec: O1, O2, O3, O4, O5, O6, O7, O8, O10, O11, O12
TEST(StagedSteps, OfEveryOptimiserAndScheduleGiveTheBitsOfEagerOnes) {
  for (const auto& [name, lr] : schedules()) {
    expect_same_steps(SGD({.lr = lr}), name);
    expect_same_steps(SGD({.lr = lr, .momentum = 0.9, .decay = 0.1, .dampening = 0.2}), name);
    expect_same_steps(SGD({.lr = lr, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1}),
                      name);
    expect_same_steps(Adam({.lr = lr, .decay = 0.1, .weight_decay = 0.1}), name);
    expect_same_steps(AdamW({.lr = lr, .amsgrad = true}), name);
    expect_same_steps(RMSProp({.lr = lr, .decay = 0.1}), name);
    expect_same_steps(RMSProp({.lr = lr, .momentum = 0.9, .centered = true}), name);
    expect_same_steps(AdaGrad({.lr = lr}), name);
    expect_same_steps(AdaDelta({.lr = lr, .decay = 0.1}), name);
    expect_same_steps(AdaMax({.lr = lr}), name);
    expect_same_steps(RAdam({.lr = lr, .decay = 0.1}), name);
    expect_same_steps(NAdam({.lr = lr, .decay = 0.1, .psi = 0.3}), name);
    expect_same_steps(Lion({.lr = lr, .weight_decay = 0.1}), name);
  }
}

TEST(StagedSteps, GoOnAfterEagerOnesAndBeforeThem) {
  const Tensor x = ones({2, 3}), y(std::vector<int32_t>{0, 1});
  Net eager, mixed = eager;
  Adam a({.lr = exponential(0.1, 0.9)}), b = a;
  const auto step = function(train<Adam>);
  for (int i = 0; i < 6; ++i) {
    train(eager, a, x, y);
    i % 2 == 0 ? train(mixed, b, x, y) : step(mixed, b, x, y);
  }
  EXPECT_TRUE(same_value(eager.hidden.weight, mixed.hidden.weight));
  EXPECT_EQ(b.updates(), 6);
  EXPECT_EQ(step.trace_count(), 1u);
}

// The state of another optimiser is its own.
TEST(StagedSteps, CopiesOfAnOptimiserGoOnByThemselves) {
  const Tensor x = ones({2, 3}), y(std::vector<int32_t>{0, 1});
  Net net;
  Adam a;
  const auto step = function(train<Adam>);
  step(net, a, x, y);
  const Adam copy = a;
  const State before = copy.state();
  for (int i = 0; i < 3; ++i) step(net, a, x, y);
  EXPECT_EQ(copy.updates(), 1);
  EXPECT_EQ(a.updates(), 4);
  for (const auto& [name, tensor] : before) EXPECT_TRUE(same_value(tensor, copy.state().at(name)));
}

TEST(StagedSteps, OptionsDecideWhichGraphServes) {
  const Tensor x = ones({2, 3}), y(std::vector<int32_t>{0, 1});
  Net net;
  SGD optimizer({.lr = 0.1});
  const auto step = function(train<SGD>, {.name = "step", .arg_names = {"net", "sgd", "x", "y"}});
  step(net, optimizer, x, y);
  step(net, optimizer, x, y);  // with slots, though empty ones
  const std::size_t traces = step.trace_count();
  optimizer.options().lr = 0.2;
  step(net, optimizer, x, y);
  EXPECT_EQ(step.trace_count(), traces + 1);
  optimizer.options().lr = 0.1;
  step(net, optimizer, x, y);
  EXPECT_EQ(step.trace_count(), traces + 1);
}

TEST(StagedSteps, MistakesAreNamed) {
  const Tensor x = ones({2, 3}), y(std::vector<int32_t>{0, 1});
  Net net;
  Adam host({.lr = chain({1, [](int64_t) { return 0.1; }})});
  const auto step = function(train<Adam>);
  expect_error([&] { step(net, host, x, y); }, ErrorCode::kInvalidArgument,
               {"Adam::update", "lr is a function of the host", "staged_steps_test.cc"});
  EXPECT_EQ(host.updates(), 0);

  Adam falls({.lr = piecewise({2}, {0.1, -0.5})});
  step(net, falls, x, y);
  step(net, falls, x, y);
  const Tensor before = net.hidden.weight;
  expect_error(
      [&] { step(net, falls, x, y); }, ErrorCode::kInvalidArgument,
      {"rule_rates", "lr is -0.5 at update 2, but must be at least 0", "staged_steps_test.cc"});
  EXPECT_TRUE(same_value(net.hidden.weight, before));
  EXPECT_EQ(falls.updates(), 2);

  Adam outside;
  const auto captures = function([&](Net& m) { train(m, outside, x, y); });
  expect_error([&] { captures(net); }, ErrorCode::kFailedPrecondition,
               {"Adam::update", "the optimiser is no argument of the function", "by reference"});
  EXPECT_EQ(outside.updates(), 0);

  const auto asks = function([](Adam& optimizer) { return Tensor(optimizer.updates()); });
  Adam adam;
  expect_error([&] { asks(adam); }, ErrorCode::kFailedPrecondition, {"it has no elements"});
}

}  // namespace
}  // namespace etude::staged_steps_test
