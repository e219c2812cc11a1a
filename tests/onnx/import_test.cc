// SPDX-License-Identifier: Apache-2.0
// Models that are loaded: names, sizes, state and training, and the texts of refusals.
// nodes_test.py compares the operators with the tests of the ONNX project.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

#include "etude/etude.h"
#include "etude/onnx/onnx.h"
#include "etude/onnx/write.h"
#include "tests/expect_error.h"
#include "tests/onnx/model_reader.h"
#include "tests/temp_folder.h"

namespace etude::onnx_test {
namespace {

namespace fs = std::filesystem;
using onnx::internal::Attribute;
using onnx::internal::GraphModel;
using onnx::internal::Model;
using tests::expect_error;

class OnnxImport : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  // Writes a model, as another program would.
  fs::path write(const GraphModel& graph, int64_t opset = 17) const {
    onnx::internal::write_model(path("model.onnx"), Model{opset, graph, "", {}}, int64_t{1} << 30);
    return path("model.onnx");
  }
  // Writes these bytes.
  fs::path write_bytes(const std::string& bytes) const {
    std::ofstream(path("bytes.onnx"), std::ios::binary) << bytes;
    return path("bytes.onnx");
  }
  const internal::TempFolder folder_;
};

struct Mlp {
  nn::Dense hidden{4, 8, {.activation = nn::relu}};
  nn::Dense out{8, 3};
  Tensor operator()(const Tensor& x) const { return out(hidden(x)); }
};

auto mlp_function() {
  return function([](const Mlp& m, const Tensor& x) { return nn::softmax(m(x)); },
                  {.name = "predict", .arg_names = {"mlp", "x"}});
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && array_equal(a, b).item<bool>();
}

// One node on inputs x, y, ... of these types, with the output z.
GraphModel one_node(const std::string& op, const std::vector<onnx::internal::Port>& inputs,
                    std::vector<Attribute> attributes = {}, DType result = kFloat32) {
  GraphModel out;
  out.name = "graph";
  out.inputs = inputs;
  out.outputs = {{"z", result, {}}};
  onnx::internal::Node node{op, "the_node", "", {}, {"z"}, std::move(attributes)};
  for (const onnx::internal::Port& port : inputs) node.inputs.push_back(port.name);
  out.nodes.push_back(node);
  return out;
}
onnx::internal::Port port(const std::string& name, const std::vector<onnx::internal::Axis>& axes,
                          DType dtype = kFloat32) {
  return {name, dtype, axes};
}

TEST_F(OnnxImport, OurModelReturnsEqualBits) {
  const Mlp mlp;
  const auto predict = mlp_function();
  predict(mlp, zeros({2, 4}));
  predict(mlp, zeros({5, 4}));
  onnx::save(path("mlp.onnx"), saved::bind(predict, mlp));
  const saved::Program program = onnx::load(path("mlp.onnx"));
  EXPECT_EQ(program.functions(), std::vector<std::string>{"predict"});
  const saved::Function f = program.function("predict");
  EXPECT_EQ(f.arguments(), std::vector<std::string>{"x"});
  EXPECT_EQ(f.signatures()[0].to_string(), "(x: float32[n,4])");
  const auto typed = f.as<Tensor(const Tensor&)>();
  for (const int64_t n : {1, 2, 7, 64}) {
    const Tensor x = random::normal({n, 4});
    EXPECT_TRUE(same_bits(typed(x), predict(mlp, x))) << n;
  }
  EXPECT_TRUE(same_bits(program.variable("mlp/hidden/weight"), mlp.hidden.weight));
  EXPECT_EQ(program.variables().size(), 4U);
  EXPECT_EQ(f.trainable_variables().size(), 4U);
}

TEST_F(OnnxImport, ALoadedModelIsSavedStagedBatchedAndTrained) {
  const Mlp mlp;
  const auto predict = mlp_function();
  predict(mlp, zeros({2, 4}));
  predict(mlp, zeros({5, 4}));
  onnx::save(path("mlp.onnx"), saved::bind(predict, mlp));
  const saved::Program program = onnx::load(path("mlp.onnx"));
  const saved::Function f = program.function("predict");
  const auto typed = f.as<Tensor(const Tensor&)>();
  const Tensor x = random::normal({6, 4});
  saved::save(path("folder").string(), program);
  const auto again =
      saved::load(path("folder").string()).function("predict").as<Tensor(const Tensor&)>();
  EXPECT_TRUE(same_bits(again(x), typed(x)));
  onnx::save(path("again.onnx"), f);
  const auto second =
      onnx::load(path("again.onnx")).function("predict").as<Tensor(const Tensor&)>();
  EXPECT_TRUE(same_bits(second(x), typed(x)));
  const auto staged = function([&](const Tensor& v) { return typed(v) * 2.0F; });
  EXPECT_TRUE(same_bits(staged(x), typed(x) * 2.0F));
  EXPECT_TRUE(same_bits(vmap([&](const Tensor& v) { return typed(v); })(stack({x, x + 1.0F})),
                        stack({typed(x), typed(x + 1.0F)})));
  const GraphRef closed = f.closed_graph({{"x", x}});
  EXPECT_TRUE(same_bits(interpret(*closed, std::vector<Tensor>{x})[0], typed(x)));

  const std::vector<Variable> weights = f.trainable_variables();
  const auto loss = [&](const std::vector<Variable>&) { return -mean(log(typed(x).at(kAll, 0))); };
  // The gradient of the model in C++ is the same.
  const Tensor slope = gradient(
      [&](const Tensor& weight) {
        Mlp m = mlp;
        m.hidden.weight = weight;
        return -mean(log(nn::softmax(m(x)).at(kAll, 0)));
      },
      mlp.hidden.weight);
  const std::vector<Tensor> slopes = gradient(loss, weights);
  const auto hidden = std::ranges::find_if(
      weights, [](const Variable& v) { return v.name() == "mlp/hidden/weight"; });
  ASSERT_TRUE(hidden != weights.end());
  EXPECT_TRUE(
      allclose(slopes[static_cast<std::size_t>(hidden - weights.begin())], slope).item<bool>());
  const float before = loss(weights).item<float>();
  optim::SGD sgd({.lr = 0.5});
  for (int i = 0; i < 10; ++i) saved::update(sgd, weights, gradient(loss, weights));
  EXPECT_LT(loss(weights).item<float>(), before);
}

TEST_F(OnnxImport, OptionsFixSizesAndInputs) {
  GraphModel graph =
      one_node("Add", {port("x", {{0, "batch"}, {3}}), port("y", {{0, "batch"}, {3}})});
  const auto text = [&](const onnx::LoadOptions& options) {
    return onnx::load(write(graph), options).function("predict").signatures()[0].to_string();
  };
  EXPECT_EQ(text({}), "(x: float32[n,3], y: float32[n,3])");
  EXPECT_EQ(text({.sizes = {{"batch", 8}}}), "(x: float32[8,3], y: float32[8,3])");
  EXPECT_EQ(text({.shapes = {{"x", {2, 3}}, {"y", {2, 3}}}}), "(x: float32[2,3], y: float32[2,3])");
  const saved::Program program =
      onnx::load(write(graph), {.sizes = {{"batch", 2}}, .constants = {{"y", ones({2, 3})}}});
  EXPECT_EQ(program.function("predict").arguments(), std::vector<std::string>{"x"});
  const auto f = program.function("predict").as<Tensor(const Tensor&)>();
  EXPECT_TRUE(same_bits(f(zeros({2, 3})), ones({2, 3})));
  EXPECT_EQ(onnx::load(write(graph), {.function = "sum"}).functions(),
            std::vector<std::string>{"sum"});
}

// Values of inputs take the dtypes of the inputs.
TEST_F(OnnxImport, FixedInputsHaveTheTypesOfTheModel) {
  const GraphModel graph = one_node("Add", {port("x", {{2}}), port("y", {{0, "n"}})});
  const auto sum_with = [&](const Tensor& y) {
    return onnx::load(write(graph), {.constants = {{"y", y}}})
        .function("predict")
        .as<Tensor(const Tensor&)>()(ones({2}));
  };
  const Tensor halves(std::vector<double>{0.5, 0.1});
  EXPECT_TRUE(same_bits(sum_with(halves), ones({2}) + astype(halves, kFloat32)));
  EXPECT_TRUE(
      same_bits(sum_with(Tensor(std::vector<int64_t>{3, -1})), Tensor(std::vector<float>{4, 0})));
  const auto refuse = [&](const onnx::LoadOptions& options,
                          const std::vector<std::string_view>& parts) {
    expect_error([&] { onnx::load(write(graph), options); }, ErrorCode::kInvalidArgument, parts);
  };
  refuse({.constants = {{"y", Tensor(std::vector<int64_t>{1, 16'777'217})}}},
         {"onnx::load: LoadOptions::constants has int64[2] for input 'y', but some elements do not "
          "fit float32, its dtype in ",
          "model.onnx"});
  refuse({.constants = {{"y", astype(ones({2}), kComplex64)}}},
         {"LoadOptions::constants has complex64[2] for input 'y', but some elements do not fit"});
  refuse({.constants = {{"y", ones({2, 1})}}},
         {"LoadOptions::constants has float32[2,1] for input 'y', whose shape in ", " is [n]"});
  refuse({.constants = {{"x", ones({3})}}},
         {"LoadOptions::constants has float32[3] for input 'x', whose shape in ", " is [2]"});
  refuse({.constants = {{"y", Tensor()}}}, {"LoadOptions::constants has no value for input 'y'"});
  refuse({.shapes = {{"y", {2}}}, .constants = {{"y", ones({2})}}},
         {"LoadOptions::shapes names 'y', but LoadOptions::constants has its value"});
  refuse({.sizes = {{"n", -2}}},
         {"LoadOptions::sizes has the size -2 for 'n', but a size is at least 0"});
}

// Calls have the lines of the user, or the numbers of their nodes in the file.
TEST_F(OnnxImport, CallsHaveLines) {
  const auto text = [](const saved::Program& program) {
    return program.function("predict").graphs()[0].to_string();
  };
  const std::string foreign = text(onnx::load(write(one_node("Relu", {port("x", {{2}})}))));
  EXPECT_NE(foreign.find("model.onnx:1"), std::string::npos) << foreign;
  const auto twice = function([](const Tensor& x) { return exp(x) * 2.0F; }, {.arg_names = {"x"}});
  twice(zeros({2}));
  onnx::save(path("twice.onnx"), twice);
  const std::string ours = text(onnx::load(path("twice.onnx")));
  EXPECT_NE(ours.find("import_test.cc:"), std::string::npos) << ours;
}

// A chain of functions of images needs one transpose at its beginning and one at its end.
TEST_F(OnnxImport, ImagesKeepChannelsLast) {
  GraphModel graph = one_node("MaxPool", {port("x", {{2}, {3}, {8}, {8}})},
                              {{"kernel_shape", std::vector<int64_t>{2, 2}}});
  graph.nodes[0].outputs = {"a"};
  graph.nodes.push_back({"Relu", "relu", "", {"a"}, {"b"}, {}});
  graph.nodes.push_back({"Add", "add", "", {"a", "b"}, {"c"}, {}});
  graph.nodes.push_back(
      {"AveragePool", "pool", "", {"c"}, {"d"}, {{"kernel_shape", std::vector<int64_t>{2, 2}}}});
  graph.nodes.push_back({"GlobalAveragePool", "mean", "", {"d"}, {"z"}, {}});
  const saved::Program program = onnx::load(write(graph));
  const Graph& traced = program.function("predict").graphs()[0].graph();
  std::vector<bool> is_read(traced.value_count());
  for (const GraphValue v : traced.outputs()) is_read[v] = true;
  int transposes = 0;
  for (std::size_t i = traced.size(); i-- > 0;) {
    const Graph::Node node = traced.node(i);
    if (!is_read[node.first_result]) continue;
    for (const GraphValue v : node.operands) is_read[v] = true;
    transposes += node.op.name() == "permute_dims" ? 1 : 0;
  }
  EXPECT_EQ(transposes, 2);
}

TEST_F(OnnxImport, UnknownOptionsAreRefused) {
  const GraphModel graph = one_node("Relu", {port("x", {{0, "batch"}, {3}})});
  const fs::path file = write(graph);
  expect_error(
      [&] {
        onnx::load(file, {.sizes = {{"bacth", 8}}});
      },
      ErrorCode::kNotFound,
      {"onnx::load: LoadOptions::sizes names 'bacth'", "no such open size. It has: batch"});
  expect_error(
      [&] {
        onnx::load(file, {.constants = {{"w", ones({1})}}});
      },
      ErrorCode::kNotFound, {"LoadOptions::constants names 'w'", "no such input. It has: x"});
  const fs::path fixed = write(one_node("Relu", {port("x", {{2}})}));
  expect_error(
      [&] {
        onnx::load(fixed, {.sizes = {{"batch", 8}}});
      },
      ErrorCode::kNotFound, {"no such open size. It has: none"});
  expect_error([&] { onnx::load(file, {.function = "a/b"}); }, ErrorCode::kInvalidArgument,
               {"LoadOptions::function is 'a/b'"});
  expect_error([&] { onnx::load(path("none.onnx")); }, ErrorCode::kNotFound, {"none.onnx"});
}

TEST_F(OnnxImport, RefusalsNameNodeAndOperator) {
  const auto load_node = [&](const std::string& op, std::vector<Attribute> attributes = {}) {
    return [=, this] { onnx::load(write(one_node(op, {port("x", {{2}, {3}})}, attributes))); };
  };
  expect_error(load_node("Rleu"), ErrorCode::kUnimplemented,
               {"model.onnx: node 'the_node' (Rleu): there is no such operator in opset 17",
                "Similar operators: ", "Relu"});
  expect_error(load_node("StringSplit"), ErrorCode::kUnimplemented,
               {"node 'the_node' (StringSplit): texts are not imported"});
  expect_error(load_node("SequenceAt"), ErrorCode::kUnimplemented, {"sequences are not imported"});
  expect_error(load_node("Softmax", {{"axes", int64_t{1}}}), ErrorCode::kUnimplemented,
               {"node 'the_node' (Softmax): the attribute 'axes' is unknown. Softmax has: axis"});
  expect_error(load_node("Softmax", {{"axis", int64_t{7}}}), ErrorCode::kInvalidArgument,
               {"node 'the_node' (Softmax): axis 7 is outside of the 2 axes"});
  expect_error(load_node("Softmax", {{"axis", std::string("last")}}), ErrorCode::kInvalidArgument,
               {"the attribute 'axis' is not an integer"});
  expect_error(load_node("Add"), ErrorCode::kInvalidArgument, {"the input 'B' is missing"});
  GraphModel many = one_node("Relu", {port("x", {{2}}), port("y", {{2}})});
  expect_error([&] { onnx::load(write(many)); }, ErrorCode::kInvalidArgument,
               {"it has 2 inputs, but Relu has at most 1 (X)"});
  expect_error(
      [&] { onnx::load(write(one_node("Relu", {port("x", {{2}})}), 28)); },
      ErrorCode::kUnimplemented,
      {"the model uses opset 28, but opsets 1 to 27 are imported", "onnx.version_converter"});
  const GraphModel wrong = one_node("MatMul", {port("x", {{2}, {3}}), port("y", {{4}, {5}})});
  expect_error([&] { onnx::load(write(wrong)); }, ErrorCode::kInvalidArgument,
               {"node 'the_node' (MatMul): ", "inner sizes"});
}

// An operand has fewer axes than its operator needs.
TEST_F(OnnxImport, OperandsWithoutAnAxisAreRefused) {
  const auto load_graph = [&](const GraphModel& graph) {
    return [=, this] { onnx::load(write(graph)); };
  };
  const std::vector<onnx::internal::Port> lstm = {port("x", {{3}, {2}, {4}}),
                                                  port("w", {{1}, {8}, {4}}),
                                                  port("r", {{1}, {8}, {2}}), port("b", {})};
  expect_error(load_graph(one_node("LSTM", lstm, {{"hidden_size", int64_t{2}}})),
               ErrorCode::kInvalidArgument,
               {"node 'the_node' (LSTM): ", "axis 0 is outside of the 0 axes of an operand"});
  const std::vector<onnx::internal::Port> integers = {port("x", {{1}, {1}, {3}, {3}}, kUInt8),
                                                      port("w", {}, kUInt8), port("a", {}, kUInt8),
                                                      port("c", {{2}}, kUInt8)};
  expect_error(load_graph(one_node("ConvInteger", integers, {}, kInt32)),
               ErrorCode::kInvalidArgument,
               {"node 'the_node' (ConvInteger): ", "axis 0 is outside of the 0 axes"});
}

TEST_F(OnnxImport, SizesThatDependOnElementsNeedValues) {
  const GraphModel graph =
      one_node("Reshape", {port("x", {{2}, {3}}), port("shape", {{1}}, kInt64)});
  expect_error(
      [&] { onnx::load(write(graph)); }, ErrorCode::kFailedPrecondition,
      {"node 'the_node' (Reshape): the input 'shape' ('shape') has to be known when the model is "
       "loaded",
       "LoadOptions::constants = {{\"shape\", ...}}"});
  const Tensor shape(std::vector<int64_t>{6});
  const auto f = onnx::load(write(graph), {.constants = {{"shape", shape}}})
                     .function("predict")
                     .as<Tensor(const Tensor&)>();
  EXPECT_EQ(f(ones({2, 3})).shape(), Shape{6});
}

TEST_F(OnnxImport, WrongGraphsAreRefused) {
  GraphModel cycle;
  cycle.outputs = {{"b", kFloat32, {}}};
  cycle.nodes = {{"Relu", "first", "", {"b"}, {"a"}, {}}, {"Relu", "second", "", {"a"}, {"b"}, {}}};
  expect_error([&] { onnx::load(write(cycle)); }, ErrorCode::kInvalidArgument,
               {"node 'first' (Relu): its input 'b'", "no earlier node computes it", "cycle"});
  GraphModel twice = one_node("Relu", {port("x", {{2}})});
  twice.nodes.push_back(twice.nodes[0]);
  expect_error([&] { onnx::load(write(twice)); }, ErrorCode::kInvalidArgument,
               {"its result 'z' has the name of another value"});
  GraphModel none = one_node("Relu", {port("x", {{2}})});
  none.nodes.clear();
  expect_error([&] { onnx::load(write(none)); }, ErrorCode::kInvalidArgument,
               {"the output 'z', which no node computes"});
  none.outputs.clear();
  expect_error([&] { onnx::load(write(none)); }, ErrorCode::kInvalidArgument,
               {"the model has no output"});
}

TEST_F(OnnxImport, HugeConstantsAreRefused) {
  GraphModel graph = one_node("ConstantOfShape", {});
  graph.nodes[0].inputs = {"shape"};
  graph.constants = {{"shape", Tensor(std::vector<int64_t>{1 << 20, 1 << 20})}};
  expect_error([&] { onnx::load(write(graph)); }, ErrorCode::kResourceExhausted,
               {"node 'the_node' (ConstantOfShape): its constants need", "set_read_limits()"});
  graph = one_node("Expand", {}, {}, kInt64);
  graph.nodes[0].inputs = {"x", "shape"};
  graph.constants = {{"x", Tensor(std::vector<int64_t>{1})},
                     {"shape", Tensor(std::vector<int64_t>{int64_t{1} << 40})}};
  expect_error([&] { onnx::load(write(graph)); }, ErrorCode::kResourceExhausted,
               {"its constants need"});
}

// A loop whose condition is always true.
GraphModel endless_loop() {
  auto body = std::make_shared<GraphModel>();
  body->name = "body";
  body->inputs = {{"i", kInt64, {}}, {"go_on", kBool, {}}, {"state", kFloat32, {}}};
  body->outputs = {{"still", kBool, {}}, {"next", kFloat32, {}}};
  body->nodes = {{"Identity", "a", "", {"go_on"}, {"still"}, {}},
                 {"Relu", "b", "", {"state"}, {"next"}, {}}};
  GraphModel out;
  out.inputs = {{"x", kFloat32, {}}};
  out.outputs = {{"z", kFloat32, {}}};
  out.constants = {{"yes", Tensor(true)}};
  out.nodes = {{"Loop", "the_loop", "", {"", "yes", "x"}, {"z"}, {{"body", body}}}};
  return out;
}

TEST_F(OnnxImport, LoopsWithoutEndHaveABudget) {
  expect_error([&] { onnx::load(write(endless_loop()), {.max_loop_steps = 100}); },
               ErrorCode::kResourceExhausted,
               {"node 'the_loop' (Loop): it is a loop with no limit, but at most 100 steps"});
}

// Products of sizes and attributes that do not fit in 64 bits.
TEST_F(OnnxImport, ExtremeAttributesAreRefused) {
  using Numbers = std::vector<int64_t>;
  constexpr int64_t kLarge = (int64_t{1} << 31) - 1, kLong = int64_t{1} << 47;
  GraphModel graph = one_node(
      "MaxUnpool", {port("x", {{1}, {1}, {kLong}}), port("i", {{1}, {1}, {kLong}}, kInt64)},
      {{"kernel_shape", Numbers{2}}, {"strides", Numbers{kLarge}}});
  expect_error([&] { onnx::load(write(graph)); }, ErrorCode::kInvalidArgument,
               {"node 'the_node' (MaxUnpool): the sizes and attributes of this call are too "
                "large: ",
                "does not fit in 64 bits"});
  graph = one_node("Col2Im", {port("x", {{1}, {1}, {int64_t{1} << 40}})},
                   {{"dilations", Numbers{kLarge, 1, 1}}});
  graph.nodes[0].inputs = {"x", "image", "block"};
  graph.constants = {{"image", Tensor(Numbers{1, 1 << 10, 1 << 30})},
                     {"block", Tensor(Numbers{1, 1, 1})}};
  expect_error([&] { onnx::load(write(graph)); }, ErrorCode::kInvalidArgument,
               {"node 'the_node' (Col2Im): the sizes and attributes of this call are too large: "});
  graph = one_node("Resize", {port("x", {{1}, {1 << 20}})},
                   {{"keep_aspect_ratio_policy", std::string("not_smaller")}});
  graph.nodes[0].inputs = {"x", "", "", "sizes"};
  graph.constants = {{"sizes", Tensor(Numbers{int64_t{1} << 62, 1})}};
  expect_error([&] { onnx::load(write(graph, 18)); }, ErrorCode::kInvalidArgument,
               {"node 'the_node' (Resize): the scale of axis 0 is 4.6"});
  graph = one_node("Attention", {port("q", {{1}, {2}, {3}, {4}}), port("k", {{1}, {2}, {3}, {4}}),
                                 port("v", {{1}, {2}, {3}, {4}}), port("mask", {})});
  expect_error([&] { onnx::load(write(graph, 23)); }, ErrorCode::kInvalidArgument,
               {"node 'the_node' (Attention): the mask is a single number"});
}

// A loop of 1000 steps, whose body has nodes that no result needs.
GraphModel loop_with_unneeded_nodes(std::size_t count) {
  auto body = std::make_shared<GraphModel>();
  body->name = "body";
  body->inputs = {{"i", kInt64, {}}, {"go_on", kBool, {}}, {"state", kFloat32, {}}};
  body->outputs = {{"go_on", kBool, {}}, {"state", kFloat32, {}}};
  body->nodes.assign(count, {"", "", "", {}, {"u"}, {}});
  GraphModel out;
  out.outputs = {{"z", kFloat32, {}}};
  out.constants = {{"limit", Tensor(std::vector<int64_t>{1000}, Shape{})},
                   {"yes", Tensor(true)},
                   {"x", Tensor(1.0F)}};
  out.nodes = {{"Loop", "the_loop", "", {"limit", "yes", "x"}, {"z"}, {{"body", body}}}};
  return out;
}

TEST_F(OnnxImport, WorkFollowsFromTheSizeOfTheFile) {
  const ReadLimits before = set_read_limits({.free_items = 20'000, .items_per_byte = 1});
  EXPECT_NO_THROW(onnx::load(write(loop_with_unneeded_nodes(1))));
  expect_error([&] { onnx::load(write(loop_with_unneeded_nodes(1000))); },
               ErrorCode::kResourceExhausted,
               {"node 'the_loop' (Loop): ",
                "graph 'body': it runs too often while the model is "
                "loaded, as in a loop without end"});
  // A node with many inputs takes longer than one with few.
  GraphModel graph = loop_with_unneeded_nodes(0);
  auto& body = *std::get<std::shared_ptr<GraphModel>>(graph.nodes[0].attributes[0].value);
  body.outputs[1].name = "next";
  body.nodes = {{"Sum", "sum", "", {"state"}, {"next"}, {}}};
  EXPECT_NO_THROW(onnx::load(write(graph)));
  body.nodes[0].inputs.assign(1000, "state");
  expect_error([&] { onnx::load(write(graph)); }, ErrorCode::kResourceExhausted,
               {"node 'sum' (Sum): it runs too often"});
  set_read_limits(before);
}

// Each open size has graphs of its own, for the size 1.
TEST_F(OnnxImport, OpenSizesHaveALimit) {
  const auto open = [&](std::size_t count) {
    GraphModel out = one_node("Relu", {port("x", {{2}})});
    for (std::size_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      out.inputs.push_back(port("i" + number, {{0, "n" + number}}));
    }
    return write(out);
  };
  expect_error([&] { onnx::load(open(257)); }, ErrorCode::kUnimplemented,
               {"model.onnx: the inputs have more than 256 open sizes. Fix some of them: "
                "LoadOptions::sizes = {{\"n256\", 8}}"});
}

// Outputs may have equal names.
TEST_F(OnnxImport, EqualNamesOfResultsGetNumbers) {
  GraphModel graph = one_node("Relu", {port("x", {{2}})});
  graph.outputs.assign(3, graph.outputs[0]);
  const saved::Program program = onnx::load(write(graph));
  const std::vector<saved::GraphSignature> signatures = program.function("predict").signatures();
  std::string names;
  for (const saved::Port& output : signatures[0].outputs) {
    names += output.name + " ";
  }
  EXPECT_EQ(names, "z z_2 z_3 ");
}

// The first bytes of a model, and models with changed bytes, are errors or models.
TEST_F(OnnxImport, DamagedFilesAreErrors) {
  const Mlp mlp;
  const auto predict = mlp_function();
  predict(mlp, zeros({2, 4}));
  onnx::save(path("mlp.onnx"), saved::bind(predict, mlp));
  const std::string bytes = content_of(path("mlp.onnx"));
  int errors = 0;
  const auto expect_named = [&](const std::string& damaged) {
    const fs::path file = write_bytes(damaged);
    try {
      onnx::load(file);
    } catch (const Error& error) {
      ++errors;
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
      EXPECT_NE(std::string(error.what()).find("bytes.onnx"), std::string::npos) << error.what();
    }
  };
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 64) {
    expect_named(bytes.substr(0, size));
  }
  EXPECT_GT(errors, 50);
  uint64_t random = 1;
  for (int i = 0; i < 300; ++i) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    std::string damaged = bytes;
    damaged[(random >> 20) % bytes.size()] ^= static_cast<char>(1U << ((random >> 60) % 8));
    expect_named(damaged);
  }
  expect_error([&] { onnx::load(write_bytes("no model")); }, ErrorCode::kDataLoss,
               {"bytes.onnx: offset 0: the file is no model of ONNX, or is damaged"});
  expect_error([&] { onnx::load(write_bytes("")); }, ErrorCode::kDataLoss,
               {"the file has no graph"});
}

// A graph in a graph in a graph ...
TEST_F(OnnxImport, DeepNestingIsRefused) {
  std::string graph;
  for (int i = 0; i < 300; ++i) {
    std::string attribute, node, outer;
    protozero::pbf_writer(attribute).add_message(6, graph);
    protozero::pbf_writer(node).add_message(5, attribute);
    protozero::pbf_writer(outer).add_message(1, node);
    graph = outer;
  }
  std::string model;
  protozero::pbf_writer(model).add_message(7, graph);
  expect_error([&] { onnx::load(write_bytes(model)); }, ErrorCode::kResourceExhausted,
               {"bytes.onnx", "levels"});
}

// A model whose constant w is in another file.
std::string with_external(const std::string& location, const std::string& offset) {
  std::string tensor, graph, node, port, model, opset;
  {
    protozero::pbf_writer to(tensor);
    const std::vector<int64_t> dims = {2};
    to.add_packed_int64(1, dims.begin(), dims.end());
    to.add_int32(2, 1);
    to.add_string(8, "w");
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>{"location", location}, {"offset", offset}}) {
      std::string entry;
      protozero::pbf_writer pair(entry);
      pair.add_string(1, key);
      pair.add_string(2, value);
      to.add_message(13, entry);
    }
    to.add_enum(14, 1);
  }
  {
    protozero::pbf_writer to(node);
    to.add_string(1, "w");
    to.add_string(2, "z");
    to.add_string(4, "Identity");
  }
  protozero::pbf_writer(port).add_string(1, "z");
  {
    protozero::pbf_writer to(graph);
    to.add_message(1, node);
    to.add_message(5, tensor);
    to.add_message(12, port);
  }
  protozero::pbf_writer(opset).add_int64(2, 17);
  protozero::pbf_writer to(model);
  to.add_message(7, graph);
  to.add_message(8, opset);
  return model;
}

TEST_F(OnnxImport, ExternalDataStaysInTheFolder) {
  const float values[] = {1.0F, 2.0F};
  std::ofstream(path("w.data"), std::ios::binary)
      .write(reinterpret_cast<const char*>(values), sizeof values);
  const auto load = [&](const std::string& location, const std::string& offset = "0") {
    return onnx::load(write_bytes(with_external(location, offset)));
  };
  EXPECT_TRUE(same_bits(load("w.data").variable("w"), Tensor({1.0F, 2.0F})));
  const auto expect_outside = [&](const std::string& location) {
    expect_error([&] { load(location); }, ErrorCode::kInvalidArgument,
                 {"bytes.onnx: offset ", "constant 'w' has external data in '" + location,
                  "outside of the folder of the model"});
  };
  expect_outside("../w.data");
  expect_outside((folder_.path() / "w.data").string());
  expect_outside("a/../../w.data");
  expect_error([&] { load("none.data"); }, ErrorCode::kNotFound,
               {"there is no such file. A model moves together with its external data"});
  fs::create_symlink(path("w.data"), path("link.data"));
  expect_error([&] { load("link.data"); }, ErrorCode::kInvalidArgument, {"which is a link"});
  fs::create_directory_symlink("/etc", path("etc"));
  expect_error([&] { load("etc/passwd"); }, ErrorCode::kInvalidArgument, {"which is a link"});
  expect_error(
      [&] { load("w.data", "4"); }, ErrorCode::kDataLoss,
      {"bytes.onnx: constant 'w' needs 8 bytes, but its external data is 8 bytes at offset "
       "4 of ",
       "w.data, which has 8 bytes. Export the model again"});
  expect_error([&] { load("w.data", "-4"); }, ErrorCode::kDataLoss,
               {"external data has the offset '-4'"});
}

}  // namespace
}  // namespace etude::onnx_test
