// SPDX-License-Identifier: Apache-2.0
// Operands that may be absent, left out at the end of a list: in calls, graphs and texts of graphs,
// for all records. Kernels would read past the end of a short list.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/context/placement.h"
#include "etude/etude.h"
#include "etude/graph/builder.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/graph/verify.h"
#include "etude/plan/plan.h"
#include "tests/ops/calls.h"

namespace etude::matrix {
namespace {

// The results of f(), or the text of its error.
template <class F>
std::string outcome(F&& f) {
  std::string text;
  try {
    for (const Tensor& y : f()) text += y.has_value() ? y.to_string() + "\n" : "absent\n";
  } catch (const Error& error) {
    text = std::string("error: ") + error.what();
  }
  return text;
}

GraphRef graph_of_operands(const Call& call, std::size_t count) {
  GraphBuilder build("f");
  std::vector<GraphBuilder::Draft> operands;
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& x = call.operands[i];
    operands.push_back(x.has_value() ? build.add_constant(x) : GraphBuilder::kNoDraft);
  }
  const GraphBuilder::Results made = build.append(*call.op, call.attrs, operands);
  std::vector<GraphBuilder::Draft> outputs;
  for (uint32_t r = 0; r < made.count; ++r) outputs.push_back(made.first + r);
  return build.finish(outputs, true);
}

TEST(AbsentOperands, ListsThatLeaveThemOutAreFilledUp) {
  int tried = 0;
  for (const Op* op : Registry::global().ops()) {
    const auto& defs = op->def().operands;
    if (defs.empty() || !defs.back().optional || internal::holds_graphs(*op)) continue;
    if (op->def().effect != Effect::kNone) continue;
    for (Call& call : calls_of(*op, dtypes_of(*op).front())) {
      while (call.operands.size() < defs.size()) call.operands.emplace_back();
      std::size_t count = defs.size();
      while (count > 0 && defs[count - 1].optional) {
        call.operands[--count].reset();  // one more is absent, and left out of the short list
        const std::string label = call.label("absent") + " from " + std::to_string(count);
        const std::span<const Tensor> all(call.operands);
        const auto run = [&](std::span<const Tensor> given) {
          return outcome([&] { return execute(*op, OperandList(given).view(), call.attrs, {}); });
        };
        const std::string full = run(all);
        EXPECT_EQ(run(all.first(count)), full) << label;
        ++tried;
        if (full.starts_with("error: ") || has_data_sizes(call)) continue;
        const GraphRef graph = graph_of_operands(call, count);
        verify(*graph);
        EXPECT_EQ(graph->node(0).operands.size(), defs.size()) << label;
        EXPECT_EQ(outcome([&] { return internal::Plan::of(*graph)->run({}); }), full) << label;
      }
    }
  }
  EXPECT_GT(tried, 20);
}

TEST(AbsentOperands, TextsOfGraphsMayLeaveThemOut) {
  const GraphRef graph = parse_graph(
      "graph f(x: float32[1,4,4,1], w: float32[3,2,1,2]) -> (float32[1,2,3,2])\n"
      "  %2 = nn.conv2d(x, w)\n"
      "  return %2\n");
  verify(*graph);
  EXPECT_NE(to_text(*graph).find("conv2d(x, w, none)"), std::string::npos) << to_text(*graph);
  const Tensor x = ones({1, 4, 4, 1}), w = ones({3, 2, 1, 2});
  const OperandList list({&x, &w});
  EXPECT_EQ(internal::Plan::of(*graph)->run(list.view())[0].to_vector<float>(),
            nn::conv2d(x, w).to_vector<float>());
}

TEST(AbsentOperands, RequiredOnesAreStillRequired) {
  const std::string text = outcome([] {
    parse_graph(
        "graph f(x: float32[1,4,4,1]) -> (float32[1,2,3,2])\n"
        "  %1 = nn.conv2d(x)\n"
        "  return %1\n");
    return std::vector<Tensor>();
  });
  EXPECT_NE(text.find("conv2d: takes 2 operands (x, filter, bias), but 1 were given"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace etude::matrix
