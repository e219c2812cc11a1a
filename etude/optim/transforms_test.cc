// SPDX-License-Identifier: Apache-2.0

#include "etude/optim/transforms.h"

#include <functional>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/base/error.h"
#include "etude/core/context/ambient.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/adam_rules.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/sgd.h"
#include "etude/optim/tensor_rules.h"
#include "etude/stage/function.h"

namespace etude::optim::transforms_test {
namespace {

using Vector = std::vector<double>;

struct Pair {
  Tensor a, b;
};

// By how much SGD with rate 1 moves zeros: the gradient that reaches the rule.
Pair seen(std::vector<Transform> transforms, const Pair& gradient) {
  SGD sgd({.lr = 1});
  sgd.add(std::move(transforms));
  Pair w{zeros_like(gradient.a), zeros_like(gradient.b)};
  sgd.update(w, gradient);
  return {-w.a, -w.b};
}

void expect_vector(const Tensor& x, const Vector& want) {
  const Vector got = x.to_vector<double>();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

template <class Fn>
void expect_text(const Fn& fn, const std::string& text) {
  try {
    fn();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    EXPECT_STREQ(error.where().file, __FILE__) << error.what();
  }
}

// spec: O15.a
TEST(Transforms, Clip) {
  const Pair g{Tensor(Vector{3, 4}), Tensor(Vector{0, -12})};
  expect_vector(seen({clip_by_value(3.5)}, g).a, {3, 3.5});
  expect_vector(seen({clip_by_value(3.5)}, g).b, {0, -3.5});
  expect_vector(seen({clip_by_norm(1)}, g).a, {.6, .8});
  expect_vector(seen({clip_by_norm(6)}, g).a, {3, 4});
  expect_vector(seen({clip_by_norm(6)}, g).b, {0, -6});
  const Pair lone{Tensor(Vector{3, 4}), Tensor(Vector{0, 0})};
  expect_vector(seen({clip_by_global_norm(1)}, lone).a, {.6, .8});
  expect_vector(seen({clip_by_global_norm(6.5)}, g).a, {1.5, 2});
  expect_vector(seen({clip_by_global_norm(6.5)}, g).b, {0, -6});
  EXPECT_TRUE(same_value(seen({clip_by_global_norm(13)}, g).a, g.a));
  // In the order in which they were added.
  expect_vector(seen({clip_by_value(3), clip_by_norm(1)}, g).b, {0, -1});
  // Frozen parts do not count.
  expect_vector(seen({clip_by_global_norm(1), freeze("b")}, g).a, {.6, .8});
  expect_vector(seen({freeze("b")}, g).b, {0, 0});
}

// spec: O15.a
TEST(Transforms, Centralize) {
  const Pair g{Tensor(Vector{1, 2, 3, 6}, {2, 2}), Tensor(Vector{1, 2})};
  const Pair out = seen({centralize()}, g);
  expect_vector(out.a, {-1, -2, 1, 2});
  expect_vector(out.b, {1, 2});
}

// spec: O15.a
TEST(Transforms, NoiseHasItsVarianceAndFades) {
  SGD sgd({.lr = 1});
  sgd.add(add_noise(4, 1));
  set_seed(3);
  Tensor w = zeros({20000}, {.dtype = kFloat64});
  const Tensor none = zeros_like(w);
  double expected = 0;
  for (int t = 0; t < 3; ++t) {
    const Tensor before = w;
    sgd.update(w, none);
    expected = 4.0 / (1 + t);
    EXPECT_NEAR(mean(square(w - before)).item<double>(), expected, .05 * expected) << t;
  }
}

// Norms of elements whose squares overflow, or vanish, are right: |3 s, 4 s| is 5 s.
TEST(Transforms, ClipWhereSquaresLeaveTheRange) {
  const auto clipped = [](const Transform& transform, DType dtype, double scale) {
    const Tensor unit = astype(Tensor(Vector{3, 4}), dtype);
    return seen({transform}, {unit * scale, zeros({0}, {.dtype = dtype})}).a.to_vector<double>();
  };
  for (const auto& make : {clip_by_norm, clip_by_global_norm}) {
    const auto expect_unit = [&](DType dtype, double scale, double norm, double near) {
      const Vector got = clipped(make(norm, CallSite::here()), dtype, scale);
      EXPECT_NEAR(got[0] / norm, .6, near) << scale;
      EXPECT_NEAR(got[1] / norm, .8, near) << scale;
    };
    for (const double scale : {1e19, 1e30, 6e37}) expect_unit(kFloat32, scale, 1, 1e-6);
    expect_unit(kFloat32, 1e-25, 1e-26, 1e-6);
    expect_unit(kFloat64, 1e300, 1, 1e-14);
    expect_unit(kFloat64, 1e-200, 1e-201, 1e-14);
    EXPECT_EQ(clipped(make(1, CallSite::here()), kFloat32, 0), (Vector{0, 0}));
  }
}

// float32 does not hold the scale of the float64 elements.
TEST(Transforms, ClipMixedDTypesWhereSquaresLeaveTheRange) {
  const Pair mixed{Tensor(Vector{3e-100, 4e-100}), zeros({2})};
  const Pair small = seen({clip_by_global_norm(1e-100)}, mixed);
  expect_vector(small.a / 1e-100, {.6, .8});
  expect_vector(small.b, {0, 0});
}

// Four batches of a quarter give the step of the whole, and updates count whole steps.
// spec: O15.a
TEST(Transforms, AccumulateIsALargerBatch) {
  Adam whole({.lr = .1}), parts({.lr = .1});
  parts.add(accumulate(4));
  Tensor a(Vector{1, 2}), b = a;
  for (int step = 0; step < 3; ++step) {
    Vector sum = {0, 0};
    for (int part = 0; part < 4; ++part) {
      const Vector g = {.5 * part - step, .25 * step};
      sum[0] += g[0];
      sum[1] += g[1];
      const Tensor before = b;
      parts.update(b, Tensor(g));
      EXPECT_EQ(same_value(b, before), part < 3);
      EXPECT_EQ(parts.waiting(), part < 3 ? part + 1 : 0);
    }
    whole.update(a, Tensor(Vector{sum[0] / 4, sum[1] / 4}));
    expect_vector(b, a.to_vector<double>());
    EXPECT_EQ(parts.updates(), step + 1);
  }
  EXPECT_EQ(whole.waiting(), 0);
}

// spec: O15.a
TEST(Transforms, LossScalingLeavesOverflowsOut) {
  SGD sgd({.lr = 1});
  sgd.add(loss_scaling({.initial = 8, .growth = 4, .backoff = .5, .every = 2}));
  Tensor w(Vector{0});
  const auto step = [&](double slope) {
    sgd.update(w, Tensor(Vector{slope}) * sgd.loss_scale());
    return sgd.loss_scale().item<double>();
  };
  EXPECT_EQ(step(1), 8);
  EXPECT_EQ(step(1), 32);
  EXPECT_EQ(w.item<double>(), -2);
  EXPECT_EQ(step(INFINITY), 16);
  EXPECT_EQ(step(NAN), 8);
  EXPECT_EQ(w.item<double>(), -2);
  EXPECT_EQ(sgd.updates(), 2);
  EXPECT_EQ(step(.5), 8);
  EXPECT_EQ(w.item<double>(), -2.5);
}

// spec: O15.a
TEST(Transforms, AveragesOfWeights) {
  SGD sgd({.lr = 1});
  sgd.add({ema(.75), swa(2, 2)});
  Pair w{Tensor(Vector{0}), Tensor(Vector{5})};
  const Pair g{Tensor(Vector{-1}), Tensor()};
  double ema = 0;
  for (int t = 1; t <= 6; ++t) {
    sgd.update(w, g);
    ema = .75 * ema + .25 * t;
  }
  expect_vector(sgd.averaged(w).a, {ema});
  expect_vector(sgd.averaged(w, "swa").a, {4});  // of 2, 4 and 6
  expect_vector(sgd.averaged(w).b, {5});         // no gradient, no average
  expect_vector(w.a, {6});
  expect_text([&] { sgd.averaged(w, "slow"); }, "there is no state 'slow', but ema, swa");
  expect_text([&] { sgd.averaged(Tensor()); },
              "the model has 1 tensors, but the state was made for 2");
}

// spec: O15.a
TEST(Transforms, LookaheadGoesPartOfTheWay) {
  SGD sgd({.lr = 1});
  sgd.add(lookahead(3, .5));
  Tensor w(Vector{0});
  const Vector expected = {1, 2, 1.5, 2.5, 3.5, 3};  // slow: 0, 1.5, 3
  for (const double want : expected) {
    sgd.update(w, Tensor(Vector{-1}));
    EXPECT_EQ(w.item<double>(), want);
  }
  EXPECT_EQ(sgd.averaged(w, "slow").item<double>(), 3);
}

struct Encoder {
  Tensor weight, bias;
};
struct Model {
  Encoder encoder;
  Tensor head;
};
Model model_of(double value) {
  const Tensor x(Vector{value});
  return {{x, x}, x};
}

// spec: O9.a
TEST(Transforms, GroupsHaveOptionsOfTheirOwn) {
  SGD sgd({.lr = 1, .weight_decay = .5});
  sgd.group("encoder/bias", {.weight_decay = 0});
  sgd.group("encoder/*", {.lr = exponential(.5, .5)});
  Model w = model_of(1);
  const Model g = model_of(1);
  sgd.update(w, g);
  expect_vector(w.head, {1 - 1.5});
  expect_vector(w.encoder.bias, {1 - 1});
  expect_vector(w.encoder.weight, {1 - .5 * 1.5});
  sgd.update(w, g);
  expect_vector(w.encoder.weight, {.25 - .25 * (1 + .5 * .25)});
  RMSProp rms;
  expect_text([&] { rms.group("a", {.weight_decay = .1}); },
              "RMSProp: the group 'a' has a weight_decay, but this optimiser has none");
  expect_text([&] { sgd.group("head", {.lr = -1}); }, "SGD: lr is -1, but must be at least 0");
  expect_text([&] { sgd.group("tail", {.lr = 1}); },
              "the group 'tail' means no tensor of the model, which has 'encoder/weight', "
              "'encoder/bias', 'head'");
  SGD early;  // a group that is made before the first update is checked by each update
  early.group("tail", {.lr = 1});
  for (int i = 0; i < 2; ++i) {
    expect_text([&] { early.update(w, g); },
                "SGD::update: the group 'tail' means no tensor of the model, which has "
                "'encoder/weight', 'encoder/bias', 'head'");
  }
  EXPECT_EQ(early.updates(), 0);
  SGD other;
  other.add(freeze("decoder/*"));
  expect_text([&] { other.update(w, g); },
              "SGD::update: freeze: the pattern 'decoder/*' means no tensor of the model");
}

// A group for all tensors is as good as the option.
template <class Optimizer, class Options>
void expect_group_decay(const char* name, Options options) {
  options.weight_decay = .1;
  Optimizer whole(options), none(options);
  options.weight_decay = 0;
  Optimizer plain(options);
  none.group("*", {.weight_decay = 0});
  const Tensor start(Vector{1, -2, 3, .5, 2, -1}, {2, 3}), slope = cos(start);
  Tensor a = start, b = start, c = start;
  for (int i = 0; i < 3; ++i) {
    whole.update(a, slope);
    none.update(b, slope);
    plain.update(c, slope);
  }
  EXPECT_TRUE(same_value(b, c)) << name;
  EXPECT_FALSE(same_value(a, c)) << name;
}

// spec: O9.a
TEST(Transforms, GroupsDecayByTheirOwnNumber) {
  expect_group_decay<SGD>("SGD", SGDOptions{.momentum = .5});
  expect_group_decay<Adam>("Adam", AdamOptions());
  expect_group_decay<AdamW>("AdamW", AdamWOptions());
  expect_group_decay<RAdam>("RAdam", RAdamOptions());
  expect_group_decay<NAdam>("NAdam", NAdamOptions());
  expect_group_decay<Lion>("Lion", LionOptions());
  expect_group_decay<LARS>("LARS", LARSOptions());
  expect_group_decay<LAMB>("LAMB", LAMBOptions());
  expect_group_decay<Muon>("Muon", MuonOptions());
  expect_group_decay<Adafactor>("Adafactor", AdafactorOptions());
  expect_group_decay<Shampoo>("Shampoo", ShampooOptions());
  expect_group_decay<AdaBelief>("AdaBelief", AdaBeliefOptions());
  expect_group_decay<Yogi>("Yogi", YogiOptions());
  expect_group_decay<ASGD>("ASGD", ASGDOptions());
  expect_group_decay<ScheduleFreeSGD>("ScheduleFreeSGD", ScheduleFreeSGDOptions());
  expect_group_decay<ScheduleFreeAdamW>("ScheduleFreeAdamW", ScheduleFreeAdamWOptions());
}

// spec: O9.a
TEST(Transforms, PatternsOfPaths) {
  EXPECT_TRUE(path_matches("encoder", "encoder/weight"));
  EXPECT_TRUE(path_matches("encoder/weight", "encoder/weight"));
  EXPECT_FALSE(path_matches("enc", "encoder/weight"));
  EXPECT_TRUE(path_matches("*bias", "a/b/bias"));
  EXPECT_FALSE(path_matches("*bias", "a/bias/b"));
  EXPECT_TRUE(path_matches("layers/*/w*t", "layers/3/weight"));
  EXPECT_FALSE(path_matches("layers/*/w*t", "layers/3/weights"));
  EXPECT_TRUE(path_matches("*", ""));
}

// spec: LR11
TEST(Transforms, RatesAreScaledAsState) {
  SGD sgd({.lr = 1}), other({.lr = 1});
  Tensor w(Vector{0});
  sgd.scale_rate(.5);
  sgd.update(w, Tensor(Vector{-1}));
  EXPECT_EQ(w.item<double>(), .5);
  sgd.scale_rate(.5);
  EXPECT_EQ(sgd.rate(), .25);
  other.restore(sgd.state());
  EXPECT_EQ(other.rate(), .25);
  expect_text([&] { sgd.scale_rate(-1); }, "SGD: factor is -1, but must be at least 0");
}

TEST(Transforms, MistakesAreNamed) {
  SGD sgd;
  sgd.add(ema(.5));
  expect_text([&] { sgd.add(ema(.9)); }, "SGD: the optimiser has a state 'ema' already");
  expect_text([] { clip_by_norm(0); }, "clip_by_norm: norm is 0, but must be above 0");
  expect_text([] { accumulate(0); }, "accumulate: n is 0, but must be at least 1");
  expect_text([] { ema(2); }, "ema: decay is 2, but must be in [0, 1]");
  expect_text([] { loss_scaling({.initial = 0}); },
              "loss_scaling: initial is 0, but must be above 0");
  expect_text([&] { sgd.averaged(Tensor()); }, "the state 'ema' is made by the first update");
  SGD counted;
  counted.add(accumulate(2));
  expect_text(
      [&] {
        counted.restore({{"updates", Tensor(1)}});
      },
      "the state has no 'accumulated_calls', which a transform of this optimiser keeps");
}

struct Net {
  Tensor weight, bias;
};

template <class Optimizer>
Tensor train(Net& net, Optimizer& optimizer, const Tensor& x) {
  const auto [loss, gradients] = value_with_gradient(
      [&](const Net& n) { return mean(square(tanh(matmul(x, n.weight) + n.bias) - 0.3)); }, net);
  optimizer.update(net, gradients);
  return loss;
}

void expect_same(const Net& a, const Net& b, const std::string& what) {
  EXPECT_TRUE(same_value(a.weight, b.weight)) << what;
  EXPECT_TRUE(same_value(a.bias, b.bias)) << what;
}

// Eager, staged and lazy steps, and eager steps that are saved after four and resumed.
template <class Optimizer>
void expect_same_steps(const Optimizer& fresh, const std::string& what) {
  const auto numbers = [](double n) { return astype(arange(n), kFloat32); };
  const Net start{reshape(cos(numbers(12)), {3, 4}), zeros({4})};
  const Tensor inputs = reshape(sin(numbers(15)), {5, 3});
  Net eager = start, staged = start, lazy = start, resumed;
  Optimizer a = fresh, b = fresh, c = fresh, d = fresh;
  std::vector<Tensor> losses;
  Generator middle;
  set_seed(8);
  for (int i = 0; i < 9; ++i) {
    losses.push_back(train(eager, a, inputs));
    if (i != 3) continue;
    resumed = eager;
    d.restore(a.state());
    middle = ambient().generator;
  }
  const auto step = function(train<Optimizer>);
  set_seed(8);
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(same_value(step(staged, b, inputs), losses[static_cast<std::size_t>(i)]))
        << what << " staged " << i;
  }
  expect_same(staged, eager, what + " staged");
  EXPECT_LE(step.trace_count(), 2U) << what;
  EXPECT_EQ(b.updates(), a.updates()) << what;
  set_seed(8);
  LazyOptions options = lazy_options();
  options.background = false;  // so that a program runs, and not call by call
  set_lazy_options(options);
  for (int i = 0; i < 9; ++i) {
    const LazyScope scope;
    train(lazy, c, inputs);
  }
  expect_same(lazy, eager, what + " lazy");
  ambient().generator = middle;
  for (int i = 4; i < 9; ++i) train(resumed, d, inputs);
  expect_same(resumed, eager, what + " resumed");
  const State kept = a.state(), other = d.state(), of_graph = b.state();
  ASSERT_EQ(kept.size(), other.size()) << what;
  ASSERT_EQ(kept.size(), of_graph.size()) << what;
  for (const auto& [name, tensor] : kept) {
    EXPECT_TRUE(same_value(tensor, other.at(name))) << what << " " << name;
    EXPECT_TRUE(same_value(tensor, of_graph.at(name))) << what << " " << name;
  }
}

template <class Optimizer>
Optimizer with(Optimizer optimizer, std::vector<Transform> transforms) {
  optimizer.add(std::move(transforms));
  return optimizer;
}

// spec: O9.b, O13, O14, K3.c
TEST(Transforms, EveryOptimiserStepsAlikeInAllModesAndGoesOn) {
  expect_same_steps(LARS({.lr = exponential(.5, .9)}), "LARS");
  expect_same_steps(LAMB({.lr = .1}), "LAMB");
  expect_same_steps(Muon({.lr = .1, .weight_decay = .1}), "Muon");
  expect_same_steps(Adafactor({.weight_decay = .1}), "Adafactor");
  expect_same_steps(Shampoo({.weight_decay = .1}), "Shampoo");
  expect_same_steps(AdaBelief({.lr = .1, .weight_decay = .1}), "AdaBelief");
  expect_same_steps(Yogi({.lr = .1}), "Yogi");
  expect_same_steps(Rprop(), "Rprop");
  expect_same_steps(FTRL({.lr = .1, .l1 = .01}), "FTRL");
  expect_same_steps(ASGD({.lr = .1, .start = 3}), "ASGD");
  expect_same_steps(ScheduleFreeSGD({.lr = linear_warmup(.5, 4)}), "ScheduleFreeSGD");
  expect_same_steps(ScheduleFreeAdamW({.lr = .1}), "ScheduleFreeAdamW");
}

// spec: O9.a, O15.a, K3.c
TEST(Transforms, EveryTransformActsAlikeInAllModesAndGoesOn) {
  const AdamW adam({.lr = exponential(.1, .9), .amsgrad = true});
  expect_same_steps(with(adam, {clip_by_value(.01)}), "clip_by_value");
  expect_same_steps(with(adam, {clip_by_norm(.01), centralize()}), "clip_by_norm");
  expect_same_steps(with(adam, {add_noise(.01), clip_by_global_norm(.05)}), "add_noise");
  expect_same_steps(with(adam, {accumulate(2), clip_by_global_norm(.05), ema(.9)}), "accumulate");
  expect_same_steps(with(adam, {loss_scaling({.initial = 4, .every = 3}), swa(2, 3)}), "scaling");
  expect_same_steps(with(adam, {lookahead(3), freeze("bias"), ema(.5)}), "lookahead");
  AdamW grouped = adam;
  grouped.group("bias", {.lr = cosine(.3, 7), .weight_decay = 0});
  grouped.scale_rate(.5);
  expect_same_steps(grouped, "groups");
}

// A rate that callbacks lower is a number of the graph, not another graph.
// spec: LR11
TEST(Transforms, AScaledRateMakesNoNewGraph) {
  Net net{ones({3, 4}), zeros({4})};
  SGD sgd({.lr = .1});
  const auto step = function(train<SGD>);
  const Tensor x = ones({5, 3});
  sgd.scale_rate(1);
  for (int i = 0; i < 6; ++i) {
    step(net, sgd, x);
    sgd.scale_rate(.5);
  }
  EXPECT_LE(step.trace_count(), 2U);
}

}  // namespace
}  // namespace etude::optim::transforms_test
