// SPDX-License-Identifier: Apache-2.0
// A hand-written loop without a phase causes one warning; a loop with a phase causes none.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/warning.h"
#include "etude/etude.h"
#include "tests/warnings.h"

namespace etude::phase_test {
namespace {

// The warnings about phases that f() causes.
template <class F>
std::vector<std::string> told_by(F&& f) {
  std::vector<std::string> told = tests::warnings_of(std::forward<F>(f));
  std::erase_if(told, [](const std::string& m) { return m.find("no phase was set") == m.npos; });
  return told;
}

struct Net {
  nn::Dense in{2, 4};
  nn::BatchNorm norm{4};
  nn::Dropout drop{0.5};
  nn::Dense out{4, 1};
  Tensor operator()(const Tensor& x) const { return out(drop(norm(in(x)))); }
};

const Tensor kInputs({{1.0, 2.0}, {3.0, -1.0}, {0.5, 0.0}});

Tensor loss(const Net& net) { return mean(square(net(kInputs))); }

void train(Net net, int steps = 3) {
  optim::SGD optimizer({.lr = 0.1});
  for (int i = 0; i < steps; ++i) optimizer.update(net, gradient(loss, net));
}

TEST(UnsetPhase, IsToldOnceWithTheNextStep) {
  const std::vector<std::string> told = told_by([] { train(Net()); });
  ASSERT_EQ(told.size(), 1u);
  for (const std::string_view part :
       {"BatchNorm: a gradient is taken", "no phase was set",
        "const PhaseScope training(Phase::kTraining);", "Phase::kInference", "phase_test.cc:"}) {
    EXPECT_NE(told[0].find(part), std::string::npos) << part << " is not in: " << told[0];
  }
}

TEST(UnsetPhase, IsToldOfEachKindOfLayer) {
  const auto slope = [](const auto& layer) {
    gradient([&](const Tensor& x) { return sum(layer(x)); }, ones({2, 3, 4}));
  };
  const auto expect_told = [&](std::string_view name, auto&& f) {
    const std::vector<std::string> told = told_by(f);
    ASSERT_EQ(told.size(), 1u) << name;
    EXPECT_EQ(told[0].substr(0, name.size() + 1), std::string(name) + ":");
  };
  expect_told("Dropout", [&] { slope(nn::Dropout(0.5)); });
  expect_told("GaussianNoise", [&] { slope(nn::GaussianNoise(0.5)); });
  expect_told("GaussianDropout", [&] { slope(nn::GaussianDropout(0.5)); });
  expect_told("AlphaDropout", [&] { slope(nn::AlphaDropout(0.5)); });
  expect_told("SpatialDropout", [&] { slope(nn::SpatialDropout(0.5)); });
  expect_told("StochasticDepth", [&] { slope(nn::StochasticDepth(0.5)); });
  expect_told("BatchNorm", [&] { slope(nn::BatchNorm(4)); });
  expect_told("SpectralNorm", [&] { slope(nn::SpectralNorm(nn::Dense(4, 4))); });
  expect_told("MultiHeadAttention", [&] { slope(nn::MultiHeadAttention(4, 2, {.dropout = 0.5})); });
}

TEST(UnsetPhase, IsToldInGraphsLazilyAndOnTapes) {
  EXPECT_EQ(told_by([] {
              const auto step = function([](Net& net, optim::SGD& optimizer) {
                optimizer.update(net, gradient(loss, net));
              });
              Net net;
              optim::SGD optimizer({.lr = 0.1});
              for (int i = 0; i < 3; ++i) step(net, optimizer);
            }).size(),
            1u);
  EXPECT_EQ(told_by([] {
              const LazyScope scope;
              train(Net());
            }).size(),
            1u);
  EXPECT_EQ(told_by([] {
              const Variable w(ones({2}));
              GradientTape tape;
              const Tensor y = sum(nn::Dropout(0.5)(w.read()));
              tape.gradient(y, w);
            }).size(),
            1u);
}

TEST(UnsetPhase, IsNotToldWhoHasSetOne) {
  EXPECT_TRUE(told_by([] {
                const PhaseScope training(Phase::kTraining);
                train(Net());
                {
                  const PhaseScope inference(Phase::kInference);
                  gradient(loss, Net());
                }
                gradient(loss, Net());
              }).empty());
  EXPECT_TRUE(told_by([] {
                const PhaseScope inference(Phase::kInference);
                gradient(loss, Net());
                gradient(
                    [](const Net& net) {
                      return recompute_grad([](const Net& n) { return loss(n); })(net);
                    },
                    Net());
              }).empty());
  EXPECT_FALSE(ambient().is_phase_set);
  EXPECT_TRUE(told_by([] {
                Net net;
                optim::SGD optimizer({.lr = 0.1});
                data::Loader epochs(data::Samples{kInputs, ones({3, 1})}, {.batch = 3});
                nn::fit(net, optimizer, epochs, nn::mean_squared_error, {.epochs = 2});
                static_cast<void>(nn::infer(net, kInputs));
              }).empty());
}

TEST(UnsetPhase, IsNotToldWhereItChangesNothing) {
  EXPECT_TRUE(told_by([] { Net()(kInputs); }).empty());            // no gradient
  EXPECT_TRUE(told_by([] { function(Net())(kInputs); }).empty());  // nor in a graph
  EXPECT_TRUE(told_by([] {
                gradient([](const Tensor& x) { return sum(nn::Dropout(0)(x)); }, kInputs);
                gradient([](const nn::Dense& m) { return sum(m(kInputs)); }, nn::Dense(2, 1));
                gradient([](const nn::LayerNorm& m) { return sum(m(kInputs)); }, nn::LayerNorm(2));
              }).empty());
}

}  // namespace
}  // namespace etude::phase_test
