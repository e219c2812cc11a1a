// SPDX-License-Identifier: Apache-2.0
// A model with BatchNorm predicts as well as it was trained, with no line by its user: the running
// statistics move with fit, with loops by hand, and through checkpoints.
#include <cmath>

#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/core/context/ambient.h"
#include "etude/data/loader.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/nn/fit/fit.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/losses/losses.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/sgd.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

struct Net {
  nn::BatchNorm input{3, {.momentum = 0.9}};
  nn::Dense hidden{3, 16};
  nn::BatchNorm norm{16, {.momentum = 0.9}};
  nn::Dense output{16, 2};
  Tensor operator()(const Tensor& x) const { return output(nn::relu(norm(hidden(input(x))))); }
};

// Far from mean 0 and variance 1. The class is whether the first number is above its mean.
data::Samples samples(int64_t n) {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < 3; ++k) {
      inputs.push_back(40 + 9 * std::sin(static_cast<float>(7 * i + 5 * k * k + i * k)));
    }
    labels.push_back(inputs[inputs.size() - 3] > 40 ? 1 : 0);
  }
  return {Tensor(inputs, {n, 3}), Tensor(labels)};
}

struct Training {
  Net model;
  optim::Adam optimizer{{.lr = 1e-2}};
  data::Loader<data::Samples> data{samples(320), {.batch = 32, .seed = 4}};
};
Training fresh() {
  set_seed(11);
  return {};
}
nn::Evaluation evaluated(const Net& model) {
  return nn::evaluate(model, data::batches(samples(320), 64), nn::softmax_cross_entropy);
}

void expect_equal(const Net& a, const Net& b) {
  const auto equal = [](const nn::BatchNorm& x, const nn::BatchNorm& y) {
    EXPECT_TRUE(same_value(x.running.value.mean, y.running.value.mean));
    EXPECT_TRUE(same_value(x.running.value.variance, y.running.value.variance));
    EXPECT_TRUE(same_value(x.scale, y.scale));
  };
  equal(a.input, b.input);
  equal(a.norm, b.norm);
  EXPECT_TRUE(same_value(a.output.weight, b.output.weight));
}

TEST(BatchNormTraining, FitEvaluatesAsItTrained) {
  Training run = fresh();
  const nn::History history =
      nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, {.epochs = 6});
  EXPECT_GT(history.epochs.back().accuracy, 0.9);
  EXPECT_GT(evaluated(run.model).accuracy, 0.9);
  EXPECT_NEAR(evaluated(run.model).loss, history.epochs.back().loss, 0.1);
}

// Two epochs by hand; apply(model, gradients) is the update.
template <class Apply>
void train_by_hand(Training& run, const Apply& apply) {
  while (run.data.position().epoch < 2) {
    const auto batch = run.data.next();
    const PhaseScope training(Phase::kTraining);
    const auto [loss, grads] = value_with_gradient(
        [&](const Net& m) { return nn::softmax_cross_entropy(m(batch.inputs), batch.labels); },
        run.model);
    apply(run.model, grads);
  }
}

TEST(BatchNormTraining, LoopsByHandGiveTheSame) {
  Training run = fresh(), hand = fresh(), moved = fresh();
  nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, {.epochs = 2});
  train_by_hand(hand, [&](Net& m, const auto& grads) { hand.optimizer.update(m, grads); });
  expect_equal(run.model, hand.model);
  train_by_hand(moved, [](Net& m, const auto& grads) { move(m, -0.1 * grads); });
  // Statistics of the input do not depend on the parameters.
  EXPECT_TRUE(same_value(run.model.input.running.value.mean, moved.model.input.running.value.mean));
  EXPECT_GT(evaluated(moved.model).accuracy, 0.7);
}

TEST(BatchNormTraining, StatisticsFollowTheFormula) {
  Training run = fresh();
  data::Loader<data::Samples> again = run.data;
  nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, {.epochs = 2});
  std::vector<double> mean(3, 0), variance(3, 1);
  while (again.position().epoch < 2) {
    const std::vector<double> x = again.next().inputs.to_vector<double>();
    const std::size_t n = x.size() / 3;
    for (std::size_t k = 0; k < 3; ++k) {
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < n; ++i) sum += x[3 * i + k];
      const double m = sum / static_cast<double>(n);
      for (std::size_t i = 0; i < n; ++i) squares += (x[3 * i + k] - m) * (x[3 * i + k] - m);
      mean[k] += (m - mean[k]) * 0.1;
      variance[k] += (squares / static_cast<double>(n) - variance[k]) * 0.1;
    }
  }
  const nn::BatchStatistics& running = run.model.input.running.value;
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_NEAR(running.mean.to_vector<double>()[k], mean[k], 1e-3);
    EXPECT_NEAR(running.variance.to_vector<double>()[k], variance[k], 1e-2);
  }
}

template <class Optimizer>
void check_optimizer() {
  Net model;
  const data::Samples batch = samples(32);
  const PhaseScope training(Phase::kTraining);
  const auto grads = gradient(
      [&](const Net& m) { return nn::softmax_cross_entropy(m(batch.inputs), batch.labels); },
      model);
  Optimizer optimizer;
  optimizer.update(model, grads);
  EXPECT_TRUE(same_value(model.norm.running.value.mean, grads[&Net::norm].running.value->mean));
  EXPECT_GT(model.input.running.value.mean.to_vector<double>()[0], 3);
}
TEST(BatchNormTraining, EveryOptimiserMovesTheState) {
  check_optimizer<optim::SGD>();
  check_optimizer<optim::AdamW>();
  check_optimizer<optim::Lion>();
}

TEST(BatchNormTraining, CheckpointsGoOnBitForBit) {
  const internal::TempFolder folder;
  const std::string file = (folder.path() / "checkpoint").string();
  Training whole = fresh(), part = fresh();
  const auto epochs = [](Training& run, int64_t n) {
    nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy,
            {.epochs = n, .prolong = true});
  };
  epochs(whole, 4);
  epochs(part, 2);
  io::save_checkpoint(file, part.model, part.optimizer, part.data);
  Training resumed = fresh();
  io::load_checkpoint(file, resumed.model, resumed.optimizer, resumed.data);
  expect_equal(part.model, resumed.model);
  epochs(resumed, 4);
  expect_equal(whole.model, resumed.model);
}

// spec: V30.a, V30.b, V57.a
TEST(BatchNormTraining, ACopyThatIsTrainedLeavesTheOriginal) {
  Training training = fresh();
  nn::fit(training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
          {.epochs = 1});
  const Net original = training.model;
  const Tensor x = samples(32).inputs, before = original(x) * 1.0F;
  const Tensor mean = original.norm.running.value.mean * 1.0F;
  nn::fit(training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
          {.epochs = 3});
  EXPECT_TRUE(same_value(original(x), before));
  EXPECT_TRUE(same_value(original.norm.running.value.mean, mean));
  EXPECT_FALSE(same_value(training.model(x), before));
  EXPECT_FALSE(same_value(training.model.norm.running.value.mean, mean));
}

// spec: V32.b, V32.c
TEST(BatchNormTraining, AssignmentRollsBackModelAndOptimiser) {
  Training training = fresh();
  const auto fit_to = [&](int64_t epochs) {
    nn::fit(training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
            {.epochs = epochs});
  };
  fit_to(1);
  const MemoryScope scope;
  const Net saved = training.model;
  const optim::Adam saved_optimizer = training.optimizer;
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_EQ(scope.stats().live_tensors, 0);
  const data::Position position = training.data.position();
  fit_to(3);
  const Net trained = training.model;
  EXPECT_FALSE(same_value(trained.hidden.weight, saved.hidden.weight));
  training.model = saved;
  training.optimizer = saved_optimizer;
  training.data.seek(position);
  EXPECT_TRUE(same_value(training.model.hidden.weight, saved.hidden.weight));
  fit_to(3);
  expect_equal(training.model, trained);
}

}  // namespace
}  // namespace etude
