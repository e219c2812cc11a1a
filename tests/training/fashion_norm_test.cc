// SPDX-License-Identifier: Apache-2.0
// A convolutional model with BatchNorm on Fashion-MNIST: evaluated, it is as good as in its last
// epoch of training, whether fit trained it or a loop by hand.
#include <cstdio>

#include <gtest/gtest.h>

#include "etude/core/ambient.h"
#include "etude/data/epochs.h"
#include "etude/data/fashion_mnist.h"
#include "etude/nn/convolution.h"
#include "etude/nn/fit.h"
#include "etude/nn/layers.h"
#include "etude/nn/losses.h"
#include "etude/nn/norm.h"
#include "etude/nn/pooling.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/runtime/gradient.h"

namespace etude {
namespace {

constexpr std::int64_t kTrained = 8000, kEpochs = 3, kBatch = 32;

// With the default momentum of .99 the statistics have forgotten the start after the 750 batches of
// a run, and as the rate falls they catch up with the weights.
struct Net {
  nn::Conv2D conv1{3, 1, 8, {.strides = 2, .padding = "same", .bias = false}};
  nn::BatchNorm norm1{8};
  nn::Conv2D conv2{3, 8, 16, {.strides = 2, .padding = "same", .bias = false}};
  nn::BatchNorm norm2{16};
  nn::Dense output{7 * 7 * 16, 10};
  Tensor operator()(const Tensor& x) const {
    const Tensor h = nn::relu(norm2(conv2(nn::relu(norm1(conv1(x))))));
    return output(reshape(h, {h.shape()[0], -1}));
  }
};

const data::FashionMnist& images() {
  static const data::FashionMnist all = [] {
    data::FashionMnist out = data::fashion_mnist();
    out.train = data::slice_samples(out.train, 0, kTrained);
    out.test = data::slice_samples(out.test, 0, 4000);
    return out;
  }();
  return all;
}

struct Training {
  Net model;
  optim::Adam optimizer{{.lr = optim::cosine(3e-3, kEpochs* kTrained / kBatch)}};
  data::Epochs<data::Samples> data{images().train, {.batch = kBatch, .seed = 1}};
};
Training fresh() {
  set_seed(1);
  return {};
}

double accuracy_of(const Net& model, const data::Samples& samples) {
  return nn::evaluate(model, data::batches(samples, 500), nn::softmax_cross_entropy).accuracy;
}

// spec: L15, F1
TEST(FashionNorm, EvaluatesAsItTrained) {
  Training run = fresh();
  const nn::History history =
      nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, {.epochs = kEpochs});
  const double last = history.epochs.back().accuracy;
  const double seen = accuracy_of(run.model, images().train);
  const double unseen = accuracy_of(run.model, images().test);
  std::printf("accuracy %.4f while training, %.4f on its images, %.4f on others\n", last, seen,
              unseen);
  EXPECT_GT(last, 0.85);
  EXPECT_GT(seen, last - 0.01);
  EXPECT_GT(unseen, last - 0.05);  // of so few images some are learnt by heart

  Training hand = fresh();
  while (hand.data.position().epoch < kEpochs) {
    const auto batch = hand.data.next();
    const PhaseScope training(Phase::kTraining);
    const auto [loss, grads] = value_with_gradient(
        [&](const Net& m) { return nn::softmax_cross_entropy(m(batch.inputs), batch.labels); },
        hand.model);
    hand.optimizer.update(hand.model, grads);
  }
  EXPECT_TRUE(same_value(hand.model.norm1.running.value.mean, run.model.norm1.running.value.mean));
  EXPECT_EQ(accuracy_of(hand.model, images().train), seen);
}

}  // namespace
}  // namespace etude
