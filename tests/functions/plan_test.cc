// SPDX-License-Identifier: Apache-2.0
// Plans compute the results of their graphs, in little memory.
#include "etude/plan/plan.h"

#include <thread>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/graph/builder.h"
#include "etude/ops.h"
#include "etude/stage/trace.h"

namespace etude {
namespace {

using internal::Plan;
using internal::TraceContext;
using internal::TracedGraph;

template <class F>
TracedGraph traced(const F& f, const std::vector<Tensor>& like) {
  TraceContext trace("f", {});
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < like.size(); ++i) {
    inputs.push_back(trace.add_argument("x" + std::to_string(i), like[i].type()));
  }
  const std::vector<Tensor> out = f(inputs);
  return trace.finish(out);
}

std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
  const OperandList list{std::span<const Tensor>(inputs)};
  const Values out = Plan::of(graph)->run(list.view());
  return {out.begin(), out.end()};
}

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(same_value(got[i], want[i])) << i << ": " << got[i] << " and " << want[i];
  }
}

TEST(Plan, ComputesWhatTheGraphMeans) {
  const auto f = [](const std::vector<Tensor>& x) {
    const Tensor h = tanh(matmul(x[0], x[1]) + 0.5F);
    return std::vector<Tensor>{sum(h * h), reshape(h, {8}), x[0], h};
  };
  const std::vector<Tensor> in = {ones({2, 3}) * 0.1F, ones({3, 4}) * 0.3F};
  const TracedGraph made = traced(f, in);
  expect_same(run(*made.graph, in), f(in));
  expect_same(run(*made.graph, in), f(in));  // the arena is used again
}

TEST(Plan, WritesOverWhatNobodyReadsAgain) {
  const auto f = [](const std::vector<Tensor>& x) {
    Tensor y = x[0];
    for (int i = 0; i < 50; ++i) y = tanh(y + 1.0F);
    return std::vector<Tensor>{sum(y)};
  };
  const std::vector<Tensor> in = {ones({1000})};
  const TracedGraph made = traced(f, in);
  EXPECT_LE(Plan::of(*made.graph)->arena_bytes(), 4096 + 64);  // one value, and a sum
  expect_same(run(*made.graph, in), f(in));
}

TEST(Plan, KeepsViewsOfWhatIsRead) {
  const auto f = [](const std::vector<Tensor>& x) {
    const Tensor a = x[0] * 2.0F;
    const Tensor left = a.at(slice(0, 3)), right = a.at(slice(3, 6));
    const Tensor both = left + right;  // may not go over `a`
    return std::vector<Tensor>{both + left, sum(a), both};
  };
  const std::vector<Tensor> in = {astype(arange(6), kFloat32)};
  const TracedGraph made = traced(f, in);
  expect_same(run(*made.graph, in), f(in));
}

TEST(Plan, GivesEachOutputAValueOfItsOwn) {
  const auto f = [](const std::vector<Tensor>& x) {
    const Tensor y = exp(x[0]);
    return std::vector<Tensor>{y, y, x[0]};
  };
  const std::vector<Tensor> in = {ones({3})};
  const TracedGraph made = traced(f, in);
  std::vector<Tensor> out = run(*made.graph, in);
  out[0] += 1.0F;
  out[2] += 1.0F;
  EXPECT_TRUE(same_value(out[1], exp(in[0])));
  EXPECT_TRUE(same_value(in[0], ones({3})));
}

TEST(Plan, SaysWhichCallGaveUp) {
  const auto f = [](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{take(x[0], x[1], {.axis = 0})};
  };
  const TracedGraph made = traced(f, {ones({3}), Tensor({0})});
  try {
    run(*made.graph, {ones({3}), Tensor({7})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    EXPECT_NE(std::string(error.what()).find("take: "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("plan_test.cc:"), std::string::npos) << error.what();
  }
  expect_same(run(*made.graph, {ones({3}), Tensor({1})}), {ones({1})});
}

TEST(Plan, RunsOnManyThreadsAtOnce) {
  const auto f = [](const std::vector<Tensor>& x) {
    Tensor y = x[0];
    for (int i = 0; i < 20; ++i) y = y * 1.5F - x[0];
    return std::vector<Tensor>{y};
  };
  const TracedGraph made = traced(f, {ones({64})});
  const auto plan = Plan::of(*made.graph);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<Tensor> in = {ones({64}) * static_cast<float>(t)};
      const Tensor want = f(in)[0];
      for (int i = 0; i < 200; ++i) {
        if (!same_value(run(*made.graph, in)[0], want)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Plan, HoldsManyNodes) {
  const auto f = [](const std::vector<Tensor>& x) {
    Tensor y = x[0];
    for (int i = 0; i < 20000; ++i) y = y + x[0];
    return std::vector<Tensor>{y};
  };
  const TracedGraph made = traced(f, {ones({2})});
  EXPECT_EQ(made.graph->size(), 20000u);
  EXPECT_EQ(run(*made.graph, {ones({2})})[0].to_vector<float>(),
            (std::vector<float>{20001, 20001}));
}

}  // namespace
}  // namespace etude
