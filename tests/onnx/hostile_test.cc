// SPDX-License-Identifier: Apache-2.0
// Models that were made to do harm. Each is an error that names the file and the place, or a
// model; none takes much memory or time. onnx_fuzz tries random bytes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/names.h"
#include "etude/onnx/onnx.h"
#include "tests/expect_error.h"
#include "tests/onnx/model_reader.h"
#include "tests/onnx/wire.h"
#include "tests/temp_folder.h"

namespace etude::onnx_test {
namespace {

namespace fs = std::filesystem;
using tests::expect_error;
using wire::Graph;
using wire::Texts;

class HostileModels : public ::testing::Test {
 protected:
  fs::path write(const std::string& content) const {
    std::ofstream(folder_.path() / "evil.onnx", std::ios::binary) << content;
    return folder_.path() / "evil.onnx";
  }
  // Loads a model. Returns the text of its error; "" if there is none.
  std::string refusal(const std::string& content, const onnx::LoadOptions& options = {}) const {
    try {
      onnx::load(write(content), options);
      return "";
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
      EXPECT_NE(std::string(error.what()).find("evil.onnx"), std::string::npos) << error.what();
      EXPECT_LT(std::string(error.what()).size(), 5000U);
      return error.what();
    }
  }
  const internal::TempFolder folder_;
};

// One node "z" on inputs of these sizes.
Graph one_node(const std::string& op, const std::vector<std::vector<int64_t>>& inputs,
               const std::string& rest = "", const Texts& results = {"z"}) {
  Graph out{{}, {}, {wire::open_port("z")}};
  Texts names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    out.inputs.push_back(wire::port(names.back(), inputs[i]));
  }
  out.nodes.push_back(wire::node(op, names, results, rest));
  return out;
}

// A network, a loop with a branch, and a call of a function.
std::vector<std::string> small_models() {
  const std::string weight(32, '\x3f');
  Graph network{{wire::node("MatMul", {"x", "w"}, {"y"}), wire::node("Relu", {"y"}, {"z"})},
                {wire::port("x", {2, 4})},
                {wire::port("z", {2, 2})},
                {wire::tensor("w", 1, {4, 2}, weight)}};
  const Graph then{{wire::node("Exp", {"s"}, {"a"})}, {}, {wire::open_port("a")}};
  const Graph other{{wire::node("Neg", {"s"}, {"b"})}, {}, {wire::open_port("b")}};
  const Graph body{{wire::node("Identity", {"g"}, {"h"}),
                    wire::node("If", {"c"}, {"t"},
                               wire::graph_attribute("then_branch", then.text()) +
                                   wire::graph_attribute("else_branch", other.text()))},
                   {wire::port("i", {}, 7), wire::port("g", {}, 9), wire::port("s", {2})},
                   {wire::port("h", {}, 9), wire::open_port("t")}};
  Graph loop{
      {wire::node("Loop", {"m", "", "x"}, {"z"}, wire::graph_attribute("body", body.text()))},
      {wire::port("x", {2}), wire::port("c", {}, 9)},
      {wire::open_port("z")},
      {wire::ints("m", {3})}};
  Graph call{{wire::node("twice", {"x"}, {"z"}, wire::own() + wire::integer("axis", 1))},
             {wire::port("x", {2, 3})},
             {wire::open_port("z")}};
  const std::string twice =
      wire::function("twice", {"a"}, {"b"},
                     {wire::node("Add", {"a", "a"}, {"c"}),
                      wire::node("Softmax", {"c"}, {"b"}, wire::reference("axis", "axis"))},
                     wire::bytes(6, "axis"));
  return {wire::model(network), wire::model(loop), wire::model(call, 17, twice)};
}

TEST_F(HostileModels, EveryTruncationIsAnErrorOrAModel) {
  for (const std::string& whole : small_models()) {
    EXPECT_EQ(refusal(whole), "");
    int errors = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      errors += refusal(whole.substr(0, size)).empty() ? 0 : 1;
    }
    EXPECT_GT(errors, static_cast<int>(whole.size()) - 40);
  }
}

TEST_F(HostileModels, ChangedBitsAreErrorsOrModels) {
  uint64_t random = 7;
  for (const std::string& whole : small_models()) {
    int errors = 0;
    for (int i = 0; i < 700; ++i) {
      random = random * 6364136223846793005ull + 1442695040888963407ull;
      std::string damaged = whole;
      damaged[(random >> 20) % whole.size()] ^= static_cast<char>(1U << (random >> 61));
      errors += refusal(damaged, {.max_loop_steps = 100}).empty() ? 0 : 1;
    }
    EXPECT_GT(errors, 100);
  }
}

TEST_F(HostileModels, ManyNodesTakeLinearTime) {
  Graph chain{{}, {wire::port("v0", {2})}, {wire::open_port("v100000")}};
  for (int i = 0; i < 100'000; ++i) {
    chain.nodes.push_back(
        wire::node("Relu", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)}));
  }
  EXPECT_EQ(refusal(wire::model(chain)), "");
  // A body that runs often while the model is loaded, since its state is known.
  Graph body{{wire::node("Identity", {"g"}, {"h"})},
             {wire::port("i", {}, 7), wire::port("g", {}, 9), wire::port("v0", {2}, 7)},
             {wire::port("h", {}, 9), wire::open_port("v1000")}};
  for (int i = 0; i < 1000; ++i) {
    body.nodes.push_back(
        wire::node("Abs", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)}));
  }
  Graph loop{
      {wire::node("Loop", {"m", "", "x"}, {"z"}, wire::graph_attribute("body", body.text()))},
      {},
      {wire::open_port("z")},
      {wire::ints("m", {1000}), wire::ints("x", {1, 2})}};
  const std::string error = refusal(wire::model(loop));
  EXPECT_NE(error.find("runs too often"), std::string::npos) << error;
}

// A sparse file: the error comes before 3 GiB are read.
TEST_F(HostileModels, AFileOfMoreThanTwoGiBIsRefusedUnread) {
  fs::resize_file(write("x"), uint64_t{3} << 30);
  expect_error(
      [&] { onnx::load(folder_.path() / "evil.onnx"); }, ErrorCode::kInvalidArgument,
      {"evil.onnx has 3221225472 bytes, but a model of ONNX has at most 2147483647. Larger "
       "models keep their weights in files beside the model (external data)"});
}

TEST_F(HostileModels, ALoopOfTooManyStepsIsNamed) {
  const Graph body{{wire::node("Identity", {"g"}, {"h"}), wire::node("Relu", {"s"}, {"t"})},
                   {wire::port("i", {}, 7), wire::port("g", {}, 9), wire::port("s", {2})},
                   {wire::port("h", {}, 9), wire::open_port("t")}};
  const Graph loop{
      {wire::node("Loop", {"m", "", "x"}, {"z"}, wire::graph_attribute("body", body.text()))},
      {wire::port("x", {2})},
      {wire::open_port("z")},
      {wire::ints("m", {std::numeric_limits<int64_t>::max()})}};
  const std::string error = refusal(wire::model(loop));
  EXPECT_NE(error.find("it is a loop of 9223372036854775807 steps whose condition stays true, but "
                       "at most 2147483648 steps are imported"),
            std::string::npos)
      << error;
}

// A fault that is the same at all sizes has no advice on sizes.
TEST_F(HostileModels, OnlyFaultsOfSizesNameTheOpenSizes) {
  const auto text_of = [&](const std::string& op, const Texts& inputs) {
    // A port whose first size is called n.
    const std::string shape =
        wire::bytes(1, wire::bytes(2, "n")) + wire::bytes(1, wire::number(1, 4));
    const std::string type = wire::bytes(1, wire::number(1, 1) + wire::bytes(2, shape));
    return refusal(wire::model({{wire::node(op, inputs, {"z"})},
                                {wire::bytes(1, "x") + wire::bytes(2, type)},
                                {wire::open_port("z")},
                                {wire::ints("shape", {3, 7})}}));
  };
  const std::string other = text_of("Gather", {"x"}), sizes = text_of("Reshape", {"x", "shape"});
  EXPECT_NE(other, "");
  EXPECT_EQ(other.find("The open sizes are"), std::string::npos) << other;
  EXPECT_NE(sizes.find("The open sizes are n"), std::string::npos) << sizes;
}

TEST_F(HostileModels, LongNamesAreCutInErrors) {
  const std::string name(10'000'000, 'n');
  Graph graph = one_node("Relu", {{2}});
  graph.nodes = {wire::node(name, {"x0"}, {"z"})};
  EXPECT_NE(refusal(wire::model(graph)).find("there is no such operator"), std::string::npos);
  graph.nodes = {wire::node("Relu", {name}, {"z"})};
  EXPECT_NE(refusal(wire::model(graph)).find("no earlier node computes it"), std::string::npos);
  graph.nodes = {wire::node("Relu", {"x0"}, {"z"}, wire::integer(name, 1))};
  EXPECT_NE(refusal(wire::model(graph)).find("is unknown"), std::string::npos);
  graph = one_node("Relu", {{2}});
  graph.inputs = {wire::open_port(name)};
  EXPECT_NE(refusal(wire::model(graph)), "");
  graph.inputs = {wire::port(name, {-1})};
  EXPECT_NE(refusal(wire::model(graph)), "");
  graph = one_node("Relu", {{2}});
  graph.outputs = {wire::open_port(name)};
  EXPECT_NE(refusal(wire::model(graph)), "");
  const std::string domain = wire::bytes(7, name);
  EXPECT_NE(refusal(wire::model(one_node("Relu", {{2}}, domain))), "");
}

// A body that reads its own result, or the result of the node that it is in.
TEST_F(HostileModels, CyclesThroughBodiesAreRefused) {
  for (const char* source : {"t", "z"}) {
    const Graph branch{{wire::node("Relu", {source}, {"t"})}, {}, {wire::open_port("t")}};
    Graph graph{{wire::node("If", {"c"}, {"z"},
                            wire::graph_attribute("then_branch", branch.text()) +
                                wire::graph_attribute("else_branch", branch.text()))},
                {wire::port("c", {}, 9)},
                {wire::open_port("z")}};
    expect_error([&] { onnx::load(write(wire::model(graph))); }, ErrorCode::kInvalidArgument,
                 {"evil.onnx: node 'node_Relu' (Relu): its input '" + std::string(source) + "'",
                  "no earlier node computes it"});
  }
}

// All attributes of all operators, with each kind of value.
TEST_F(HostileModels, AttributesOfAWrongKindAreNamed) {
  const Graph body{{wire::node("Relu", {"x0"}, {"t"})}, {}, {wire::open_port("t")}};
  std::string text, real, reals, integers;
  protozero::pbf_writer(real).add_float(2, 0.5F);
  protozero::pbf_writer(reals).add_float(7, 0.5F);
  protozero::pbf_writer(integers).add_int64(8, 1);
  const Texts values = {real + wire::number(20, 1),
                        wire::number(3, 1) + wire::number(20, 2),
                        wire::bytes(4, "text") + wire::number(20, 3),
                        wire::bytes(5, wire::ints("t", {1})) + wire::number(20, 4),
                        wire::bytes(6, body.text()) + wire::number(20, 5),
                        reals + wire::number(20, 6),
                        integers + wire::number(20, 7),
                        wire::bytes(9, "text") + wire::number(20, 8),
                        wire::bytes(10, wire::ints("t", {1})),
                        wire::bytes(21, "other"),
                        wire::number(20, 99),
                        ""};
  int errors = 0, models = 0;
  for (const onnx::importing::Import& row : onnx::importing::all_imports()) {
    for (const std::string_view attribute : onnx::importing::words_of(row.attributes)) {
      for (const std::string& value : values) {
        const Graph graph = one_node(std::string(row.op), {{2, 3, 4, 4}, {2, 3, 4, 4}},
                                     wire::attribute(std::string(attribute), value));
        (refusal(wire::model(graph, 21)).empty() ? models : errors) += 1;
      }
    }
  }
  EXPECT_GT(errors, 2000);
  EXPECT_GT(models, 50);
}

TEST_F(HostileModels, SizesThatOverflowAreNamed) {
  const int64_t large = int64_t{1} << 62;
  Graph graph = one_node("Relu", {{2}});
  graph.constants = {wire::tensor("w", 1, {large, 4, large}, "")};
  EXPECT_NE(refusal(wire::model(graph)).find("offset"), std::string::npos);
  graph.constants = {wire::tensor("w", 1, {-1}, "")};
  EXPECT_NE(refusal(wire::model(graph)).find("has the sizes [-1]"), std::string::npos);
  graph.constants = {wire::tensor("w", 1, {4, 4}, "")};
  EXPECT_NE(refusal(wire::model(graph)).find("which has 64 bytes, but there are 0"),
            std::string::npos);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{large, large}, {large}, {0, large, large}}) {
    EXPECT_NE(refusal(wire::model(one_node("Relu", {sizes}))), "");
  }
  EXPECT_NE(refusal(wire::model(one_node("Relu", {std::vector<int64_t>(100, 2)}))), "");
}

TEST_F(HostileModels, AxesOutsideOfTheRankAreNamed) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  for (const int64_t axis : {int64_t{-3}, int64_t{2}, least, -(least + 1)}) {
    for (const char* op : {"Softmax", "Gather", "Concat", "ArgMax", "Split", "LayerNormalization",
                           "Flatten", "CumSum", "TopK", "OneHot", "Unique"}) {
      if (std::string(op) == "Flatten" && axis == 2) continue;  // all axes come before
      const std::string error =
          refusal(wire::model(one_node(op, {{2, 3}, {2, 3}}, wire::integer("axis", axis))));
      EXPECT_NE(error, "") << op << axis;
    }
  }
  const std::vector<int64_t> axes = {-3, least};
  for (const int64_t axis : axes) {
    for (const char* op : {"Squeeze", "Unsqueeze", "ReduceSum"}) {
      Graph graph = one_node(op, {{2, 3}});
      graph.nodes = {wire::node(op, {"x0", "axes"}, {"z"})};
      graph.constants = {wire::ints("axes", {axis, axis})};
      EXPECT_NE(refusal(wire::model(graph)), "") << op << axis;
    }
  }
}

TEST_F(HostileModels, BodiesWithOtherInputsOrResultsAreNamed) {
  const auto refusal_of = [&](const std::string& op, const Texts& inputs, const Graph& body,
                              const std::string& attribute, const std::string& rest = "") {
    Graph graph{
        {wire::node(op, inputs, {"z"}, wire::graph_attribute(attribute, body.text()) + rest)},
        {wire::port("x", {3, 2}), wire::port("c", {}, 9)},
        {wire::open_port("z")},
        {wire::ints("m", {3})}};
    return refusal(wire::model(graph));
  };
  const Graph empty{{}, {}, {}};
  const Graph one{
      {wire::node("Relu", {"a"}, {"b"})}, {wire::port("a", {2})}, {wire::open_port("b")}};
  EXPECT_NE(refusal_of("Loop", {"m", "", "x"}, empty, "body").find("its body has 0 inputs"),
            std::string::npos);
  EXPECT_NE(refusal_of("Loop", {"m", "", "x"}, one, "body"), "");
  EXPECT_NE(refusal_of("Loop", {"m"}, one, "body"), "");
  EXPECT_NE(refusal_of("Loop", {}, empty, "body"), "");
  const auto count = [](int64_t n) { return wire::integer("num_scan_inputs", n); };
  for (const int64_t n : {int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{1} << 62}) {
    EXPECT_NE(refusal_of("Scan", {"x"}, one, "body", count(n)), "") << n;
  }
  EXPECT_NE(refusal_of("Scan", {"x"}, empty, "body", count(1)), "");
  EXPECT_NE(refusal_of("Scan", {"x", "x"}, one, "body", count(1)), "");
  EXPECT_NE(refusal_of("Scan", {}, one, "body", count(1)), "");
  EXPECT_EQ(refusal_of("Scan", {"x"}, one, "body", count(1)), "");
  EXPECT_NE(refusal_of("If", {"c"}, one, "then_branch"), "");
  EXPECT_NE(refusal_of("If", {"c"}, empty, "then_branch",
                       wire::graph_attribute("else_branch", one.text())),
            "");
}

TEST_F(HostileModels, FunctionsThatCallThemselvesAreRefused) {
  const auto call = [](const std::string& name) {
    return wire::node(name, {"a"}, {"b"}, wire::own());
  };
  Graph graph{
      {wire::node("f", {"x"}, {"z"}, wire::own())}, {wire::port("x", {2})}, {wire::open_port("z")}};
  const std::string f = wire::function("f", {"a"}, {"b"}, {call("g")});
  const std::string g = wire::function("g", {"a"}, {"b"}, {call("f")});
  EXPECT_NE(refusal(wire::model(graph, 17, f + g))
                .find("evil.onnx: function 'g': node 'node_f' (own.f): the function calls itself"),
            std::string::npos);
  EXPECT_NE(refusal(wire::model(graph, 17, f + f)).find("two functions are called 'own.f'"),
            std::string::npos);
  // A chain of functions, and functions that call the next one twice.
  std::string chain, tree;
  for (int i = 0; i < 5000; ++i) {
    const std::string name = i == 0 ? "f" : "f" + std::to_string(i);
    chain += wire::function(name, {"a"}, {"b"}, {call("f" + std::to_string(i + 1))});
  }
  EXPECT_NE(refusal(wire::model(graph, 17, chain)).find("levels are read"), std::string::npos);
  for (int i = 0; i < 60; ++i) {
    const std::string name = i == 0 ? "f" : "f" + std::to_string(i);
    const std::string next = "f" + std::to_string(i + 1);
    tree += wire::function(
        name, {"a"}, {"b"},
        {wire::node(next, {"a"}, {"c"}, wire::own()), wire::node(next, {"c"}, {"b"}, wire::own())});
  }
  tree += wire::function("f60", {"a"}, {"b"}, {wire::node("Relu", {"a"}, {"b"})});
  EXPECT_NE(refusal(wire::model(graph, 17, tree)).find("runs too often"), std::string::npos);
}

TEST_F(HostileModels, CallsOfFunctionsAreChecked) {
  Graph graph{{wire::node("f", {"x", "x"}, {"z"}, wire::own())},
              {wire::port("x", {2})},
              {wire::open_port("z")}};
  const auto with = [&](const std::string& function) {
    return refusal(wire::model(graph, 17, function));
  };
  EXPECT_NE(with(wire::function("f", {"a"}, {"b"}, {})).find("it has 2 inputs and 1 results, but"),
            std::string::npos);
  EXPECT_NE(with(wire::function("f", {"a", "a"}, {"b"}, {})).find("two inputs 'a'"),
            std::string::npos);
  EXPECT_NE(with(wire::function("f", {"a", "c"}, {"b"}, {})).find("which no node computes"),
            std::string::npos);
  // The values of the graph around a function are not its values.
  EXPECT_NE(with(wire::function("f", {"a", "c"}, {"b"}, {wire::node("Relu", {"x"}, {"b"})}))
                .find("function 'f': node 'node_Relu' (Relu): its input 'x'"),
            std::string::npos);
  EXPECT_NE(refusal(wire::model(one_node("Softmax", {{2}}, wire::reference("axis", "a"))))
                .find("refers to an attribute 'a' of a function, but the node is in no function"),
            std::string::npos);
}

}  // namespace
}  // namespace etude::onnx_test
