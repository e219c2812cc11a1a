// SPDX-License-Identifier: Apache-2.0
// Segments that differ in sizes: how many programs they need, and the bits of eager calls.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/lazy_options.h"

namespace etude::sizes_test {
namespace {

struct Net {
  nn::Dense hidden{12, 20, {.activation = nn::relu}};
  nn::Dense output{20, 5};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

Net fresh_net() {
  const SeedScope seed(1);
  return {};
}

Tensor loss_of(const Net& net, int64_t n) {
  const SeedScope seed(static_cast<uint64_t>(n));
  const Tensor x = random::normal({n, 12});
  const Tensor labels = astype(random::uniform({n}) * 4.99F, kInt32);
  return nn::softmax_cross_entropy(net(x), labels);
}

float train_step(Net& net, optim::Adam& optimizer, int64_t n) {
  const auto [loss, grads] = value_with_gradient([&](const Net& m) { return loss_of(m, n); }, net);
  optimizer.update(net, grads);
  lazy_barrier();
  return loss.item<float>();
}

// The number of compiles of each step, for steps of these sizes; expects the losses of eager steps.
std::vector<int64_t> compiles_of_training(const std::vector<int64_t>& sizes) {
  forget_lazy_programs();
  Net eager = fresh_net(), net = eager;
  optim::Adam eager_optimizer({.lr = 0.01}), optimizer({.lr = 0.01});
  std::vector<float> want;
  for (const int64_t n : sizes) want.push_back(train_step(eager, eager_optimizer, n));
  std::vector<int64_t> out;
  const LazyScope lazy;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const LazyMetrics metrics;
    EXPECT_EQ(train_step(net, optimizer, sizes[i]), want[i]) << "step " << i;
    EXPECT_EQ(metrics.counts().fallbacks, 0);
    out.push_back(metrics.counts().compiles);
  }
  EXPECT_TRUE(same_value(net.hidden.weight, eager.hidden.weight));
  return out;
}

int64_t sum_from(const std::vector<int64_t>& counts, std::size_t first) {
  return std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(first), counts.end(),
                         int64_t{0});
}

// spec: Z11, Z50.a
TEST(LazySizes, ALastBatchIsOneMoreProgramAndServesAllSizes) {
  // The first two steps make the state of the optimiser.
  const std::vector<int64_t> counts =
      compiles_of_training({128, 128, 128, 80, 128, 80, 64, 100, 3, 2, 127, 128});
  EXPECT_EQ(counts[2], 0);
  EXPECT_LE(counts[3], 1);
  EXPECT_EQ(sum_from(counts, 4), 0);
}

// spec: Z50.b, Z56
TEST(LazySizes, BatchSizesAtRandom) {
  std::mt19937 random(5);
  std::vector<int64_t> sizes = {64, 64, 33};
  for (int i = 0; i < 100; ++i) sizes.push_back(1 + static_cast<int64_t>(random() % 64));
  EXPECT_LE(sum_from(compiles_of_training(sizes), 3), 2);  // one of them for a size of 1
}

TEST(LazySizes, LengthsOfSequences) {
  forget_lazy_programs();
  const Tensor w = full({8, 8}, 0.1F), start = full({1, 8}, 0.5F);
  const auto attention = [&](int64_t length) {
    const Tensor x = broadcast_to(start, {length, 8}) * (1.0F / static_cast<float>(length));
    const Tensor scores = nn::softmax(matmul(x, w) * 0.35F, {.axis = 1});
    return sum(matmul(matmul(scores, x, {.transpose_y = true}), x)).item<float>();
  };
  std::vector<float> want;
  for (int64_t n = 1; n <= 200; ++n) want.push_back(attention(n));
  const LazyScope lazy;
  const LazyMetrics metrics;
  for (int64_t n = 1; n <= 200; ++n) {
    EXPECT_EQ(attention(n), want[static_cast<std::size_t>(n - 1)]) << n;
  }
  EXPECT_LE(metrics.counts().compiles, 3) << metrics.to_string();  // a length of 1 has its own
  EXPECT_GE(metrics.counts().symbolic_hits, 197);
}

// spec: Z50.d
TEST(LazySizes, BeamsThatGrow) {
  forget_lazy_programs();
  const Tensor table = Tensor({0.1, 0.7, 0.3, 0.9, 0.2, 0.4}),
               first = zeros({5, 1}, {.dtype = kInt32});
  const auto search = [&] {
    Tensor beams = first;  // the tokens so far
    for (int i = 0; i < 12; ++i) {
      const Tensor scores = sum(take(table, beams, {.axis = 0}), {.axis = 1});
      const Tensor token = astype(scores * 3.0F, kInt32) - astype(scores * 3.0F, kInt32) + 1;
      beams = concat({beams, expand_dims(token, 1)}, {.axis = 1});
      lazy_barrier();
    }
    return sum(take(table, beams, {.axis = 0})).item<float>();
  };
  const float want = search();
  const LazyScope lazy;
  const LazyMetrics metrics;
  EXPECT_EQ(search(), want);
  EXPECT_LE(metrics.counts().compiles, 3 + 1) << metrics.to_string();  // and the last sum
}

// spec: Z50.e
TEST(LazySizes, ALoopWithChangingNumbersIsOneProgram) {
  forget_lazy_programs();
  const LazyScope lazy;
  const SeedScope seed(3);
  Tensor x = random::normal({4, 16});
  lazy_barrier();
  const LazyMetrics metrics;
  for (int t = 50; t > 0; --t) {
    const float rate = 0.02F + 0.3F * static_cast<float>(t) / 51.0F;
    x = x - tanh(x * rate) * (0.5F * rate) + random::normal({4, 16}) * (0.1F * rate);
    lazy_barrier();
  }
  EXPECT_EQ(metrics.counts().compiles, 1) << metrics.to_string();
  EXPECT_EQ(metrics.counts().executes, 50);
}

TEST(LazySizes, TrainingAndEvaluationAreTwoPrograms) {
  forget_lazy_programs();
  Net net = fresh_net();
  optim::SGD optimizer({.lr = 0.05});
  const LazyScope lazy;
  lazy_barrier();
  const LazyMetrics metrics;
  for (int i = 0; i < 20; ++i) {
    optimizer.update(net, gradient([](const Net& m) { return loss_of(m, 16); }, net));
    lazy_barrier();
    const Tensor loss = loss_of(net, 24);
    lazy_barrier();
  }
  // The first step meets shared parameters, so that it cannot take their memory.
  EXPECT_LE(metrics.counts().compiles, 3) << metrics.to_string();
}

// Numbers that depend on a size by no formula, or by another formula than it seemed: the recorded
// calls decide.
TEST(LazySizes, NumbersThatFollowFromSizesOtherwise) {
  forget_lazy_programs();
  const auto run = [](int64_t n) {
    const Tensor x = broadcast_to(Tensor({0.5, 1.5, 2.5}), {n, 3});
    const int64_t most = n < 9 ? n - 1 : 4;  // linear at first
    const Tensor part = x.at(slice(0, most));
    return sum(part * 2.0F + 1.0F, {.axis = 0}).to_vector<float>();
  };
  const std::vector<int64_t> sizes = {4, 6, 8, 9, 12, 20, 5, 7, 30, 3};
  std::vector<std::vector<float>> want;
  for (const int64_t n : sizes) want.push_back(run(n));
  const LazyScope lazy;
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(run(sizes[i]), want[i]) << sizes[i];
}

// A program from a seed, whose calls and attributes depend on the size n in several ways.
Tensor random_program(uint32_t seed, int64_t n) {
  std::mt19937 random(seed);
  const SeedScope data(seed);
  const Tensor w = random::normal({6, 6});
  Tensor x = random::normal({n, 6});
  const auto pick = [&](uint32_t count) { return random() % count; };
  for (int i = 0; i < 8; ++i) {
    switch (pick(10)) {
      case 0:
        x = tanh(x) * 0.5F;
        break;
      case 1:
        x = matmul(x, w) * (1.0F / static_cast<float>(n));
        break;
      case 2:
        x = reshape(reshape(x, {n * 2, 3}) + 1.0F, {n, 6});
        break;
      case 3:
        x = x - mean(x, {.axis = 0, .keepdims = true});
        break;
      case 4:
        x = permute_dims(permute_dims(x, {1, 0}) * 2.0F, {1, 0});
        break;
      case 5:
        x = concat({x, x * 0.5F}, {.axis = 0}).at(slice(static_cast<int64_t>(pick(2)), n + 1));
        x = x.at(slice(0, std::min<int64_t>(n, x.shape()[0])));
        n = x.shape()[0];
        break;
      case 6:
        x = nn::softmax(x, {.axis = static_cast<int64_t>(pick(2))});
        break;
      case 7:
        x = x + broadcast_to(ones({1, 6}) * static_cast<float>(n % 3), {n, 6});
        break;
      case 8:
        x = x * sum(full({n}, 0.25F));  // a constant of a size
        break;
      default:
        x = where(x > 0.0F, x, exp(x) - 1.0F);
    }
  }
  return sum(x, {.axis = 0});
}

// spec: Z11, Z22.a
TEST(LazySizes, RandomProgramsAtManySizes) {
  // All of them are compiled at one line.
  const ChangedLazyOptions options([](LazyOptions& o) { o.max_compiles = 0; });
  const LazyMetrics metrics;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    for (const int64_t n : {5, 9, 3, 17, 2, 1, 12, 33}) {
      const Tensor want = random_program(seed, n);
      const LazyScope lazy;
      const Tensor found = random_program(seed, n);
      lazy_barrier();
      EXPECT_TRUE(same_value(found, want)) << "seed " << seed << ", size " << n;
    }
  }
  EXPECT_GT(metrics.counts().symbolic_hits, 40 * 2) << metrics.counts().compiles;
  EXPECT_EQ(metrics.counts().fallbacks, 0);
}

}  // namespace
}  // namespace etude::sizes_test
