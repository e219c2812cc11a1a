// SPDX-License-Identifier: Apache-2.0
// Frozen parts of a model: no optimiser, transform or mode changes one bit of them or of their
// state, whenever they were frozen, and parts that are unfrozen move again.
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/context/ambient.h"
#include "etude/diff/freezable.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/adam_rules.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/lbfgs.h"
#include "etude/optim/sgd.h"
#include "etude/optim/tensor_rules.h"
#include "etude/optim/transforms.h"
#include "etude/stage/function.h"

namespace etude::optim::frozen_test {
namespace {

struct Layer {
  Tensor weight = reshape(cos(astype(arange(9), kFloat32)), {3, 3});
  Tensor bias = Tensor({-0.0F, 1.0F, 2.0F});
  Tensor operator()(const Tensor& x) const { return tanh(matmul(x, weight) + bias); }
};
struct Net {
  Freezable<Layer> encoder;
  Layer head;
  Tensor operator()(const Tensor& x) const { return head(encoder.value(x)); }
};

Tensor loss_of(const Net& net) {
  static const Tensor x = reshape(sin(astype(arange(12), kFloat32)), {4, 3});
  return mean(square(net(x) - 0.5F));
}

// By bytes, so that -0 is not 0.
bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i] || std::signbit(x[i]) != std::signbit(y[i])) return false;
  }
  return true;
}
bool same_bits(const Layer& a, const Layer& b) {
  return same_bits(a.weight, b.weight) && same_bits(a.bias, b.bias);
}

template <class Optimizer>
void train(Net& net, Optimizer& optimizer) {
  optimizer.update(net, gradient(loss_of, net));
}

enum class Mode { kEager, kStaged, kLazy };

template <class Optimizer>
void run(Mode mode, Net& net, Optimizer& optimizer, int steps) {
  static const auto staged =
      function([](Net& n, Optimizer& o) { return train(n, o), n.head.bias; });
  for (int i = 0; i < steps; ++i) {
    if (mode == Mode::kStaged) {
      staged(net, optimizer);
    } else if (mode == Mode::kLazy) {
      LazyOptions options = lazy_options();
      options.background = false;  // so that a program runs, and not call by call
      set_lazy_options(options);
      const LazyScope lazy;
      train(net, optimizer);
    } else {
      train(net, optimizer);
    }
  }
}

// The state of the encoder's tensors.
State encoder_state(const State& all) {
  State out;
  for (const auto& [name, tensor] : all) {
    if (name.find("encoder") != std::string::npos) out.emplace(name, tensor);
  }
  return out;
}

template <class Optimizer>
void expect_still(const Optimizer& fresh, const std::string& name) {
  for (const Mode mode : {Mode::kEager, Mode::kStaged, Mode::kLazy}) {
    for (const int before : {0, 3}) {
      const std::string what = name + " in mode " + std::to_string(static_cast<int>(mode)) +
                               ", frozen after " + std::to_string(before);
      Net net;
      Optimizer optimizer = fresh;
      run(mode, net, optimizer, before);
      ASSERT_EQ(etude::freeze(net, "encoder"), 1U);
      const Net was = net;
      const State state = encoder_state(optimizer.state());
      run(mode, net, optimizer, 4);
      EXPECT_TRUE(same_bits(net.encoder.value, was.encoder.value)) << what;
      EXPECT_FALSE(same_bits(net.head, was.head)) << what;
      const State now = encoder_state(optimizer.state());
      ASSERT_EQ(now.size(), state.size()) << what;
      for (const auto& [key, tensor] : state) {
        EXPECT_TRUE(same_value(now.at(key), tensor)) << what << ": " << key;
      }
      etude::unfreeze(net);
      run(mode, net, optimizer, 1);
      EXPECT_FALSE(same_bits(net.encoder.value, was.encoder.value)) << what;
    }
  }
}

// spec: D16
TEST(Frozen, NoOptimizerMovesThem) {
  expect_still(SGD({.lr = .1, .weight_decay = .1}), "SGD");
  expect_still(SGD({.lr = .1, .momentum = .9}), "momentum");
  expect_still(Adam({.lr = .1}), "Adam");
  expect_still(AdamW({.lr = .1, .weight_decay = .1, .amsgrad = true}), "AdamW");
  expect_still(RMSProp({.lr = .1, .momentum = .9}), "RMSProp");
  expect_still(AdaGrad({.lr = .1}), "AdaGrad");
  expect_still(AdaDelta({.lr = 1}), "AdaDelta");
  expect_still(AdaMax({.lr = .1}), "AdaMax");
  expect_still(NAdam({.lr = .1}), "NAdam");
  expect_still(RAdam({.lr = .1}), "RAdam");
  expect_still(Lion({.lr = .1, .weight_decay = .1}), "Lion");
}
TEST(Frozen, NoOtherOptimizerMovesThem) {
  expect_still(LARS({.lr = .5}), "LARS");
  expect_still(LAMB({.lr = .1}), "LAMB");
  expect_still(Muon({.lr = .1, .weight_decay = .1}), "Muon");
  expect_still(Adafactor({.weight_decay = .1}), "Adafactor");
  expect_still(Shampoo({.weight_decay = .1}), "Shampoo");
  expect_still(AdaBelief({.lr = .1, .weight_decay = .1}), "AdaBelief");
  expect_still(Yogi({.lr = .1}), "Yogi");
  expect_still(Rprop(), "Rprop");
  expect_still(FTRL({.lr = .1, .l1 = .01}), "FTRL");
  expect_still(ASGD({.lr = .1, .start = 2}), "ASGD");
  expect_still(ScheduleFreeSGD({.lr = .5}), "ScheduleFreeSGD");
  expect_still(ScheduleFreeAdamW({.lr = .1}), "ScheduleFreeAdamW");
}

template <class... T>
AdamW with(const T&... transform) {
  AdamW out({.lr = .1, .weight_decay = .1});
  (out.add(transform), ...);
  return out;
}

TEST(Frozen, NoTransformMovesThem) {
  expect_still(with(clip_by_value(.01), ema(.5)), "clip_by_value");
  expect_still(with(clip_by_norm(.01), centralize(), swa(2)), "clip_by_norm");
  expect_still(with(add_noise(.01), clip_by_global_norm(.05)), "add_noise");
  expect_still(with(loss_scaling({.initial = 4}), lookahead(2)), "lookahead");
  AdamW grouped({.lr = .1});
  grouped.group("encoder", {.lr = .3, .weight_decay = .5});
  expect_still(grouped, "group");
}

TEST(Frozen, TapesAndTangentsLeaveThem) {
  Net net;
  etude::freeze(net, "encoder");
  const Net was = net;
  AdamW optimizer({.lr = .1, .weight_decay = .1});
  GradientTape tape;
  tape.watch(net);
  optimizer.update(net, tape.gradient(loss_of(net), net));
  EXPECT_TRUE(same_bits(net.encoder.value, was.encoder.value));
  EXPECT_FALSE(same_bits(net.head, was.head));
}

// The average of a frozen part is that part.
TEST(Frozen, AveragesLeaveThem) {
  Net net;
  AdamW optimizer = with(ema(.5));
  run(Mode::kEager, net, optimizer, 3);
  etude::freeze(net, "encoder");
  run(Mode::kEager, net, optimizer, 3);
  const Net averaged = optimizer.averaged(net);
  EXPECT_TRUE(same_bits(averaged.encoder.value, net.encoder.value));
  EXPECT_FALSE(same_bits(averaged.head, net.head));
}

TEST(Frozen, LbfgsLeavesThem) {
  Net net;
  etude::freeze(net, "encoder");
  const Net was = net;
  const LBFGSResult result = lbfgs(net, loss_of, {.iterations = 6});
  EXPECT_GT(result.iterations, 2);
  EXPECT_LT(result.value, loss_of(was).item<float>());
  EXPECT_TRUE(same_bits(net.encoder.value, was.encoder.value));
  EXPECT_FALSE(same_bits(net.head, was.head));
}

// Wherever a walk of leaves looks, freeze() finds them.
struct Everywhere {
  std::tuple<Layer, Freezable<Layer>> both;
  std::optional<Freezable<Layer>> maybe = Freezable<Layer>();
  std::variant<Tensor, Freezable<Layer>> either = Freezable<Layer>();
  std::map<std::string, std::vector<Freezable<Layer>>> named{{"list", {{}, {}}}};
};

TEST(Frozen, TheyAreFoundInEveryContainer) {
  Everywhere model;
  EXPECT_EQ(etude::freeze(model, "named/list/1"), 1U);
  EXPECT_TRUE(model.named["list"][1].frozen);
  EXPECT_FALSE(model.named["list"][0].frozen);
  EXPECT_EQ(etude::unfreeze(model, "both/1"), 1U);
  EXPECT_EQ(etude::freeze(model), 5U);
  const Everywhere was = model;
  const auto loss = [](const Everywhere& m) {
    const Tensor x = ones({2, 3});
    const auto& list = m.named.at("list");
    const Freezable<Layer>& held = std::get<Freezable<Layer>>(m.either);
    return sum(std::get<0>(m.both)(
        std::get<1>(m.both).value(m.maybe->value(held.value(list[0].value(list[1].value(x)))))));
  };
  AdamW optimizer({.lr = .1, .weight_decay = .1});
  optimizer.update(model, gradient(loss, model));
  EXPECT_FALSE(same_bits(std::get<0>(model.both), std::get<0>(was.both)));
  EXPECT_TRUE(same_bits(std::get<1>(model.both).value, std::get<1>(was.both).value));
  EXPECT_TRUE(same_bits(model.maybe->value, was.maybe->value));
  EXPECT_TRUE(same_bits(std::get<1>(model.either).value, std::get<1>(was.either).value));
  for (const std::size_t i : {0, 1}) {
    EXPECT_TRUE(same_bits(model.named["list"][i].value, was.named.at("list")[i].value));
  }
}

// Forward mode goes along the tangents of the parts that move, each along its own.
template <class T>
struct Line {
  Freezable<T> slope;
  T start;
};
template <class T>
struct TensorLine {
  Freezable<Tensor> slope;
  Tensor start;
  Freezable<T> factor;
  T shift;
};

TEST(Frozen, ForwardModePassesOverThem) {
  Line<double> line{{3}, 4};
  etude::freeze(line);
  const auto f = [](const auto& l) { return l.slope * 10.0 + l.start * l.start; };
  tangent_t<Line<double>> along = zero_tangent(line);
  along[&Line<double>::slope] = 5;
  along[&Line<double>::start] = 1;
  EXPECT_EQ(jvp(f, line, along).second, 8.0);

  TensorLine<double> mixed{{Tensor({3.0})}, Tensor({4.0}), {5}, 6};
  etude::freeze(mixed);
  tangent_t<TensorLine<double>> t = zero_tangent(mixed);
  t[&TensorLine<double>::slope] = Tensor({100.0});
  t[&TensorLine<double>::start] = Tensor({1.0});
  t[&TensorLine<double>::factor] = 1000;
  t[&TensorLine<double>::shift] = 10;
  const auto g = [](const auto& m) {
    return sum((m.slope.value + m.start * m.start) * (m.factor.value + m.shift));
  };
  // (2 * 4 * 1) * 11 + (3 + 16) * 10
  EXPECT_EQ(jvp(g, mixed, t).second.template item<double>(), 278.0);
}

}  // namespace
}  // namespace etude::optim::frozen_test
