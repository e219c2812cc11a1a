// SPDX-License-Identifier: Apache-2.0
// The peak memory of lazy training steps, compared with eager ones.
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/lazy_options.h"
#include "tests/live_memory.h"

namespace etude {
namespace {

struct Deep {
  std::vector<nn::Dense> layers = std::vector<nn::Dense>(
      12, nn::Dense(256, 256, {.activation = [](const Tensor& x) { return tanh(x) * x; }}));
  Tensor operator()(Tensor x) const {
    for (const nn::Dense& layer : layers) x = layer(x);
    return x;
  }
};

struct Step {
  Deep net = [] {
    const SeedScope seed(1);
    return Deep();
  }();
  optim::SGD optimizer{{.lr = 1e-3}};
  Tensor x = full({2048, 256}, 0.01F);

  // The loss is looked at while the rest of the step waits, if it does.
  float run(bool looks) {
    const auto [loss, grads] =
        value_with_gradient([&](const Deep& n) { return mean(square(n(x))); }, net);
    optimizer.update(net, grads);
    const float value = looks ? loss.item<float>() : 0.0F;
    lazy_barrier();
    return looks ? value : loss.item<float>();
  }
};

struct Found {
  int64_t peak = 0;
  float loss = 0;
};

// Of the fourth step.
Found run_step(bool lazily, bool looks) {
  std::optional<LazyScope> lazy;
  trim_memory();
  const MemoryScope memory;
  Step step;
  if (lazily) lazy.emplace();
  Found out;
  for (int i = 0; i < 4; ++i) {
    reset_peak_memory();
    const int64_t before = memory_stats().peak_bytes - memory.stats().live_bytes;
    out.loss = step.run(looks);
    out.peak = memory_stats().peak_bytes - before;
  }
  return out;
}

// spec: Z63
TEST(LazyMemory, AStepHoldsNoMoreThanEagerly) {
  const Found eager = run_step(false, true);
  for (const bool looks : {false, true}) {
    const Found lazy = run_step(true, looks);
    EXPECT_EQ(lazy.loss, eager.loss);
    // Cut in two by a look, a step has all values between its halves at once, and a place for the
    // first of each half.
    const int64_t most = looks ? eager.peak + eager.peak / 20 : eager.peak;
    EXPECT_LE(lazy.peak, most) << "looks: " << looks;
  }
}

// spec: Z63
TEST(LazyMemory, TheLoopEndsWhereItBegan) {
  forget_lazy_programs();
  trim_memory();
  const int64_t floor = tests::live_bytes();
  run_step(true, true);
  // Plans keep a place to run in, which goes with the programs.
  forget_lazy_programs();
  EXPECT_LE(tests::live_bytes(), floor + (64 << 10));
}

// spec: Z17
TEST(LazyMemory, AResultTakesTheMemoryOfAnInputThatDied) {
  const Tensor w = full({256, 256}, 2.0F);
  Tensor x = full({256, 256}, 0.5F);
  const LazyScope lazy;
  for (int i = 0; i < 3; ++i) {
    const float* const at = x.data<float>().data();
    // The last reader of x makes a row; a later result is as large as x.
    x = sum(x, {.axis = 0, .keepdims = true}) * w * 0.001953125F;
    const LazyMetrics metrics;
    const MemoryScope memory;
    lazy_barrier();
    EXPECT_EQ(metrics.counts().donations, 1) << i;
    EXPECT_LT(memory.stats().peak_bytes, 256 * 256 * 4 / 2);
    EXPECT_EQ(x.data<float>().data(), at);
    EXPECT_EQ(x.data<float>()[7], 0.5F);
  }
  const Tensor kept = x;  // now nothing is given away
  x = sum(x, {.axis = 0, .keepdims = true}) * w;
  lazy_barrier();
  EXPECT_EQ(kept.data<float>()[7], 0.5F);
  EXPECT_EQ(x.data<float>()[7], 256.0F);
}

// spec: V24.a..c
TEST(LazyMemory, UpdatesInPlaceAreOneBuffer) {
  forget_lazy_programs();
  const LazyScope lazy;
  Tensor x = zeros({64, 64});
  lazy_barrier();
  const float* const at = x.data<float>().data();
  const MemoryScope memory;
  for (int i = 0; i < 10; ++i) x += 1.0F;
  EXPECT_TRUE(is_pending(x));
  EXPECT_EQ(x.data<float>()[5], 10.0F);
  EXPECT_EQ(x.data<float>().data(), at);
  EXPECT_LT(memory.stats().live_bytes, 64 * 64 * 4);  // headers, and the plan
  for (int i = 0; i < 3; ++i) {
    x += 1.0F;
    lazy_barrier();
    EXPECT_EQ(x.data<float>().data(), at);
  }
  const Tensor clone = x;
  x += 1.0F;
  lazy_barrier();
  EXPECT_EQ(clone.data<float>()[5], 13.0F);
  EXPECT_EQ(x.data<float>()[5], 14.0F);
  EXPECT_EQ(clone.data<float>().data(), at);
  EXPECT_NE(x.data<float>().data(), at);
}

}  // namespace
}  // namespace etude
