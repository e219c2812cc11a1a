// SPDX-License-Identifier: Apache-2.0
// The memory of plans: recomputed values, results of loops, and shared arenas.
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/etude.h"
#include "etude/graph/builder.h"
#include "etude/passes/pipeline.h"
#include "etude/plan/plan.h"
#include "tests/live_memory.h"

namespace etude {
namespace {

using internal::Plan;

Tensor waves(const Shape& shape, float step) {
  return reshape(sin(astype(arange(shape.count()), kFloat32) * step), shape.to_vector());
}

// Residual layers: a product, a normalisation of its columns, relu, and a sum with the input.
struct Residual {
  std::vector<Tensor> weights;
  Tensor scale = ones({128}), offset = zeros({128});

  explicit Residual(int layers) {
    for (int i = 0; i < layers; ++i) {
      weights.push_back(waves({128, 128}, 0.37F + 0.01F * static_cast<float>(i)));
    }
  }
  Tensor operator()(Tensor x) const {
    for (const Tensor& w : weights) {
      const Tensor y = nn::batch_standardize(matmul(x, w), offset, scale).y;
      x = nn::relu(y + x);
    }
    return x;
  }
  ETUDE_FIELDS(Residual, weights, scale, offset);
};

struct Step {
  Tensor loss;
  Residual model;
};
Step train(Residual model, const Tensor& x) {
  const auto [loss, slope] =
      value_with_gradient([&](const Residual& m) { return mean(square(m(x))); }, model);
  move(model, -1e-3F * slope);
  return {loss, std::move(model)};
}

TEST(Recomputation, LowersThePeakOfATrainingStepAndKeepsItsBits) {
  const Residual model(16);
  const Tensor x = waves({512, 128}, 0.73F);
  const auto staged = [&] {
    const auto step = function([](Residual m, const Tensor& in) {
      Step out = train(std::move(m), in);
      out.model.weights.push_back(out.loss);
      return out.model.weights;
    });
    const std::vector<Tensor> out = step(model, x);
    return std::pair(out, Plan::of(step.traces()[0].graph())->arena_bytes());
  };
  const auto [values, bytes] = staged();
  const PassScope off("recompute_cheap");
  const auto [kept_values, kept_bytes] = staged();
  EXPECT_LE(static_cast<double>(bytes), 0.8 * static_cast<double>(kept_bytes));
  const Step eager = train(model, x);
  ASSERT_EQ(values.size(), eager.model.weights.size() + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(same_value(values[i], kept_values[i])) << i;
    const Tensor& want = i + 1 < values.size() ? eager.model.weights[i] : eager.loss;
    EXPECT_TRUE(same_value(values[i], want)) << i;
  }
}

// Nothing looks at all values for each: many large ones are alive at once, and all may be had
// again.
TEST(Recomputation, HoldsManyNodes) {
  constexpr std::size_t kLayers = 20000;
  const Op& product = Registry::global().at("matmul");
  const Op& tanh_op = Registry::global().at("tanh");
  GraphBuilder build("f");
  const auto call = [&](const Op& op, std::initializer_list<GraphBuilder::Draft> operands) {
    return build.add_node(op, op.default_attrs(), std::span(operands.begin(), operands.size()));
  };
  GraphBuilder::Draft x = build.add_input("x", intern_type(kFloat32, {64, 64}));
  std::vector<GraphBuilder::Draft> products, results;
  for (std::size_t i = 0; i < kLayers; ++i) {
    products.push_back(call(product, {x, x}));
    results.push_back(x = call(tanh_op, {products.back()}));
  }
  for (std::size_t i = kLayers; i-- > 0;) {
    x = call(product, {x, results[i]});
    x = call(product, {x, products[i]});
  }
  const GraphRef graph = build.finish(std::vector{x});
  // A third of the 2 kLayers values goes.
  EXPECT_GE(run_passes(*graph)->size(), graph->size() + kLayers * 6 / 10);
}

int64_t calls_of(const Profile& profile, std::string_view op) {
  int64_t calls = 0;
  for (const ProfileEntry& entry : profile.entries()) {
    if (entry.op == op) calls += entry.calls;
  }
  return calls;
}

TEST(Loops, ComputeWhatIsTheSameInAllStepsOnce) {
  const auto f = function([](const Tensor& x, const Tensor& w) {
    const Tensor end =
        fold([&](const Tensor& c, const Tensor& row) { return c * tanh(w) + row; }, zeros({3}), x);
    return while_loop([&](const Tensor& c) { return sum(c) < sum(exp(w)); },
                      [&](const Tensor& c) { return c + square(w) + 1.0F; }, end);
  });
  const Tensor x = zeros({5, 3}), w = Tensor(std::vector<float>{0.5F, 1, 2});
  const Tensor first = f(x, w);
  const ProfileScope scope;
  EXPECT_TRUE(same_value(f(x, w), first));
  EXPECT_EQ(calls_of(scope.profile(), "tanh"), 1);
  EXPECT_EQ(calls_of(scope.profile(), "exp"), 1);
  EXPECT_EQ(calls_of(scope.profile(), "square"), 1);
  const PassScope off("hoist_invariants,fuse_elementwise");
  const auto g = function([](const Tensor& rows, const Tensor& v) {
    return fold([&](const Tensor& c, const Tensor& row) { return c * tanh(v) + row; }, zeros({3}),
                rows);
  });
  g(x, w);
  const ProfileScope without;
  g(x, w);
  EXPECT_EQ(calls_of(without.profile(), "tanh"), 5);
}

constexpr int64_t kValue = 4 << 20;  // bytes of x

Tensor large() { return full({kValue / 4}, 0.5); }
// Needs `values` values of 4 MiB at once.
Tensor holding(const Tensor& x, int values) {
  std::vector<Tensor> all = {cumulative_sum(x)};
  while (static_cast<int>(all.size()) < values) all.push_back(cumulative_sum(all.back()));
  Tensor out = sum(all[0]);
  for (const Tensor& y : all) out = out + max(y);
  return out;
}

TEST(Arenas, GoToThePlanThatRuns) {
  const Tensor x = large();
  const auto small = function([](const Tensor& y) { return holding(y, 3); });
  const auto wide = function([](const Tensor& y) { return holding(y, 6); });
  trim_memory();
  const int64_t before = tests::live_bytes();
  const Tensor want = small(x);
  const int64_t held = tests::live_bytes() - before;
  EXPECT_GE(held, 3 * kValue);
  const Tensor wide_want = wide(x);
  const int64_t both = tests::live_bytes() - before;
  EXPECT_GE(both, 6 * kValue);
  EXPECT_LT(both, 7 * kValue) << "the smaller arena is gone";
  for (int i = 0; i < 3; ++i) {
    const MemoryScope scope;
    EXPECT_TRUE(same_value(small(x), want));
    EXPECT_TRUE(same_value(wide(x), wide_want));
    EXPECT_LT(scope.stats().peak_bytes, kValue) << "the two take turns";
  }
}

TEST(Arenas, AreTakenByManyThreadsAtOnce) {
  const Tensor x = large();
  std::vector<Tensor> want;
  for (int values = 1; values < 5; ++values) want.push_back(holding(x, values));
  const auto f = function([](const Tensor& y, int values) { return holding(y, values); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 6; ++i) {
        const int values = 1 + (i * (t + 1) + t) % 4;
        EXPECT_TRUE(same_value(f(x, values), want[static_cast<std::size_t>(values) - 1]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace etude
