// SPDX-License-Identifier: Apache-2.0
// Runs of small calls and loops of them as machine code, which has the bits of the single calls.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/codegen/compile.h"
#include "etude/codegen/compiler.h"
#include "etude/etude.h"
#include "etude/kernels/cpu/elementwise/fused_program.h"
#include "etude/plan/cluster_code.h"
#include "etude/plan/plan.h"
#include "tests/same_numbers.h"
#include "tests/tier_scope.h"

namespace etude {
namespace {

using internal::ClusterCode;
using internal::Tier;
using tests::TierScope;

// How often code ran in the place of steps while f did. Builds without assertions do not count.
template <class F>
uint64_t runs_of(F&& f) {
  const uint64_t before = ClusterCode::runs();
  f();
  return ClusterCode::runs() - before;
}
void expect_runs(uint64_t got, uint64_t want) {
#ifdef ETUDE_ASSERTIONS
  EXPECT_EQ(got, want);
#else
  static_cast<void>(got);
  static_cast<void>(want);
#endif
}

Tensor numbers(uint64_t seed, const std::vector<int64_t>& shape) {
  const SeedScope scope(seed);
  return random::normal(shape);
}

class ClusterRuns : public ::testing::TestWithParam<Tier> {
 protected:
  void SetUp() override {
    if (!codegen::is_available()) GTEST_SKIP() << "this build generates no code";
  }
};

// A cell with a product, broadcasts, sums and a running maximum; its sequence as a result.
std::pair<Tensor, Tensor> chain(const Tensor& x, const Tensor& w, const Tensor& rows) {
  const auto [last, all] = scan(
      [&](const Tensor& h, const Tensor& row) {
        const Tensor y = matmul(h, w) * 0.25F + row;
        const Tensor z = tanh(y) - mean(y, {.axis = {-1}, .keepdims = true});
        const Tensor next = where(z > 0.0F, z, max(y) * 0.5F);
        return std::pair(next, sum(next, {.axis = {0}}));
      },
      x, rows);
  return {last, all};
}

TEST_P(ClusterRuns, LoopsAreOneFunction) {
  for (const int64_t n : {1, 2, 3, 7}) {
    SCOPED_TRACE(n);
    const Tensor x = numbers(1, {2, n}), w = numbers(2, {n, n}), rows = numbers(3, {5, n});
    const auto want = chain(x, w, rows);
    const TierScope tier(GetParam());
    const auto staged = function(chain);
    const std::size_t made = compiler_report().clusters;
    std::pair<Tensor, Tensor> got;
    expect_runs(runs_of([&] { got = staged(x, w, rows); }), 1);
    EXPECT_TRUE(tests::same_numbers(got.first, want.first)) << got.first << want.first;
    EXPECT_TRUE(tests::same_numbers(got.second, want.second)) << got.second << want.second;
    EXPECT_EQ(compiler_report().clusters, made + 2);  // of the loop, and of one step
  }
}

TEST_P(ClusterRuns, RunsOfCallsAreOneFunction) {
  for (const int64_t n : {1, 2, 3, 7, 8, 16, 17}) {
    SCOPED_TRACE(n);
    const auto f = [](const Tensor& x, const Tensor& y) {
      const Tensor z = exp(x) / y;
      const Tensor total = sum(z) + mean(y) * prod(x);
      const Tensor both = concat({z, x * total});
      return reshape(both, {2, -1}) - total;
    };
    const Tensor x = numbers(4, {n}), y = numbers(5, {n});
    const Tensor want = f(x, y);
    const TierScope tier(GetParam());
    const auto staged = function<Tensor(const Tensor&, const Tensor&)>(f);
    Tensor got;
    expect_runs(runs_of([&] { got = staged(x, y); }), 1);
    EXPECT_TRUE(tests::same_numbers(got, want)) << got << want;
  }
}

// The backward loop starts at the end, and carries the cotangent sums of values that all steps
// share.
TEST_P(ClusterRuns, DerivativesOfLoopsAreOneFunctionEach) {
  const Tensor x = numbers(6, {2, 3}), w = numbers(7, {3, 3}), rows = numbers(8, {4, 3});
  const auto loss = [&rows](const Tensor& x, const Tensor& w) {
    return sum(square(fold(
        [&](const Tensor& h, const Tensor& row) { return tanh(matmul(h, w)) + row; }, x, rows)));
  };
  const auto gradients = [&](const Tensor& x, const Tensor& w) {
    const auto [dx, dw] = gradient(loss, x, w);
    return std::pair<Tensor, Tensor>(dx, dw);
  };
  const auto want = gradients(x, w);
  const TierScope tier(GetParam());
  const auto staged = function<std::pair<Tensor, Tensor>(const Tensor&, const Tensor&)>(gradients);
  std::pair<Tensor, Tensor> got;
  const uint64_t runs = runs_of([&] { got = staged(x, w); });
  EXPECT_TRUE(tests::same_numbers(got.first, want.first)) << got.first << want.first;
  EXPECT_TRUE(tests::same_numbers(got.second, want.second)) << got.second << want.second;
#ifdef ETUDE_ASSERTIONS
  EXPECT_GE(runs, 2u);
#else
  static_cast<void>(runs);
#endif
}

TEST_P(ClusterRuns, LargeValuesStaySteps) {
  const TierScope tier(GetParam());
  const auto staged = function([](const Tensor& x) {
    return fold([](const Tensor& h, const Tensor& row) { return tanh(h) + row; }, x,
                zeros({3, 65}));
  });
  const Tensor x = numbers(9, {65});
  expect_runs(runs_of([&] { staged(x); }), 0);
}

INSTANTIATE_TEST_SUITE_P(Tiers, ClusterRuns, ::testing::Values(Tier::kFast, Tier::kBest));

// At Tier 0 nothing is made; by itself it is once a loop has run for long enough, and then runs.
TEST(Clusters, AreEarned) {
  if (!codegen::is_available()) GTEST_SKIP() << "this build generates no code";
  const auto f = [](const Tensor& x, const Tensor& steps) {
    return fold([](const Tensor& x, const Tensor&) { return x + 1e-3 * (2.0 - x * x); }, x, steps);
  };
  const Tensor x(0.5F), steps = zeros({4000});
  const Tensor want = f(x, steps);
  using Staged = Function<Tensor(const Tensor&, const Tensor&)>;
  {
    const TierScope tier(Tier::kNone);
    const Staged staged = function<Tensor(const Tensor&, const Tensor&)>(f);
    expect_runs(runs_of([&] { EXPECT_TRUE(same_value(staged(x, steps), want)); }), 0);
  }
  const TierScope tier(std::nullopt);
  const Staged staged = function<Tensor(const Tensor&, const Tensor&)>(f);
  const std::size_t made = compiler_report().clusters;
  expect_runs(runs_of([&] { staged(x, steps); }), 0);
  for (int call = 0; call < 20; ++call) EXPECT_TRUE(same_value(staged(x, steps), want));
  wait_for_compile();
  EXPECT_GT(compiler_report().clusters, made);
  EXPECT_NE(
      to_string(compiler_report()).find(" clusters: runs of small calls, and loops of them\n"),
      std::string::npos);
  expect_runs(runs_of([&] { EXPECT_TRUE(same_value(staged(x, steps), want)); }), 1);
}

TEST(Clusters, AreShownByPlans) {
  const TierScope tier(std::nullopt);
  const GraphRef graph = parse_graph(
      "graph f(x: float32[4], w: float32[4,4], v: float32[65]) -> (float32[4], float32[65])\n"
      "  %3 = exp(v)\n"
      "  %4 = matmul(x, w)\n"
      "  %5 = sum(%4)\n"
      "  %6 = multiply(%4, %5)\n"
      "  return %6, %3\n");
  const std::string text = internal::Plan::of(*graph)->to_string();
  EXPECT_NE(text.find("  steps 2 to 4 are a cluster\n"), std::string::npos) << text;
}

// A run that can be cancelled, or is profiled, goes step by step.
TEST(Clusters, LeaveWatchedRunsAlone) {
  if (!codegen::is_available()) GTEST_SKIP() << "this build generates no code";
  const TierScope tier(Tier::kBest);
  const auto staged = function([](const Tensor& x) { return sum(exp(x)) * x; });
  const Tensor x = numbers(10, {4}), want = sum(exp(x)) * x;
  expect_runs(runs_of([&] { EXPECT_TRUE(same_value(staged(x), want)); }), 1);
  const CancelScope scope{Cancellation()};
  expect_runs(runs_of([&] { EXPECT_TRUE(same_value(staged(x), want)); }), 0);
}

}  // namespace
}  // namespace etude
