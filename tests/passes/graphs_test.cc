// SPDX-License-Identifier: Apache-2.0
// All passes on graphs at random, and on graphs that ops carry.
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/graph/sample_graphs.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/graph/verify.h"
#include "etude/passes/pipeline.h"
#include "etude/plan/plan.h"
#include "tests/passes/random_values.h"
#include "tests/same_numbers.h"

namespace etude::tests {
namespace {

void expect_same(std::span<const Tensor> got, std::span<const Tensor> want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_numbers(got[i], want[i])) << i;
}

TEST(RandomGraphs, GiveTheSameBits) {
  std::vector<std::string> switches = {"", "all"};
  for (const Pass& pass : passes()) {
    if (!pass.is_needed) switches.emplace_back(pass.name);
  }
  for (uint64_t seed = 0; seed < 500 && !HasFailure(); ++seed) {
    const PassScope off(switches[seed % switches.size()]);
    const GraphRef graph = random_graph(seed);
    const GraphRef after = run_passes(*graph);
    verify(*after);
    SCOPED_TRACE(to_text(*graph) + "\n" + to_text(*after));
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const std::vector<Tensor> want = interpret(*graph, inputs);
    expect_same(interpret(*after, inputs), want);
    const OperandList list{std::span<const Tensor>(inputs)};
    const Values run = internal::Plan::of(*graph)->run(list.view());
    expect_same({run.begin(), run.end()}, want);
  }
}

// An op that runs the graph that it carries by itself, as a loop does.
const Op& run_op() {
  static const Op& made = [&]() -> const Op& {
    OpDef def;
    def.name = "run_sample";
    def.doc = "For tests of passes.";
    def.kind = Kind::kGeneral;
    def.operands = {{"xs...", kAnyDType}};
    def.attrs = {{"graph", AttrKind::kGraph}};
    def.results = {"ys..."};
    def.type = [](const TypeCall& call) {
      return dynamic_cast<const Graph&>(call.attrs.object("graph")).output_types();
    };
    def.data = [](Operands in, const Attrs& attrs) {
      Values out;
      for (Tensor& y : interpret(dynamic_cast<const Graph&>(attrs.object("graph")), in)) {
        out.push_back(std::move(y));
      }
      return out;
    };
    return Registry::global().define(std::move(def));
  }();
  return made;
}

TEST(CarriedGraphs, PassAsWell) {
  run_op();
  const GraphRef graph = parse_graph(
      "graph f(x: float32[3]) -> (float32[3])\n"
      "  %1 = run_sample(x, graph=@body)\n"
      "  %2 = run_sample(%1, graph=@body)\n"
      "  return %2\n"
      "\n"
      "graph body(x: float32[3]) -> (float32[3])\n"
      "  %1 = tanh(x)\n"
      "  %2 = run_sample(x, graph=@inner)\n"
      "  return %2\n"
      "\n"
      "graph inner(x: float32[3]) -> (float32[3])\n"
      "  %1 = exp(x)\n"
      "  %2 = exp(x)\n"
      "  %3 = add(%1, %2)\n"
      "  return %3\n");
  const GraphRef after = run_passes(*graph);
  EXPECT_EQ(to_text(*after),
            "graph f(x: float32[3]) -> (float32[3])\n"
            "  %1 = run_sample(x, graph=@body)\n"
            "  %2 = run_sample(%1, graph=@body)\n"
            "  return %2\n"
            "\n"
            "graph body(x: float32[3]) -> (float32[3])\n"
            "  %1 = run_sample(x, graph=@inner)\n"
            "  return %1\n"
            "\n"
            "graph inner(x: float32[3]) -> (float32[3])\n"
            "  %1 = internal.fused_elementwise(x, program={v1 = exp(x1); add(v1, v1)}, params=[])\n"
            "  return %1\n");
  const std::vector<Tensor> inputs = random_inputs(*graph, 1);
  expect_same(interpret(*after, inputs), interpret(*graph, inputs));
}

}  // namespace
}  // namespace etude::tests
