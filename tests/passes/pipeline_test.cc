// SPDX-License-Identifier: Apache-2.0
// The pipeline around all passes: the order, switches, reports, the verifier.
#include "etude/passes/pipeline.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/graph/binary.h"
#include "etude/graph/builder.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/plan/plan.h"
#include "tests/expect_error.h"
#include "tests/passes/random_values.h"

namespace etude::tests {
namespace {

GraphRef sample() {
  return parse_graph(
      "graph f(x: float32[2,3]) -> (float32[6], float32[6])\n"
      "  %1 = constant float32[] 2\n"
      "  %2 = constant float32[] 3\n"
      "  %3 = multiply(%1, %2)\n"
      "  %4 = call(x, %3, graph=@g)\n"
      "  %5 = call(x, %3, graph=@g)\n"
      "  return %4, %5\n"
      "\n"
      "graph g(x: float32[2,3], y: float32[]) -> (float32[6])\n"
      "  %2 = multiply(x, y)\n"
      "  %3 = tanh(%2)\n"
      "  %4 = expand_dims(%2, axis=[0])\n"
      "  %5 = reshape(%4, shape=[6])\n"
      "  return %5\n");
}

std::size_t nodes_without(std::string_view off) {
  const PassScope scope(off);
  return run_passes(*sample())->size();
}

TEST(Pipeline, RunsAllPassesInOrder) {
  EXPECT_EQ(to_text(*run_passes(*sample())),
            "graph f(x: float32[2,3]) -> (float32[6], float32[6])\n"
            "  %1 = constant float32[] 6\n"
            "  %2 = multiply(x, %1)\n"
            "  %3 = reshape(%2, shape=[6])\n"
            "  return %3, %3\n");
}

TEST(Pipeline, LeavesOutWhatIsSwitchedOff) {
  EXPECT_EQ(nodes_without(""), 2u);
  EXPECT_EQ(nodes_without("fold_constants"), 3u);
  EXPECT_EQ(nodes_without("merge_equal_nodes"), 4u);
  EXPECT_EQ(nodes_without("drop_dead_nodes"), 4u);     // tanh, expand_dims
  EXPECT_EQ(nodes_without("reshape_of_reshape"), 3u);  // a rule
  EXPECT_EQ(nodes_without("merge_equal_nodes,drop_dead_nodes"), 8u);
  EXPECT_EQ(nodes_without("all"), 9u);
  {
    const PassScope outer("fold_constants");
    const PassScope inner("reshape_of_reshape");
    EXPECT_EQ(run_passes(*sample())->size(), 4u);
  }
  EXPECT_EQ(nodes_without(""), 2u);
}

TEST(Pipeline, SwitchesAreThoseOfTheThread) {
  const PassScope off("all");
  std::size_t nodes = 0;
  std::thread([&] { nodes = run_passes(*sample())->size(); }).join();
  EXPECT_EQ(nodes, 2u);
}

TEST(Pipeline, NamesWhatCanBeSwitchedOff) {
  expect_error([] { PassScope("fold_constant"); }, ErrorCode::kInvalidArgument,
               {"PassScope: there is no pass or rule 'fold_constant'. There are: fold_constants, "
                "rewrite_calls, hoist_invariants, merge_equal_nodes, drop_dead_nodes, "
                "recompute_cheap, fuse_elementwise",
                "reshape_of_reshape"});
  expect_error([] { PassScope("drop_dead_nodes,inline_calls"); }, ErrorCode::kInvalidArgument,
               {"PassScope: pass 'inline_calls' cannot be switched off: plans have no step for "
                "what it takes away"});
}

TEST(Pipeline, ReportsWhatEachPassDid) {
  std::vector<PassReport> reports;
  const PassScope off("fold_constants");
  run_passes(*sample(), &reports);
  ASSERT_EQ(reports.size(), passes().size());
  EXPECT_EQ(reports[0].pass, "inline_calls");
  EXPECT_EQ(reports[0].nodes_before, 3u);
  EXPECT_EQ(reports[0].nodes_after, 9u);
  EXPECT_TRUE(reports[2].is_off);
  EXPECT_EQ(reports.back().nodes_after, 3u);
  const std::string text = to_string(reports);
  EXPECT_NE(text.find("  3 -> 9\n"), std::string::npos) << text;
  EXPECT_NE(text.find("fold_constants             off\n"), std::string::npos) << text;
}

TEST(Pipeline, GivesBackAGraphThatNothingChanges) {
  const GraphRef done = run_passes(*sample());
  EXPECT_EQ(run_passes(*done).get(), done.get());
}

TEST(Pipeline, KeepsBitsWithAllPassesOff) {
  const std::vector<Tensor> inputs = random_inputs(*sample(), 1);
  const OperandList list{std::span<const Tensor>(inputs)};
  const Values on = internal::Plan::of(*sample())->run(list.view());
  const PassScope off("all");
  const Values without = internal::Plan::of(*sample())->run(list.view());
  EXPECT_TRUE(same_value(on[0], without[0]));
  EXPECT_TRUE(same_value(on[1], without[1]));
}

std::size_t many_nodes() {
  const char* asked = std::getenv("ETUDE_TEST_NODES");
  return asked == nullptr ? 50000 : std::strtoull(asked, nullptr, 10);
}

// Nothing recurses along a graph, and nothing looks at all nodes for each. With a million nodes:
// ETUDE_TEST_NODES=1000000 build/dev/bin/passes_test --gtest_filter=Pipeline.Holds*
TEST(Pipeline, HoldsManyNodes) {
  const std::size_t nodes = many_nodes();
  const Op& add = Registry::global().at("add");
  const Op& negative = Registry::global().at("negative");
  GraphBuilder build("f");
  const GraphBuilder::Draft x = build.add_input("x", intern_type(kFloat32, {2}));
  GraphBuilder::Draft y = x;
  for (std::size_t i = 0; i < nodes / 2; ++i) {
    const CallSite line{build.keep_text("model" + std::to_string(i % 1000) + ".cc"), 7};
    const GraphBuilder::Draft operands[] = {y, x};
    y = build.add_node(i % 2 == 0 ? add : negative, add.default_attrs(),
                       std::span(operands).first(i % 2 == 0 ? 2 : 1), line);
    build.add_node(negative, negative.default_attrs(), std::span(operands).first(1), line);
  }
  const GraphRef graph = build.finish(std::vector{y}, true);
  const GraphRef read = parse_graph(to_text(*graph));
  EXPECT_TRUE(read->same(*graph));
  EXPECT_TRUE(read_binary(to_binary(*graph))->same(*graph));
  const std::vector<Tensor> inputs = random_inputs(*graph, 1);
  const OperandList list{std::span<const Tensor>(inputs)};
  EXPECT_TRUE(
      same_value(internal::Plan::of(*read)->run(list.view())[0], interpret(*graph, inputs)[0]));
}

// Many values are alive at once, of many sizes, and are outputs.
TEST(Pipeline, HoldsManyValuesAtOnce) {
  const std::size_t nodes = many_nodes();
  const Op& spread = Registry::global().at("broadcast_to");
  const Op& negative = Registry::global().at("negative");
  GraphBuilder build("f");
  std::vector<GraphBuilder::Draft> values, outputs;
  for (std::size_t i = 0; i < nodes / 2; ++i) {
    const GraphBuilder::Draft x[] = {build.add_input("x", intern_type(kInt8, {}))};
    const std::vector<int64_t> shape = {static_cast<int64_t>(i % 997) + 2};
    const std::vector<AttrValue> attrs = {shape};
    values.push_back(build.add_node(spread, spread.attrs(std::span(attrs)), x));
  }
  for (const GraphBuilder::Draft& y : values) {
    outputs.push_back(build.add_node(negative, negative.default_attrs(), std::span(&y, 1)));
  }
  const GraphRef graph = build.finish(outputs);
  const std::vector<Tensor> inputs = random_inputs(*graph, 1);
  const OperandList list{std::span<const Tensor>(inputs)};
  const Values got = internal::Plan::of(*graph)->run(list.view());
  const std::vector<Tensor> want = interpret(*graph, inputs);
  EXPECT_TRUE(std::ranges::equal(got, want, same_value));
}

// A record has a column of kernels for each kind of device.
TEST(Pipeline, ADeviceWithoutKernelsIsNamed) {
  const GraphRef graph = parse_graph(
      "graph f(x: float32[2]@gpu:1) -> (float32[2]@gpu:1)\n"
      "  %1 = tanh(x)  # model.cc:3\n"
      "  return %1\n");
  expect_error([&] { internal::Plan::of(*graph); }, ErrorCode::kUnimplemented,
               {"tanh: has no kernel on gpu:1. Give it operands on cpu:0", "  at model.cc:3"});
}

// A failure at run time stays one: making the plan does not meet it.
TEST(Pipeline, LeavesFailuresToTheRun) {
  const GraphRef graph = parse_graph(
      "graph f() -> (float32[])\n"
      "  %1 = constant float32[2] [1, 2]\n"
      "  %2 = constant int32[] 7\n"
      "  %3 = take(%1, %2)  # model.cc:3\n"
      "  return %3\n");
  const auto plan = internal::Plan::of(*graph);
  expect_error([&] { plan->run({}); }, ErrorCode::kOutOfRange, {"take: ", "  at model.cc:3"});
}

}  // namespace
}  // namespace etude::tests
