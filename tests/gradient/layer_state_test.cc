// SPDX-License-Identifier: Apache-2.0
// State of layers: a state update of the training phase reaches the trained model once, in every
// mode and through every structure; a warning names state that is not taken.
#include "etude/diff/layer_state.h"

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/gradient.h"
#include "etude/base/warning.h"
#include "etude/core/context/ambient.h"
#include "etude/diff/custom_gradient.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/layers/sequential.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/optim/sgd.h"
#include "tests/gradient/expect.h"
#include "tests/warnings.h"

namespace etude::layer_state_test {
namespace {

using nn::BatchNorm;
using tests::expect_error;
using tests::expect_values;

// Counts its calls in the training phase.
struct Counted {
  Tensor w = Tensor({2.0F});
  LayerState<Tensor> calls = Tensor(0.0F);
  Tensor operator()(const Tensor& x) const {
    if (is_training()) {
      update_state(calls, "Counted", [](const Tensor& n) { return n + 1.0F; });
    }
    return x * w;
  }
  double count() const { return calls.value.item<double>(); }
};
struct Block {
  Counted inner;
  Tensor operator()(const Tensor& x) const { return inner(x); }
};
struct Net {
  Counted first;
  std::vector<Block> list = std::vector<Block>(2);
  std::map<std::string, Block> map = {{"a", {}}};
  std::optional<Counted> maybe = Counted();
  std::variant<Counted, Tensor> either = Counted();
  nn::Sequential<Counted, Counted> sequence{Counted(), Counted()};
  Freezable<Counted> freezable;
  Tensor operator()(const Tensor& x) const {
    Tensor y = freezable.value(sequence(std::get<Counted>(either)((*maybe)(first(x)))));
    for (const Block& b : list) y = b(y);
    return map.at("a")(y);
  }
};

const Tensor kX = Tensor({3.0F});
Tensor loss_of(const Net& net) { return sum(net(kX)); }

std::vector<double> counts(const Net& n) {
  return {n.first.count(),
          n.list[0].inner.count(),
          n.list[1].inner.count(),
          n.map.at("a").inner.count(),
          n.maybe->count(),
          std::get<Counted>(n.either).count(),
          n.sequence.get<0>().count(),
          n.sequence.get<1>().count(),
          n.freezable.value.count()};
}
const std::vector<double> kOnce(9, 1), kTwice(9, 2), kNever(9, 0);

TEST(LayerState, MovesThroughEveryStructure) {
  const tests::Warnings warnings;
  Net net;
  const PhaseScope training(Phase::kTraining);
  const auto grads = value_with_gradient(loss_of, net).second;
  EXPECT_EQ(counts(net), kNever);  // the gradient holds it
  EXPECT_EQ(grads[&Net::first][&Counted::calls].value->item<double>(), 1);
  move(net, -0.1 * grads);
  EXPECT_EQ(counts(net), kOnce);
  optim::SGD optimizer;
  optimizer.update(net, gradient(loss_of, net));
  EXPECT_EQ(counts(net), kTwice);
  {
    const PhaseScope inference(Phase::kInference);
    move(net, gradient(loss_of, net));
  }
  EXPECT_EQ(counts(net), kTwice);
  EXPECT_TRUE(warnings.told.empty());
}

TEST(LayerState, StagedGradientsHandItOut) {
  const tests::Warnings warnings;
  Net net;
  const PhaseScope training(Phase::kTraining);
  const auto slopes = function([](const Net& n) { return gradient(loss_of, n); });
  const auto moved_by = function([](const Net& n, const decltype(slopes(net))& by) {
    Net moved = n;
    move(moved, by);  // a tangent is an argument, too
    return moved;
  });
  move(net, slopes(net));
  EXPECT_EQ(counts(net), kOnce);
  net = moved_by(net, slopes(net));
  EXPECT_EQ(counts(net), kTwice);
  EXPECT_TRUE(warnings.told.empty());
}

TEST(LayerState, PullbacksAndTapesHandItBack) {
  const tests::Warnings warnings;
  Net net;
  const PhaseScope training(Phase::kTraining);
  const auto [y, pull] = value_with_pullback([](const Net& n) { return n(kX); }, net);
  move(net, pull(ones({1})));
  EXPECT_EQ(counts(net), kOnce);
  GradientTape tape;
  tape.watch(net);
  move(net, tape.gradient(loss_of(net), net));
  EXPECT_EQ(counts(net), kTwice);
  net = Net();
  move(net, vjp([](const Net& n) { return n(kX); }, net, ones({1})).second);
  EXPECT_EQ(counts(net), kOnce);
  EXPECT_TRUE(warnings.told.empty());
}

TEST(LayerState, FollowsCopiesWithinTheFunction) {
  Net net;
  const PhaseScope training(Phase::kTraining);
  move(net, gradient([](Net copy) { return loss_of(copy); }, net));
  EXPECT_EQ(counts(net), kOnce);
}

TEST(LayerState, ASharedLayerAnnouncesEachCall) {
  Counted layer;
  const PhaseScope training(Phase::kTraining);
  const auto grads = gradient([](const Counted& c) { return sum(c(c(c(kX)))); }, layer);
  move(layer, grads);
  EXPECT_EQ(layer.count(), 3);
}

TEST(LayerState, SumsKeepTheLater) {
  Counted layer;
  const PhaseScope training(Phase::kTraining);
  const auto f = [](const Counted& c) { return sum(c(kX)); };
  auto grads = gradient(f, layer);
  grads += zero_tangent(layer);  // without a state update
  EXPECT_EQ(grads[&Counted::calls].value->item<double>(), 1);
  grads += gradient([](const Counted& c) { return sum(c(c(kX))); }, layer);
  EXPECT_EQ((grads * 0.5)[&Counted::calls].value->item<double>(), 2);
}

TEST(LayerState, FrozenLayersKeepTheirs) {
  const tests::Warnings warnings;
  Net net;
  EXPECT_EQ(freeze(net, "freezable"), 1u);
  const PhaseScope training(Phase::kTraining);
  move(net, gradient(loss_of, net));
  std::vector<double> want = kOnce;
  want.back() = 0;
  EXPECT_EQ(counts(net), want);
  EXPECT_TRUE(warnings.told.empty());
}

// A tape identifies layers by their address; the state update of a frozen layer is dropped
// without a warning.
TEST(LayerState, TapesDropWhatFrozenLayersAnnounce) {
  const tests::Warnings warnings;
  Net net;
  EXPECT_EQ(freeze(net, "freezable"), 1u);
  const PhaseScope training(Phase::kTraining);
  {
    GradientTape tape;
    tape.watch(net);
    move(net, tape.gradient(loss_of(net), net));
  }
  std::vector<double> want = kOnce;
  want.back() = 0;
  EXPECT_EQ(counts(net), want);
  EXPECT_TRUE(warnings.told.empty());
}

TEST(LayerState, NestedDerivativesHandItOn) {
  const tests::Warnings warnings;
  Net net;
  const PhaseScope training(Phase::kTraining);
  move(net, hvp(loss_of, net, zero_tangent(net)));
  EXPECT_EQ(counts(net), kOnce);
  net = Net();
  move(net, gradient([](const Net& n) { return norm(gradient(loss_of, n)); }, net));
  EXPECT_EQ(counts(net), kOnce);
  net = Net();  // an inner step, and a call of its result
  move(net, gradient(
                [](const Net& n) {
                  Net adapted = n;
                  move(adapted, -0.01 * gradient(loss_of, n));
                  return loss_of(adapted);
                },
                net));
  EXPECT_EQ(counts(net), kTwice);
  net = Net();
  const auto outer = [](const Net& n) {
    return sum(hvp(loss_of, n, gradient(loss_of, n))[&Net::first][&Counted::w]);
  };
  move(net, gradient([&](const Net& n) { return outer(n); }, net));
  EXPECT_EQ(counts(net), kTwice);
  EXPECT_TRUE(warnings.told.empty());
}

TEST(LayerState, RecomputedCallsAnnounceOnce) {
  const tests::Warnings warnings;  // below, the captured model has no gradient
  Net net;
  const PhaseScope training(Phase::kTraining);
  move(net, gradient([](const Net& n) { return recompute_grad(loss_of)(n); }, net));
  EXPECT_EQ(counts(net), kOnce);
  net = Net();
  move(net, gradient(
                [](const Net& n) {
                  return recompute_grad([&n](const Tensor& x) { return sum(n(x)); })(kX * 1.0F);
                },
                net));
  EXPECT_EQ(counts(net), kOnce);
}

// Its result shows its state after each call.
struct Telling {
  Counted layer;
  // Trains a copy by one step, and adds the state of the copy to the result.
  Tensor operator()(const Tensor& x) const {
    Telling trained = *this;
    const auto loss = [&](const Telling& t) { return sum(t.layer(x) * x); };
    move(trained, gradient(loss, trained));
    return trained.layer.w * x + trained.layer.calls.value * x * x;
  }
};

// spec: D30
TEST(LayerState, ModelsTrainedInASecondRunMove) {
  const PhaseScope training(Phase::kTraining);
  const auto slope = [](const Tensor& x) {
    return gradient([](const Tensor& t) { return sum(recompute_grad(Telling())(t)); }, x);
  };
  const std::vector<double> want = {35};  // of (2 + x^2) x + x^2
  expect_values(slope(kX), want);
  expect_values(function(slope)(kX), want);
  const LazyScope lazy;
  expect_values(slope(kX), want);
}

TEST(LayerState, ASecondRunGoesOnFromWhereTheFirstDid) {
  const PhaseScope training(Phase::kTraining);
  const auto trains = recompute_grad([](const Telling& t, const Tensor& x) {
    const Tensor y = t.layer(x);  // the second call
    return t(y);                  // the third
  });
  const auto loss = [&](const Telling& t, const Tensor& x) {
    const Tensor y = trains(t, t.layer(x));
    return sum(t.layer(y));  // the fourth
  };
  const auto plain = [](const Telling& t, const Tensor& x) {
    const Tensor y = t.layer(t.layer(x));
    return sum(t.layer(t(y)));
  };
  // How often the layer was called, its slope, and the slope without second runs.
  const auto all = [&] {
    const Telling t;
    const auto found = gradient([&](const Telling& at) { return loss(at, kX); }, t);
    const auto want = gradient([&](const Telling& at) { return plain(at, kX); }, t);
    const auto layer = &Telling::layer;
    return std::tuple(*found[layer][&Counted::calls].value, found[layer][&Counted::w],
                      want[layer][&Counted::w]);
  };
  const auto check = [](const auto& run) {
    const auto [count, slope, want] = run();
    EXPECT_EQ(count.template item<double>(), 4);
    EXPECT_TRUE(same_value(slope, want));
  };
  check(all);
  check(function(all));
  {
    const LazyScope lazy;
    check(all);
  }
  // A tape identifies layers by their address. It gets the state of the first run.
  Telling t;
  GradientTape tape;
  tape.watch(t);
  const Tensor value = loss(t, kX);
  move(t, tape.gradient(value, t));
  EXPECT_EQ(t.layer.count(), 3);  // not the copy that an inner operator moved
}

TEST(LayerState, VmapsMoveBatchesOfModels) {
  const tests::Warnings warnings;
  struct Scaled {
    Tensor w;
    LayerState<Tensor> peak;
    Tensor operator()(const Tensor& x) const {
      if (is_training())
        update_state(peak, "Scaled", [&](const Tensor& p) { return maximum(p, x); });
      return x * w;
    }
  };
  const PhaseScope training(Phase::kTraining);
  const auto step = [](const Scaled& m, const Tensor& x) {
    Scaled out = m;
    move(out, -0.1 * gradient([&](const Scaled& s) { return s(x); }, m));
    return out;
  };
  const Scaled ensemble{{1.0F, 2.0F}, Tensor({5.0F, 5.0F})};
  const Scaled moved = vmap(step)(ensemble, Tensor({3.0F, 7.0F}));
  expect_values(moved.peak.value, {5, 7});
  expect_values(moved.w, {.7, 1.3});
  // Per-example gradients of one model: the examples have different next states.
  const Scaled one{1.0F, Tensor(5.0F)};
  const auto each = vmap([&](const Tensor& x) {
    return gradient([&](const Scaled& s) { return s(x); }, one);
  })(Tensor({3.0F, 7.0F}));
  expect_values(each[&Scaled::w], {3, 7});
  expect_values(*each[&Scaled::peak].value, {5, 7});
  Scaled cannot = one;
  auto state_only = zero_tangent(one);
  state_only[&Scaled::peak] = each[&Scaled::peak];
  expect_error([&] { move(cannot, state_only); }, ErrorCode::kInvalidArgument,
               {"new state of a layer is float32[2], but the layer has float32[]"});
  expect_error(
      [&] {
        gradient(
            [](const Scaled& s) {
              return sum(vmap([&](const Tensor& x) { return s(x); })(Tensor({3.0F, 7.0F})));
            },
            one);
      },
      ErrorCode::kInvalidArgument,
      {"inside a vmap a layer has another new state for each example",
       "take the gradient inside the vmap"});
  // An inner gradient takes the state of each example, and cannot hand it on.
  expect_error(
      [&] {
        gradient(
            [](const Scaled& s) {
              return sum(vmap([&](const Tensor& x) {
                return gradient([&](const Scaled& t) { return t(x); }, s)[&Scaled::w];
              })(Tensor({3.0F, 7.0F})));
            },
            one);
      },
      ErrorCode::kInvalidArgument,
      {"inside a vmap a layer has another new state for each example"});
  EXPECT_TRUE(warnings.told.empty());
}

TEST(LayerState, WhatNobodyTakesIsToldOnce) {
  const tests::Warnings warnings;
  const Net net;
  const Counted alone;
  const PhaseScope training(Phase::kTraining);
  const auto expect_told = [&](std::vector<std::string_view> texts) {
    ASSERT_EQ(warnings.told.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(warnings.told[i].find(texts[i]), 0u) << warnings.told[i];
    }
  };
  for (int i = 0; i < 2; ++i) alone(kX);
  expect_told(
      {"Counted: its state, such as running statistics, does not change, since no gradient "
       "took the new state of the layer. Pass the model to "
       "value_with_gradient or pullback as an argument, and its gradient to "
       "optimizer.update or move; or run it in the inference phase\n  at "});
  for (int i = 0; i < 2; ++i) jvp([](const Block& b) { return b(kX); }, net.list[0], {});
  expect_told({"Counted: ", "inner (Counted): its state"});
  nn::summary(alone, {4, 1});  // trains nothing
  expect_told({"Counted: ", "inner (Counted): its state"});
  internal::forget_warnings();
  {
    GradientTape tape;
    tape.watch(net);
    tape.watch(kX);
    tape.gradient(alone(kX), kX);
  }
  expect_told({"Counted: ", "inner (Counted): its state", "Counted: its state"});
}

// Numbers and tensors in one model.
template <class T>
struct Mixed {
  Tensor w;
  LayerState<Tensor> calls;
  T gain;
  Freezable<Counted> frozen;
  Counted last;
};
TEST(LayerState, MovesInModelsWithNumbers) {
  Mixed<double> model{{2.0F}, Tensor(0.0F), 3.0, {{}, true}, {}};
  const PhaseScope training(Phase::kTraining);
  const auto f = [](const auto& m) {
    update_state(m.calls, "Mixed", [](const Tensor& n) { return n + 1.0F; });
    return sum(m.last(m.frozen.value(m.w)) * m.gain);
  };
  move(model, gradient(f, model));
  EXPECT_EQ(model.calls.value.item<double>(), 1);
  EXPECT_EQ(model.frozen.value.count(), 0);
  EXPECT_EQ(model.last.count(), 1);
  move(model, pullback(f, model)(Tensor(1.0F)));
  EXPECT_EQ(model.calls.value.item<double>(), 2);
}

TEST(BatchNorm, AnnouncesTheFormula) {  // spec: L15
  BatchNorm norm(2);
  const Tensor x = Tensor({{1.0F, 2.0F}, {3.0F, 4.0F}});
  {
    const PhaseScope training(Phase::kTraining);
    const auto grads = gradient([&](const BatchNorm& n) { return sum(n(x)); }, norm);
    move(norm, grads);
    expect_values(norm.running.value.mean, {.02, .03});
    expect_values(norm.running.value.variance, {1, 1});
    nn::BatchStatistics beside = norm.running.value;
    norm.train(x, beside);  // the same step on separate statistics, bit for bit
    const auto twice = gradient([&](const BatchNorm& n) { return sum(n(x)); }, norm);
    EXPECT_TRUE(same_value(twice.running.value->mean, beside.mean));
    EXPECT_TRUE(same_value(twice.running.value->variance, beside.variance));
  }
}

}  // namespace
}  // namespace etude::layer_state_test
