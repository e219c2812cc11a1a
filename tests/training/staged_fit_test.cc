// SPDX-License-Identifier: Apache-2.0
// fit in all modes: the same weights, states, events and histories, bit for bit, also when a run
// is called off and goes on in another mode.
#include <cmath>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/data/loader.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/io/checkpoint/checkpoints.h"
#include "etude/nn/fit/fit.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/sgd.h"
#include "tests/temp_folder.h"

namespace etude::staged_fit_test {
namespace {

using nn::Mode;

struct Net {
  nn::BatchNorm input{3, {.momentum = 0.9}};
  nn::Dense hidden{3, 8, {.activation = nn::relu}};
  nn::Dropout dropout{0.2};
  nn::Dense output{8, 2};
  Tensor operator()(const Tensor& x) const { return output(dropout(hidden(input(x)))); }
};

data::Samples samples(int64_t n) {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < 3; ++k) {
      inputs.push_back(4 + std::sin(static_cast<float>(7 * i + 5 * k * k + i * k)));
    }
    labels.push_back(inputs[inputs.size() - 3] > 4 ? 1 : 0);
  }
  return {Tensor(inputs, {n, 3}), Tensor(labels)};
}

struct WithAdam {
  static optim::Adam make() {
    return optim::Adam({.lr = optim::warmup(5, optim::cosine(3e-2, 40))});
  }
};
struct WithMomentum {
  static optim::SGD make() {
    return optim::SGD({.lr = optim::step(0.1, 0.5, 9), .momentum = 0.9, .dampening = 0.1});
  }
};

// 75 samples: the last batch of an epoch is smaller.
template <class With>
struct Training {
  Net model;
  decltype(With::make()) optimizer = With::make();
  data::Loader<data::Samples> data{samples(75), {.batch = 8, .seed = 4, .keep_remainder = true}};

  nn::History fit(Mode mode, std::vector<nn::Callback> callbacks = {}) {
    return nn::fit(model, optimizer, data, nn::softmax_cross_entropy,
                   {.epochs = 3, .mode = mode, .callbacks = std::move(callbacks)});
  }
};
template <class With>
Training<With> fresh(uint64_t seed = 11) {
  set_seed(seed);
  return {};
}

template <class T>
void expect_equal(const T& a, const T& b) {
  const auto x = io::named_tensors(a.model), y = io::named_tensors(b.model);
  ASSERT_EQ(x.size(), y.size());
  for (const auto& [name, tensor] : x) EXPECT_TRUE(same_value(tensor, y.at(name))) << name;
  const optim::State s = a.optimizer.state(), t = b.optimizer.state();
  ASSERT_EQ(s.size(), t.size());
  for (const auto& [name, tensor] : s) EXPECT_TRUE(same_value(tensor, t.at(name))) << name;
}

template <class With>
struct StagedFit : testing::Test {};
using Optimizers = testing::Types<WithAdam, WithMomentum>;
TYPED_TEST_SUITE(StagedFit, Optimizers);

const nn::Callback kLooks = [](nn::Event, nn::FitState&) {};

// spec: F1.a
TYPED_TEST(StagedFit, GivesTheBitsOfEager) {
  auto eager = fresh<TypeParam>();
  const nn::History a = eager.fit(Mode::kEager);
  auto staged = fresh<TypeParam>();
  const nn::History b = staged.fit(Mode::kStaged);
  auto watched = fresh<TypeParam>();
  const nn::History c = watched.fit(Mode::kStaged, {kLooks});
  expect_equal(eager, staged);
  expect_equal(eager, watched);
  auto lazy = fresh<TypeParam>();
  EXPECT_EQ(a.batch_losses, lazy.fit(Mode::kLazy).batch_losses);
  auto lazily_watched = fresh<TypeParam>();
  EXPECT_EQ(a.batch_losses, lazily_watched.fit(Mode::kLazy, {kLooks}).batch_losses);
  expect_equal(eager, lazy);
  expect_equal(eager, lazily_watched);
  EXPECT_EQ(a.batch_losses, b.batch_losses);
  EXPECT_EQ(a.batch_losses, c.batch_losses);
  EXPECT_EQ(a.epochs.back().accuracy, b.epochs.back().accuracy);
  EXPECT_LT(a.epochs.back().loss, a.epochs.front().loss);
}

// spec: K3.c
TYPED_TEST(StagedFit, GoesOnInEitherModeBitForBit) {
  const internal::TempFolder folder;
  const auto path = folder.path() / "run.safetensors";
  auto whole = fresh<TypeParam>();
  whole.fit(Mode::kEager);
  for (const auto& [before, after] :
       {std::pair(Mode::kEager, Mode::kStaged), std::pair(Mode::kStaged, Mode::kEager),
        std::pair(Mode::kStaged, Mode::kStaged), std::pair(Mode::kLazy, Mode::kEager),
        std::pair(Mode::kStaged, Mode::kLazy)}) {
    for (const int stop : {1, 10, 17}) {
      auto first = fresh<TypeParam>();
      int left = stop;
      first.fit(before, {[&](nn::Event event, nn::FitState& state) {
                  if (event == nn::Event::kBatchEnd && --left == 0) state.cancel = nn::Cancel::kFit;
                }});
      io::save_checkpoint(path, first.model, first.optimizer, first.data);
      auto second = fresh<TypeParam>(999);  // everything comes from the file
      io::load_checkpoint(path, second.model, second.optimizer, second.data);
      second.fit(after);
      expect_equal(whole, second);
    }
  }
}

// A batch that is cancelled between inference and update changes nothing.
TYPED_TEST(StagedFit, ACancelledBatchChangesNothing) {
  for (const nn::Event at :
       {nn::Event::kBatchStart, nn::Event::kInferenceEnd, nn::Event::kUpdateStart}) {
    const auto run = [&](Mode mode) {
      auto training = fresh<TypeParam>();
      int batch = 0;
      training.fit(mode, {[&](nn::Event event, nn::FitState& state) {
                     if (event == nn::Event::kBatchStart) ++batch;
                     if (event != at || batch % 3 != 0) return;
                     state.cancel = batch < 12 ? nn::Cancel::kBatch : nn::Cancel::kFit;
                   }});
      return training;
    };
    const auto eager = run(Mode::kEager), staged = run(Mode::kStaged), lazy = run(Mode::kLazy);
    expect_equal(eager, staged);
    expect_equal(eager, lazy);
    EXPECT_EQ(staged.optimizer.updates(), 8);
    EXPECT_EQ(eager.data.position().step, staged.data.position().step);
  }
}

TYPED_TEST(StagedFit, CallbacksSeeTheModelBeforeTheUpdateUntilItIsDone) {
  auto run = fresh<TypeParam>();
  Tensor before;
  run.fit(Mode::kStaged, {[&](nn::Event event, nn::FitState&) {
            if (event == nn::Event::kBatchStart) before = run.model.output.weight;
            if (event == nn::Event::kUpdateStart) {
              EXPECT_TRUE(same_value(before, run.model.output.weight));
            }
            if (event == nn::Event::kBatchEnd) {
              EXPECT_FALSE(same_value(before, run.model.output.weight));
            }
          }});
}

// spec: F1.b
TYPED_TEST(StagedFit, EventsComeInTheOrderOfEager) {
  const auto order = [](Mode mode) {
    auto run = fresh<TypeParam>();
    std::string events;
    run.fit(mode, {[&](nn::Event event, nn::FitState& state) {
              events += "FfEeTtVvBbui"[static_cast<int>(event)];
              events += std::to_string(state.batch_loss);
            }});
    return events;
  };
  EXPECT_EQ(order(Mode::kEager), order(Mode::kStaged));
}

struct Refuses {
  nn::Dense dense{3, 2};
  bool refuses = false;
  Tensor operator()(const Tensor& x) const {
    if (refuses && sum(x) > 0.0F) return dense(x);
    return dense(x);
  }
};

TEST(StagedFitErrors, NameTheLineOfWhatCannotBeStaged) {
  Refuses model{.refuses = true};
  optim::SGD optimizer;
  data::Loader<data::Samples> data(samples(16), {.batch = 8});
  try {
    nn::fit(model, optimizer, data, nn::softmax_cross_entropy, {.mode = Mode::kStaged});
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("it has no elements before the function runs"), std::string::npos) << text;
    EXPECT_NE(text.find("staged_fit_test.cc"), std::string::npos) << text;
  }
  EXPECT_EQ(optimizer.updates(), 0);
}

}  // namespace
}  // namespace etude::staged_fit_test
