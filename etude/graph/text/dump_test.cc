// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/dump.h"

#include <limits>
#include <regex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "etude/graph/sample_graphs.h"

namespace etude {
namespace {

using tests::attrs_of;
using tests::attrs_op;
using tests::Draft;
using Json = nlohmann::json;

void expect_parts(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(GraphDot, ShowsNodesOperandsRolesAndLines) {
  expect_parts(
      to_dot(*tests::layer_graph()),
      {"digraph \"layer\" {\n", "g0_v0 [label=\"x\\nfloat32[2,3]\", tooltip=\"x\", shape=ellipse",
       "g0_v2 [label=\"*key\\nuint64[2]\", tooltip=\"*key\", shape=hexagon",
       "g0_v3 [label=\"^scale\\nfloat32[]\", tooltip=\"^scale\", shape=ellipse, style=\"filled,d",
       "g0_v4 [label=\"0.5\\nfloat32[]\", tooltip=\"%4\", shape=note",
       "g0_n0 [label=\"matmul\\n%5: float32[2,4]\", tooltip=\"train.cc:41\"];",
       "g0_v1 -> g0_n0 [label=\"y\", edgetooltip=\"layers[0]/w: float32[3,4]\"];",
       "g0_n3 -> g0_out0 [label=\"\""});
}

TEST(GraphDot, GraphsThatAreAttributesAreClusters) {
  expect_parts(to_dot(*tests::nested_graph()),
               {"apply_sample\\ngraph=@body~2\\n", "  subgraph cluster_1 {\n    label=\"@body\"",
                "    label=\"@layer\"", "    g3_v0 [label=\"x\\n"});
}

TEST(GraphDot, TellsSeveralResultsApartAndShowsAbsentOnes) {
  GraphBuilder build("f");
  const Draft x = build.add_input("x", intern_type(kFloat32, {4}));
  const Op& split = tests::op("split");
  const Draft parts = build.add_node(
      split, attrs_of(split, {{"parts_or_sizes", std::vector<int64_t>{2}}}), std::array{x});
  expect_parts(to_dot(*build.finish(std::array{parts + 1, GraphBuilder::kNoDraft})),
               {"g0_n0 -> g0_out0 [label=\"\", edgetooltip=\"%2: float32[2]\", taillabel=\"%2\"];",
                "g0_out1 [label=\"result 1: none\""});
}

// All quotes are closed on their line: names may hold anything.
TEST(GraphDot, QuotesWhatNamesHold) {
  const std::regex line(R"re(([^"\\]|"([^"\\]|\\.)*")*)re");
  for (const GraphRef& graph : tests::sample_graphs()) {
    const std::string text = to_dot(*graph);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      EXPECT_TRUE(std::regex_match(text.substr(at, end - at), line)) << text.substr(at, end - at);
      at = end + 1;
    }
  }
}

TEST(GraphJson, HasAllOfAGraph) {
  const Json json = Json::parse(to_json(*tests::layer_graph()));
  ASSERT_EQ(json["graphs"].size(), 1u);
  const Json& graph = json["graphs"][0];
  EXPECT_EQ(graph["name"], "layer");
  EXPECT_EQ(
      graph["inputs"][1],
      Json(
          {{"value", 1}, {"type", "float32[3,4]"}, {"name", "layers[0]/w"}, {"role", "argument"}}));
  EXPECT_EQ(graph["inputs"][2]["role"], "key");
  EXPECT_EQ(graph["inputs"][3]["role"], "capture");
  EXPECT_EQ(graph["constants"][0],
            Json({{"value", 4}, {"type", "float32[]"}, {"elements", "0.5"}}));
  const Json& node = graph["nodes"][0];
  EXPECT_EQ(node["op"], "matmul");
  EXPECT_EQ(node["operands"], Json({0, 1}));
  EXPECT_EQ(node["attributes"]["transpose_x"], false);
  EXPECT_EQ(node["results"][0], Json({{"value", 5}, {"type", "float32[2,4]"}}));
  EXPECT_EQ(node["file"], "train.cc");
  EXPECT_EQ(node["line"], 41);
  EXPECT_EQ(graph["outputs"], Json({8}));
}

TEST(GraphJson, AttributesHaveTheirKinds) {
  GraphBuilder build("f");
  const Draft x = build.add_input("x", intern_type(kFloat32, {2}));
  const double infinity = std::numeric_limits<double>::infinity();
  const std::array operands = {x, GraphBuilder::kNoDraft};
  const Draft y =
      build.add_node(attrs_op(),
                     attrs_of(attrs_op(), {{"scale", -infinity},
                                           {"mode", std::string("a\xff\"")},  // no UTF-8
                                           {"weights", std::vector<double>{0.5, infinity}},
                                           {"program", &tests::op("tanh").def().scalar}}),
                     operands);
  const Json node = Json::parse(
      to_json(*build.finish(std::array{y, GraphBuilder::kNoDraft})))["graphs"][0]["nodes"][0];
  EXPECT_EQ(node["op"], "samples.attrs_sample");
  EXPECT_EQ(node["operands"], Json({0, nullptr}));
  EXPECT_FALSE(node.contains("file"));
  EXPECT_EQ(node["attributes"], Json({{"flag", false},
                                      {"count", 3},
                                      {"scale", "-inf"},
                                      {"mode", "a\xef\xbf\xbd\""},
                                      {"axes", nullptr},
                                      {"kind", "float32"},
                                      {"weights", {0.5, "inf"}},
                                      {"program", "{tanh(x1)}"}}));
}

TEST(GraphJson, NamesGraphsThatAreAttributes) {
  const Json json = Json::parse(to_json(*tests::nested_graph()));
  ASSERT_EQ(json["graphs"].size(), 4u);
  EXPECT_EQ(json["graphs"][0]["nodes"][1]["attributes"]["graph"], "@body~2");
  EXPECT_EQ(json["graphs"][2]["name"], "body~2");
}

TEST(GraphJson, IsJsonWhateverTheGraph) {
  for (const GraphRef& graph : tests::sample_graphs()) {
    EXPECT_TRUE(Json::accept(to_json(*graph)));
  }
}

}  // namespace
}  // namespace etude
