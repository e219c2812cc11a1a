// SPDX-License-Identifier: Apache-2.0
// Hand-written training loops: the number of compiles, the memory, and equality with eager bits.
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/lazy_options.h"

namespace etude::training_test {
namespace {

struct Net {
  nn::Dense hidden{64, 128, {.activation = nn::relu}};
  nn::Dense output{128, 10};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

struct Batch {
  Tensor inputs, labels;
};
Batch batch(uint64_t seed, int64_t n = 32) {
  const SeedScope scope(seed);
  return {random::normal({n, 64}), astype(random::uniform({n}) * 9.99F, kInt32)};
}

Tensor loss_of(const Net& net, const Batch& b) {
  return nn::softmax_cross_entropy(net(b.inputs), b.labels);
}

template <class Optimizer>
Tensor train_step(Net& net, Optimizer& optimizer, const Batch& b) {
  auto [loss, grads] = value_with_gradient([&](const Net& n) { return loss_of(n, b); }, net);
  optimizer.update(net, grads);
  return loss;
}

Net fresh_net() {
  const SeedScope seed(1);
  return {};
}

// spec: Z51.a
TEST(LazyTraining, SchedulesOfRatesCompileNothing) {
  const auto run = [](bool lazily) {
    Net net = fresh_net();
    // From 0 up to 1, and down to nearly 0.
    optim::AdamW optimizer({.lr = optim::warmup(100, optim::cosine(1.0, 1000))});
    const Batch b = batch(2, 4);
    std::optional<LazyScope> lazy;
    if (lazily) lazy.emplace();
    const LazyMetrics metrics;
    int64_t early = 0;
    for (int i = 0; i < 1000; ++i) {
      train_step(net, optimizer, b);
      lazy_barrier();
      if (i == 2) early = metrics.counts().compiles;
    }
    EXPECT_EQ(metrics.counts().compiles, early) << metrics.to_string();
    EXPECT_LE(early, 3);
    return net;
  };
  const Net want = run(false), found = run(true);
  EXPECT_TRUE(same_value(want.output.weight, found.output.weight));
}

// spec: Z42.a, Z12.b
TEST(LazyTraining, TrainingAndEvaluationInTurn) {
  Net net = fresh_net();
  optim::SGD optimizer({.lr = 0.05});
  const LazyScope lazy;
  const auto epoch = [&](uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      const StepScope step;
      EXPECT_GT(train_step(net, optimizer, batch(i)).item<float>(), 0.0F);
      EXPECT_GT(loss_of(net, batch(100 + i)).item<float>(), 0.0F);
    }
  };
  epoch(3);
  const LazyMetrics metrics;
  epoch(20);
  EXPECT_EQ(metrics.counts().compiles, 0) << metrics.to_string();
}

// spec: Z52.a
TEST(LazyTraining, GradientsOfManyBatchesAddUp) {
  const Net net = fresh_net();
  const auto sum_of_gradients = [&] {
    std::optional<Tensor> total;
    for (uint64_t i = 0; i < 64; ++i) {
      const Batch b = batch(i, 8);
      const Tensor g = gradient(
          [&](const Tensor& w) {
            return mean(square(matmul(nn::relu(matmul(b.inputs, w)), net.output.weight)));
          },
          net.hidden.weight);
      total = total ? *total + g : g;
    }
    return *total;
  };
  const Tensor want = sum_of_gradients();
  const ChangedLazyOptions options([](LazyOptions& o) { o.max_nodes = 200; });
  {
    const LazyScope lazy;
    const LazyMetrics metrics;
    const MemoryScope memory;
    const Tensor found = sum_of_gradients();
    EXPECT_TRUE(same_value(found, want));
    EXPECT_GE(metrics.counts().automatic_cuts, 3);
    EXPECT_LE(metrics.counts().compiles, 4) << metrics.to_string();
    EXPECT_LT(memory.stats().peak_bytes, 8 << 20);
  }
}

// spec: Z51.b
TEST(LazyTraining, ClippingCompilesNothing) {
  Net net = fresh_net();
  optim::AdamW optimizer({.lr = optim::warmup(20, optim::cosine(1.0, 200)), .weight_decay = 0.1});
  optimizer.add(optim::clip_by_global_norm(0.5));
  const Batch b = batch(2, 4);
  const LazyScope lazy;
  const LazyMetrics metrics;
  int64_t early = 0;
  for (int i = 0; i < 220; ++i) {
    train_step(net, optimizer, b);
    lazy_barrier();
    if (i == 2) early = metrics.counts().compiles;
  }
  EXPECT_EQ(metrics.counts().compiles, early) << metrics.to_string();
}

// spec: Z52.b
TEST(LazyTraining, ManyBatchesAreOneLargeOne) {
  const Net net = fresh_net();
  const auto slope_of = [&](const Batch& b) {
    return gradient([&](const Net& n) { return loss_of(n, b); }, net)[&Net::output].weight;
  };
  std::vector<Tensor> inputs, labels;
  for (uint64_t i = 0; i < 64; ++i) {
    const Batch b = batch(i, 8);
    inputs.push_back(b.inputs);
    labels.push_back(b.labels);
  }
  const Tensor want = slope_of({concat(inputs), concat(labels)});
  const LazyScope lazy;
  Tensor total = zeros_like(want);
  for (uint64_t i = 0; i < 64; ++i) total += slope_of(batch(i, 8));
  EXPECT_LT(max(abs(total / 64.0F - want)).item<float>(), 1e-6F);
}

}  // namespace
}  // namespace etude::training_test
