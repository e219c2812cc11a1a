// SPDX-License-Identifier: Apache-2.0
// Every rewrite rule of every record keeps all bits of every dtype, and alone changes its sample. A
// new rule needs nothing here: its sample is in the record.
#include "tests/passes/rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/passes/pipeline.h"
#include "etude/plan/plan.h"
#include "tests/passes/random_values.h"

namespace etude::tests {
namespace {

// All rules, or all but one, as a PassScope takes them.
std::string names(const RewriteDef* without = nullptr) {
  std::string out;
  for (const Rule& rule : all_rules()) {
    if (rule.def != without) out += (out.empty() ? "" : ",") + std::string(rule.def->name);
  }
  return out;
}

GraphRef rewritten(const Graph& graph) {
  for (const Pass& pass : passes()) {
    if (pass.name == "rewrite_calls") return pass.run(graph);
  }
  return {};
}

std::vector<Tensor> planned(const Graph& graph, const std::vector<Tensor>& inputs) {
  const PassScope off("all");
  const OperandList list{std::span<const Tensor>(inputs)};
  const Values out = internal::Plan::of(graph)->run(list.view());
  return {out.begin(), out.end()};
}

class Rules : public ::testing::TestWithParam<Rule> {};

TEST_P(Rules, KeepAllBits) {
  ASSERT_FALSE(dtypes_of(GetParam()).empty());
  for (const DType dtype : dtypes_of(GetParam())) {
    const GraphRef before = parse_graph(sample_of(GetParam(), dtype));
    const GraphRef after = rewritten(*before);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const std::vector<Tensor> inputs = random_inputs(*before, seed);
      const std::vector<Tensor> want = interpret(*before, inputs), got = interpret(*after, inputs);
      const std::vector<Tensor> runs = planned(*after, inputs);
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_TRUE(same_value(got[i], want[i]) && same_value(runs[i], want[i]))
            << name(dtype) << " seed " << seed << "\n"
            << to_text(*before) << to_text(*after) << got[i] << "\n"
            << want[i];
      }
    }
  }
}

TEST_P(Rules, DoWhatTheySay) {
  const RewriteDef& rule = *GetParam().def;
  const GraphRef graph = parse_graph(sample_of(GetParam(), dtypes_of(GetParam()).front()));
  const PassScope others(names(&rule));
  const GraphRef after = rewritten(*graph);
  EXPECT_FALSE(after->same(*graph)) << rule.name << " changes nothing in\n" << to_text(*graph);
  const PassScope off(rule.name);
  EXPECT_EQ(rewritten(*graph).get(), graph.get());
}

INSTANTIATE_TEST_SUITE_P(Records, Rules, ::testing::ValuesIn(all_rules()),
                         [](const auto& info) { return std::string(info.param.def->name); });

TEST(RuleNames, AreDistinct) {
  std::vector<std::string_view> seen;
  for (const Rule& rule : all_rules()) {
    EXPECT_EQ(std::ranges::find(seen, rule.def->name), seen.end()) << rule.def->name;
    seen.push_back(rule.def->name);
  }
}

}  // namespace
}  // namespace etude::tests
