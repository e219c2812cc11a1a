// SPDX-License-Identifier: Apache-2.0
// Calls that are recorded, calls that an observation runs, and calls that never run.
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/lazy_options.h"
#include "tests/warnings.h"

namespace etude {
namespace {

// spec: Z3
TEST(LazyRecording, RunsNothingAndAllocatesNoElements) {
  const Tensor x = ones({256, 256});
  const LazyMetrics metrics;
  const LazyScope lazy;
  const MemoryScope memory;
  Tensor y = x;
  for (int i = 0; i < 1000; ++i) y = y * 0.5F + x;
  EXPECT_EQ(metrics.counts().executes, 0);
  EXPECT_EQ(metrics.counts().recorded, 2000);
  EXPECT_EQ(y.shape(), Shape({256, 256}));
  EXPECT_EQ(y.dtype(), kFloat32);
  EXPECT_TRUE(is_pending(y));
  EXPECT_LT(memory.stats().live_bytes, 1000 * 1024);  // headers, and the numbers 0.5
}

// spec: Z4
TEST(LazyRecording, ALookRunsWhatItNeedsAndOnlyThat) {
  const LazyScope lazy;
  const Tensor a = ones({8}), b = full({8}, 2.0F);
  const Tensor x = a + b, y = x * x, z = a - b;
  EXPECT_EQ(y.to_vector<float>()[3], 9.0F);
  EXPECT_FALSE(is_pending(x));
  EXPECT_FALSE(is_pending(y));
  EXPECT_TRUE(is_pending(z));
  const Tensor w = z * y;
  EXPECT_EQ(sum(w).item<float>(), -72.0F);
  EXPECT_FALSE(is_pending(z));
}

// spec: Z5
TEST(LazyRecording, OutputsAreWhatIsHeld) {
  const Tensor a = ones({64, 64}), b = a * 2.0F, c = a * 3.0F;
  const LazyScope lazy;
  const Tensor t = (a + b) * c;
  const std::string text = dump_pending();
  EXPECT_NE(text.find("-> (float32[64,64])"), std::string::npos) << text;
  EXPECT_EQ(pending_nodes(), 2);
  EXPECT_EQ(t.to_vector<float>()[5], 9.0F);
  EXPECT_EQ(pending_nodes(), 0);
}

// spec: Z15.a
TEST(LazyRecording, TheTraceIsAGraphThatParses) {
  const Tensor a = ones({3}), b = a * 2.0F;
  const LazyScope lazy;
  const Tensor c = a + b;
  const std::string text = dump_pending();
  const GraphRef graph = parse_graph(text);
  EXPECT_EQ(graph->inputs().size(), 2u);
  EXPECT_EQ(graph->size(), 1u);
  EXPECT_EQ(to_text(*graph), text);
}

// spec: Z20.a
TEST(LazyRecording, WhatCannotBeCompiledRunsAtOnce) {
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor x = Tensor({0.0, 1.0, 2.0}) * 2.0F;
  const Tensor y = nonzero(x)[0] * 2;
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(metrics.eager_ops().at("nonzero"), 1);
  EXPECT_EQ(metrics.counts().fallbacks, 0);
}

// spec: Z21.a
TEST(LazyRecording, OddTraces) {
  const LazyScope lazy;
  const Tensor x = ones({4}) + 1.0F;
  Tensor same = x;
  const Variable v(x);
  const Tensor read = v.read();
  EXPECT_TRUE(is_pending(read));
  EXPECT_TRUE(same_value(x, read));
  same += 1.0F;
  EXPECT_EQ(x.to_vector<float>()[0], 2.0F);
  EXPECT_EQ(same.to_vector<float>()[0], 3.0F);
  EXPECT_EQ(read.to_vector<float>()[0], 2.0F);
  const Tensor constants = Tensor(2.0F) * 3.0F;
  EXPECT_EQ(constants.item<float>(), 6.0F);
  lazy_barrier();
  lazy_barrier();
  const Tensor empty = zeros({0, 3}) + 1.0F;
  EXPECT_EQ(empty.to_vector<float>().size(), 0u);
}

// spec: Z36
TEST(LazyRecording, WhatIsDroppedIsNeverRun) {
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor x = ones({2});
  lazy_barrier();
  const int64_t runs = metrics.counts().executes;
  const MemoryScope memory;
  for (int i = 0; i < 1000000; ++i) static_cast<void>(x + x);
  EXPECT_EQ(pending_nodes(), 0);
  EXPECT_LT(memory.stats().peak_bytes, 1 << 20);
  EXPECT_EQ(metrics.counts().executes, runs);
  EXPECT_GE(metrics.counts().dropped, 1000000);
}

// spec: Z37
TEST(LazyRecording, ALongTraceIsFreedWithoutRecursion) {
  const ChangedLazyOptions options([](LazyOptions& o) { o.max_nodes = 10000000; });
  {
    const LazyMetrics metrics;
    const LazyScope lazy;
    Tensor x = ones({2});
    lazy_barrier();
    for (int i = 0; i < 1000000; ++i) x = x + x;
    EXPECT_EQ(pending_nodes(), 1000000);
    x = Tensor();
    EXPECT_EQ(pending_nodes(), 0);
  }
}

// spec: Z43.a
TEST(LazyRecording, WhatLooksAndWhatDoesNot) {
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor x = ones({2, 2}) + 1.0F;
  Tensor copy = x;
  const Tensor moved = std::move(copy);
  EXPECT_EQ(moved.shape(), Shape({2, 2}));
  EXPECT_EQ(moved.device(), Device());
  EXPECT_EQ(moved.nbytes(), 16);
  EXPECT_TRUE(is_pending(x));
  EXPECT_EQ(metrics.counts().observations, 0);
  std::ostringstream text;
  text << x;
  EXPECT_EQ(text.str(), "[[2., 2.],\n [2., 2.]], shape (2, 2), float32");
  EXPECT_FALSE(is_pending(x));
  const auto looks = [&](auto&& look) {
    const int64_t before = metrics.counts().observations;
    look();
    return metrics.counts().observations - before;
  };
  EXPECT_EQ(looks([] { return (ones({1}) + 1.0F).item<float>(); }), 1);
  EXPECT_EQ(looks([] { return static_cast<bool>(all(ones({3}) > 0.0F)); }), 1);
  EXPECT_EQ(looks([] { return (ones({3}) * 2.0F).data<float>()[1]; }), 1);
  EXPECT_EQ(looks([] { return (ones({3}) * 2.0F).to_vector<float>().size(); }), 1);
  EXPECT_EQ(looks([] { return (ones({3}) * 2.0F).to_string().size(); }), 1);
}

// spec: Z42.a
TEST(LazyRecording, ReadingEveryStepCompilesNothingMore) {
  const LazyScope lazy;
  Tensor w = ones({16});
  const auto step = [&] {
    w = w - w * 0.1F;
    return sum(w * w);
  };
  const auto compiles = [&](int every) {
    const LazyMetrics metrics;
    for (int i = 1; i <= 60; ++i) {
      const Tensor loss = step();
      if (i % every == 0) {
        EXPECT_GT(loss.item<float>(), 0.0F);
      }
      lazy_barrier();
    }
    return metrics.counts().compiles;
  };
  EXPECT_LE(compiles(1), 2);
  EXPECT_LE(compiles(10), 1);
}

// spec: Z44
TEST(LazyRecording, LooksInALoopAreToldOnce) {
  const tests::Warnings heard;
  const LazyMetrics metrics;
  {
    const LazyScope lazy;
    Tensor x = Tensor(1.0F) + 1.0F;
    for (int i = 0; i < 3000; ++i) {
      x = x * 0.5F + 1.0F;
      EXPECT_EQ(x.item<float>(), 2.0F);
    }
  }
  ASSERT_EQ(heard.told.size(), 1u);
  EXPECT_NE(heard.told[0].find("observed 1000 times at recording_test.cc:"), std::string::npos)
      << heard.told[0];
  ASSERT_EQ(metrics.observed().size(), 1u);
  EXPECT_EQ(metrics.observed().begin()->second, 3000);
}

// spec: Z20.b
TEST(LazyRecording, LinearAlgebraGivesWhatItGivesEagerly) {
  const Tensor x({{2.0, 1.0}, {1.0, 3.0}});
  const Tensor values = linalg::eigh(x).values, inverse = linalg::inv(x);
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor y = x * 1.0F;
  EXPECT_TRUE(same_value(linalg::eigh(y).values, values));
  EXPECT_TRUE(same_value(linalg::inv(y) + 0.0F, inverse + 0.0F));
  EXPECT_EQ(metrics.counts().fallbacks, 0);
}

// spec: Z21.b
TEST(LazyRecording, EffectsInputsAndNestedCalls) {
  const auto inner = function([](const Tensor& x) { return x * 2.0F; });
  const auto outer = function([&](const Tensor& x) { return inner(x) + 1.0F; });
  const auto same = function([](const Tensor& x) { return x; });
  const Variable v(1.0F);
  const LazyScope lazy;
  v.assign(5.0F);  // nothing but an effect
  lazy_barrier();
  EXPECT_EQ(v.read().item<float>(), 5);
  const Tensor x = ones({2}) + 1.0F, given = same(x), y = outer(given);
  lazy_barrier();
  EXPECT_TRUE(same_value(given, full({2}, 2.0F)));
  EXPECT_TRUE(same_value(y, full({2}, 5.0F)));
}

}  // namespace
}  // namespace etude
