// SPDX-License-Identifier: Apache-2.0
// Repeated calls: recorded by comparison with the expected calls; the allocations of recording;
// loops made of calls that repeat.
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/sanitizers.h"
#include "etude/etude.h"
#include "tests/lazy_options.h"

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

// spec: Z31
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

// spec: Z3
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

// All nodes of the programs that f() makes, as recorded and as planned.
struct Nodes {
  std::size_t recorded = 0, planned = 0;
};
Nodes nodes_of(const std::function<std::vector<Tensor>()>& f) {
  forget_lazy_programs();
  const std::vector<Tensor> want = f();
  const LazyMetrics metrics;
  const LazyScope lazy;
  const std::vector<Tensor> found = f();
  lazy_barrier();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(same_value(found[i], want[i])) << "result " << i;
  }
  EXPECT_EQ(metrics.counts().fallbacks, 0);
  Nodes out;
  for (const LazyProgram& program : LazyMetrics::programs()) {
    out.recorded += program.nodes;
    out.planned += program.planned;
  }
  return out;
}

struct Loop {
  int64_t width = 8;
  Tensor x, w, b;
  explicit Loop(int64_t n = 8) : width(n) {
    const SeedScope seed(1);
    x = random::normal({4, width});
    w = random::normal({width, width}) * 0.3F;
    b = random::normal({width});
  }
  Tensor step(const Tensor& y, int i) const {
    return tanh(matmul(y, w) + b) * (0.5F + 0.25F / static_cast<float>(i + 3));
  }
  Tensor run(const Tensor& start, int n) const {
    Tensor y = start;
    for (int i = 0; i < n; ++i) y = step(y, i);
    return y;
  }
};

// spec: Z10.a
TEST(LazyLoops, ALongerLoopIsNoLongerProgram) {
  const Loop loop;
  const auto nodes = [&](int n) {
    return nodes_of([&] { return std::vector<Tensor>{loop.run(loop.x, n)}; });
  };
  for (const int n : {1, 2, 10, 16}) EXPECT_LE(nodes(n).planned, nodes(n).recorded) << n;
  EXPECT_EQ(nodes(1000).recorded, 4000u);
  // A step of the loop is 16 repetitions; as many at most are left over.
  EXPECT_LT(nodes(1000).planned, 160u);
  EXPECT_LE(nodes(1000).planned, nodes(104).planned + 10);
  EXPECT_EQ(LazyMetrics::programs().size(), 1u);
}

// spec: Z10.a
TEST(LazyLoops, ValuesThatAreCarriedHeldAndTheSame) {
  const Loop loop;
  // Two values that take turns, a third one, a result of each repetition, one of the last alone.
  const auto run = [&](int n) {
    Tensor x = loop.x, y = x * 0.5F, total = zeros({4, 1}), last;
    std::vector<Tensor> out;
    for (int i = 0; i < n; ++i) {
      last = x + loop.b;
      const Tensor next = tanh(last * y) + loop.x;
      x = y;
      y = next;
      total = total + sum(y, {.axis = 1, .keepdims = true});
      out.push_back(mean(y));
    }
    for (const Tensor& each : {x, y, total, last}) out.push_back(each);
    return out;
  };
  for (const int n : {2, 3, 33, 64}) nodes_of([&] { return run(n); });
  const Nodes nodes = nodes_of([&] { return run(500); });
  EXPECT_EQ(nodes.recorded, 3502u);
  EXPECT_LT(nodes.planned, 250u);
}

// spec: Z10.a
TEST(LazyLoops, TheGradientOfALoopIsTwoLoops) {
  for (const int64_t width : {8, 48}) {  // the rows of a loop are copied or shared
    const Loop loop(width);
    const auto run = [&](int n) {
      const auto [loss, grads] = value_with_gradient(
          [&](const Tensor& x, const Tensor& w) {
            Loop moved = loop;
            moved.w = w;
            return mean(square(moved.run(x, n)));
          },
          loop.x, loop.w);
      return std::vector<Tensor>{loss, std::get<0>(grads), std::get<1>(grads)};
    };
    for (const int n : {2, 20, 61}) nodes_of([&] { return run(n); });
    const Nodes nodes = nodes_of([&] { return run(400); });
    EXPECT_GT(nodes.recorded, 3000u);
    EXPECT_LT(nodes.planned, 700u) << width;
  }
}

// spec: Z10.a
TEST(LazyLoops, RowsOfABatchAreTakenBeforeTheLoop) {
  const Loop loop;
  const SeedScope seed(2);
  const Tensor rows = random::normal({400, 4, 8});
  const auto run = [&](int n) {
    Tensor y = loop.x, last;
    for (int i = 0; i < n; ++i) {
      last = rows.at(i);
      y = tanh(matmul(y, loop.w) + last) + rows.at((7 * i) % 400) * 0.5F;
    }
    return std::vector<Tensor>{y, last};
  };
  for (const int n : {2, 40}) nodes_of([&] { return run(n); });
  const Nodes nodes = nodes_of([&] { return run(400); });
  EXPECT_GE(nodes.recorded, 400u * 6);
  EXPECT_LT(nodes.planned, nodes.recorded / 2);  // a view for each row, and the loop
}

// spec: Z10.a
TEST(LazyLoops, StepsOfTrainingWithoutABarrier) {
  const Loop loop;
  const Tensor labels = full({4, 8}, 0.25F);
  const auto run = [&](int n) {
    Tensor w = loop.w, momentum = zeros({8, 8});
    std::vector<Tensor> out;
    for (int i = 0; i < n; ++i) {
      const auto [loss, grad] = value_with_gradient(
          [&](const Tensor& v) {
            const Tensor error = tanh(matmul(loop.x, v) + loop.b) - labels;
            return mean(error * error);
          },
          w);
      momentum = momentum * 0.9F + grad;
      w = w - momentum * (0.1F / static_cast<float>(i + 3));
      out.push_back(loss);
    }
    out.push_back(w);
    return out;
  };
  const Nodes nodes = nodes_of([&] { return run(150); });
  EXPECT_GT(nodes.recorded, 1500u);
  EXPECT_LT(nodes.planned, 250u);
}

// A host loop out of a seed. Its body has several values, and may change at some repetition.
std::vector<Tensor> random_loop(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(random()) % n; };
  const SeedScope data(seed);
  std::vector<Tensor> state;
  const uint32_t values = 2 + pick(3), calls = 1 + pick(9);
  for (uint32_t i = 0; i < values; ++i) state.push_back(random::normal({3, 5}));
  const Tensor w = random::normal({5, 5}) * 0.4F, same = random::normal({3, 5});
  const Tensor rows = random::normal({320, 3, 5});
  struct Call {
    uint32_t kind, a, b, to;
  };
  std::vector<Call> body;
  const auto any = [&] { return pick(static_cast<uint32_t>(state.size())); };
  for (uint32_t i = 0; i < calls; ++i) body.push_back({pick(8), any(), any(), any()});
  const int n = static_cast<int>(20 + pick(300)), odd = static_cast<int>(pick(600));
  const bool holds = pick(3) == 0, is_swapped = pick(3) == 0;
  std::vector<Tensor> out;
  for (int i = 0; i < n; ++i) {
    for (const Call& call : body) {
      const Tensor a = state[call.a], b = state[call.b];
      Tensor& to = state[call.to];
      switch (i == odd ? (call.kind + 1) % 8 : call.kind) {
        case 0:
          to = tanh(a + b);
          break;
        case 1:
          to = tanh(matmul(a, w));
          break;
        case 2:
          to = a * 0.5F + same;
          break;
        case 3:
          to = a * (1.0F / static_cast<float>(i + 3));
          break;
        case 4:
          to = a - mean(b, {.axis = 1, .keepdims = true});
          break;
        case 5:
          to = where(a > b, a * 0.25F, same);
          break;
        case 6:
          to = b * 0.25F + rows.at(i);
          break;
        default:
          to = maximum(a, b) * 0.5F;
      }
    }
    if (is_swapped) std::swap(state.front(), state.back());
    if (holds) out.push_back(sum(state.front(), {.axis = 0}));
  }
  out.insert(out.end(), state.begin(), state.end());
  return out;
}

// spec: Z10.a, Z22.a
TEST(LazyLoops, RandomLoopsHaveTheBitsOfEagerOnes) {
  // All of them are cut at one line.
  const ChangedLazyOptions options([](LazyOptions& o) { o.max_compiles = 0; });
  constexpr uint32_t kLoops = internal::kHasAddressSanitizer ? 40 : 200;
  uint32_t rolled = 0;
  for (uint32_t seed = 0; seed < kLoops; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Nodes nodes = nodes_of([&] { return random_loop(seed); });
    rolled += nodes.planned * 3 < nodes.recorded ? 1 : 0;
  }
  EXPECT_GT(rolled, kLoops / 4);
}

TEST(LazyLoops, RollingIsAnOption) {
  const ChangedLazyOptions options([](LazyOptions& o) { o.roll = false; });
  const Loop loop;
  const Nodes nodes = nodes_of([&] { return std::vector<Tensor>{loop.run(loop.x, 200)}; });
  EXPECT_GT(nodes.planned, 300u);
}

}  // namespace
}  // namespace etude
