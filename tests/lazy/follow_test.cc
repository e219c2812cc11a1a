// SPDX-License-Identifier: Apache-2.0
// Calls that come again: recorded by comparing them with those that are expected, and what
// recording costs in allocations.
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude {
namespace {

// Calls of the same ops in each round, with other numbers.
Tensor round_of(const Tensor& x, int i) {
  const Tensor y = tanh(x * (0.3F + 0.01F * static_cast<float>(i))) + x;
  return sum(y * y, {.axis = 1, .keepdims = true}) - mean(y, {.axis = 1, .keepdims = true});
}

// spec: Z31
TEST(LazyFollow, TheThirdOfEqualSegmentsIsOnlyCompared) {
  const LazyScope lazy;
  const Tensor x = full({4, 8}, 0.5F);
  lazy_barrier();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(round_of(x, i).to_vector<float>().size(), 4u);
  const LazyMetrics metrics;
  for (int i = 2; i < 10; ++i) EXPECT_EQ(round_of(x, i).to_vector<float>().size(), 4u);
  EXPECT_GT(metrics.counts().recorded, 8 * 5);
  EXPECT_EQ(metrics.counts().followed, metrics.counts().recorded);
}

// spec: Z31
TEST(LazyFollow, TheFirstDifferenceFallsBack) {
  const Tensor x = full({4, 8}, 0.5F), more = full({2, 8}, 0.5F);
  // One of these rounds differs from those before: another op, another type, other attributes.
  const auto round = [&](int i) {
    const Tensor a = (i % 5 == 4 ? more : x) * 0.5F;
    const Tensor b = i % 7 == 5 ? exp(a) : tanh(a);
    return (sum(b, {.axis = i % 3 == 2 ? 1 : 0}) + 1.0F).to_vector<float>();
  };
  std::vector<std::vector<float>> want;
  for (int i = 0; i < 60; ++i) want.push_back(round(i));
  const LazyMetrics metrics;
  const LazyScope lazy;
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(round(static_cast<int>(i)), want[i]) << i;
  EXPECT_LT(metrics.counts().followed, metrics.counts().recorded);
  EXPECT_GT(metrics.counts().followed, 0);
}

// spec: Z31, Z42
TEST(LazyFollow, TrainingAndEvaluationInTurnAreBothFollowed) {
  const LazyScope lazy;
  Tensor w = full({8, 8}, 0.5F);
  const auto both = [&] {
    w = w - matmul(w, w) * 0.01F;
    lazy_barrier();
    EXPECT_NE(sum(tanh(w)).item<float>(), 0.0F);
  };
  for (int i = 0; i < 3; ++i) both();
  const LazyMetrics metrics;
  for (int i = 0; i < 10; ++i) both();
  EXPECT_EQ(metrics.counts().followed, metrics.counts().recorded);
}

// spec: Z30
TEST(LazyFollow, RecordingAllocatesHeadersAlone) {
  const LazyScope lazy;
  const Tensor x = full({64, 64}, 0.5F);
  lazy_barrier();
  const auto chain = [&] {
    Tensor y = x;
    for (int i = 0; i < 1000; ++i) y = y + x;
    return y;
  };
  chain().to_vector<float>();
  const MemoryScope memory;
  const LazyMetrics metrics;
  const Tensor y = chain();
  // A header of 64 bytes a call; one of them is alive.
  EXPECT_EQ(metrics.counts().recorded, 1000);
  EXPECT_EQ(metrics.counts().executes, 0);
  EXPECT_LE(memory.stats().allocations, 1000);
  EXPECT_LE(memory.stats().live_bytes, 1024);
}

}  // namespace
}  // namespace etude
