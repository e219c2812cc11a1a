// SPDX-License-Identifier: Apache-2.0
// Values that are computed again, in graphs at random that read many of them late.
#include "etude/passes/recompute.h"

#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/graph/builder.h"
#include "etude/graph/text/print.h"
#include "etude/graph/verify.h"
#include "etude/passes/pipeline.h"
#include "etude/plan/plan.h"
#include "tests/passes/random_values.h"

namespace etude::tests::recompute_test {
namespace {

using Draft = GraphBuilder::Draft;

// A forward part of products, views and cheap calls, and a backward part that reads their results
// from the end to the beginning.
class RandomStep {
 public:
  explicit RandomStep(uint64_t seed) : random_(seed), build_("f") {}

  GraphRef make() {
    const Type* square = intern_type(kFloat32, {16, 16});
    values_ = {build_.add_input("x", square), build_.add_input("w", square)};
    row_ = build_.add_input("row", intern_type(kFloat32, {16}));
    const std::size_t nodes = 5 + below(25);
    for (std::size_t i = 0; i < nodes; ++i) values_.push_back(next());
    Draft y = values_.back();
    for (std::size_t i = values_.size(); i-- > 0;) {
      if (below(3) == 0) continue;
      y = call("matmul", {y, values_[i]});
      if (below(2) == 0) y = call("add", {y, values_[i]});
    }
    return build_.finish(std::vector{y, values_[below(values_.size())]});
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  Draft late() {
    return values_[values_.size() - 1 - below(std::min<std::size_t>(values_.size(), 3))];
  }
  Draft call(std::string_view name, std::initializer_list<Draft> operands,
             const std::vector<std::pair<std::string_view, AttrValue>>& attrs = {}) {
    const Op& op = Registry::global().at(name);
    return build_.add_node(op, op.attrs_by_name(attrs),
                           std::span(operands.begin(), operands.size()));
  }
  Draft reshaped(Draft x, std::vector<int64_t> shape) {
    return call("reshape", {x}, {{"shape", std::move(shape)}});
  }
  Draft next() {
    switch (below(7)) {
      case 0:
        return call("tanh", {late()});
      case 1:
        return call("multiply", {late(), late()});
      case 2:
        return call("add", {call("exp", {row_}), late()});
      case 3:
        return call("standardize", {late(), row_, row_}, {{"columns", below(2) == 0}});
      case 4:
        return reshaped(call("sin", {reshaped(late(), {256})}), {16, 16});
      case 5:
        return reshaped(reshaped(late(), {8, 32}), {16, 16});
      default:
        return call("matmul", {late(), late()});
    }
  }

  std::mt19937_64 random_;
  GraphBuilder build_;
  std::vector<Draft> values_;
  Draft row_ = 0;
};

void expect_same(std::span<const Tensor> got, std::span<const Tensor> want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_value(got[i], want[i])) << i;
}

TEST(Recomputation, KeepsTheBitsOfGraphsAtRandom) {
  int changed = 0, by_statistics = 0;
  for (uint64_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    const GraphRef graph = run_passes(*RandomStep(seed).make());
    const bool always = seed % 2 == 0;
    const GraphRef after = internal::recompute_cheap(
        *graph, {.least_peak = 0, .least_bytes = 0, .only_if_lower = !always, .enough = 0});
    verify(*after);
    changed += after->same(*graph) ? 0 : 1;
    by_statistics += to_text(*after).find("standardize_by") != std::string::npos ? 1 : 0;
    SCOPED_TRACE(to_text(*graph) + "\n" + to_text(*after));
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const std::vector<Tensor> want = interpret(*graph, inputs);
    expect_same(interpret(*after, inputs), want);
    const PassScope off("all");  // the plan of this very graph
    const OperandList list{std::span<const Tensor>(inputs)};
    const Values run = internal::Plan::of(*after)->run(list.view());
    expect_same({run.begin(), run.end()}, want);
    if (!always) {
      EXPECT_LE(internal::Plan::of(*after)->live_bytes(), internal::Plan::of(*graph)->live_bytes());
    }
  }
  EXPECT_GT(changed, 500);
  EXPECT_GT(by_statistics, 50);
}

}  // namespace
}  // namespace etude::tests::recompute_test
