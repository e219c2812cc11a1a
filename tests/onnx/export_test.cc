// SPDX-License-Identifier: Apache-2.0
// The structure of exported models, and the texts of refusals. models_test.py runs models.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/onnx/onnx.h"
#include "tests/expect_error.h"
#include "tests/onnx/model_reader.h"
#include "tests/temp_folder.h"

namespace etude::onnx_test {
namespace {

namespace fs = std::filesystem;
using tests::expect_error;

class OnnxExport : public ::testing::Test {
 protected:
  fs::path path(const char* name) const { return folder_.path() / name; }
  const internal::TempFolder folder_;
};

struct Net {
  nn::Conv2D conv{{3, 3}, 1, 2, {.padding = "same", .activation = nn::relu}};
  nn::MaxPool2D pool{2};
  nn::Conv2D second{{3, 3}, 2, 3, {.activation = nn::relu}};
  nn::Dense out{3 * 2 * 2, 4};
  Tensor operator()(const Tensor& image) const {
    return out(flatten(second(pool(conv(image))), {.start = 1}));
  }
};

auto net_function() {
  return function([](const Net& net, const Tensor& x) { return nn::softmax(net(x)); },
                  {.name = "predict", .arg_names = {"net", "image"}});
}

TEST_F(OnnxExport, NamesSizesAndMetadata) {
  const Net net;
  const auto predict = net_function();
  predict(net, zeros({2, 8, 8, 1}));
  predict(net, zeros({3, 8, 8, 1}));
  onnx::save(path("net.onnx"), saved::bind(predict, net), {.doc = "a small net"});
  const ReadModel model = read_model(path("net.onnx"));
  EXPECT_EQ(model.opset, 17);
  EXPECT_EQ(model.ir_version, 8);
  EXPECT_EQ(model.producer, "etude");
  EXPECT_EQ(model.version, version());
  EXPECT_EQ(model.doc, "a small net");
  EXPECT_EQ(model.metadata.at("etude.version"), version());
  EXPECT_EQ(model.metadata.at("etude.function"), "predict");
  using Ports = std::map<std::string, std::string>;
  EXPECT_EQ(model.inputs, (Ports{{"image", "1[n,8,8,1]"}}));
  EXPECT_EQ(model.outputs, (Ports{{"output", "1[n,4]"}}));
  EXPECT_EQ(model.constants.at("net/conv/filter"), (std::vector<int64_t>{2, 1, 3, 3}));
  EXPECT_EQ(model.constants.at("net/conv/bias"), (std::vector<int64_t>{2}));
  EXPECT_EQ(model.constants.at("net/out/weight"), (std::vector<int64_t>{12, 4}));
  for (const ReadNode& node : model.nodes) {
    if (node.op == "Softmax") {
      EXPECT_NE(node.doc.find("export_test.cc:"), std::string::npos);
    }
  }
}

// Images are transposed once at the beginning and once before they become rows.
TEST_F(OnnxExport, TransposesBetweenConvolutionsCancel) {
  const Net net;
  const auto predict = net_function();
  predict(net, zeros({2, 8, 8, 1}));
  onnx::save(path("net.onnx"), saved::bind(predict, net));
  const ReadModel model = read_model(path("net.onnx"));
  EXPECT_EQ(model.count("Conv"), 2U);
  EXPECT_EQ(model.count("MaxPool"), 1U);
  EXPECT_EQ(model.count("Relu"), 2U);
  EXPECT_EQ(model.count("Transpose"), 2U);
  EXPECT_EQ(model.count("Identity"), 0U);
  EXPECT_EQ(model.inputs.at("image"), "1[2,8,8,1]");
}

TEST_F(OnnxExport, ALoadedFunctionHasTheSameModel) {
  const Net net;
  const auto predict = net_function();
  predict(net, zeros({2, 8, 8, 1}));
  predict(net, zeros({3, 8, 8, 1}));
  onnx::save(path("live.onnx"), saved::bind(predict, net));
  saved::save(path("folder").string(), {{"predict", saved::bind(predict, net)}});
  const saved::Program program = saved::load(path("folder").string());
  onnx::save(path("function.onnx"), program.function("predict"));
  onnx::save(path("program.onnx"), program);
  EXPECT_EQ(content_of(path("function.onnx")), content_of(path("live.onnx")));
  EXPECT_EQ(content_of(path("program.onnx")), content_of(path("live.onnx")));
}

TEST_F(OnnxExport, OptionsForSizesOpsetAndWeights) {
  const Net net;
  const auto predict = net_function();
  predict(net, zeros({2, 8, 8, 1}));
  predict(net, zeros({3, 8, 8, 1}));
  const saved::Bound bound = saved::bind(predict, net);
  onnx::save(path("fixed.onnx"), bound, {.open_sizes = false});
  EXPECT_EQ(read_model(path("fixed.onnx")).inputs.at("image"), "1[2,8,8,1]");
  onnx::save(path("new.onnx"), bound, {.opset = 21});
  EXPECT_EQ(read_model(path("new.onnx")).opset, 21);
  EXPECT_EQ(read_model(path("new.onnx")).ir_version, 10);
  struct Wide {
    nn::Dense dense{100, 10};
    Tensor operator()(const Tensor& x) const { return dense(x); }
  };
  const Wide wide;
  const auto f = function([](const Wide& w, const Tensor& x) { return w(x); },
                          {.name = "f", .arg_names = {"wide", "x"}});
  f(wide, zeros({2, 100}));
  onnx::save(path("wide.onnx"), saved::bind(f, wide), {.external_bytes = 0});
  const ReadModel model = read_model(path("wide.onnx"));
  ASSERT_EQ(model.locations.size(), 1U);  // the bias is small
  const std::string file = model.locations.at("wide/dense/weight");
  EXPECT_TRUE(file.starts_with("wide.onnx.") && file.ends_with(".data")) << file;
  EXPECT_EQ(fs::file_size(folder_.path() / file), 4000U);
}

TEST_F(OnnxExport, ACallWithoutAFormIsNamedAndNothingIsWritten) {
  const auto f = function([](const Tensor& x) { return linalg::svdvals(x); },
                          {.name = "f", .arg_names = {"x"}});
  f(eye(3));
  std::ofstream(path("f.onnx")) << "before";
  expect_error([&] { onnx::save(path("f.onnx"), f); }, ErrorCode::kUnimplemented,
               {"svdvals: linalg.svdvals of (float32[3,3]) has no form in ONNX opset 17. Export a "
                "function without "
                "this call, and make the call outside of the model",
                "export_test.cc:"});
  EXPECT_EQ(content_of(path("f.onnx")), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(OnnxExport, ACallOfANewerOpsetIsNamed) {
  const auto f = function([](const Tensor& x) { return bitwise_and(x, x); },
                          {.name = "f", .arg_names = {"x"}});
  f(Tensor({1, 2}));
  expect_error([&] { onnx::save(path("f.onnx"), f); }, ErrorCode::kUnimplemented,
               {"bitwise_and of (int32[2], int32[2]) has no form in ONNX opset 17. Set "
                "SaveOptions::opset to 18"});
  onnx::save(path("f.onnx"), f, {.opset = 21});
  EXPECT_EQ(read_model(path("f.onnx")).count("BitwiseAnd"), 1U);
}

TEST_F(OnnxExport, TheGradientOfALoopIsRefused) {
  const auto f = function(
      [](const Tensor& start) {
        return gradient(
            [](const Tensor& v) {
              return sum(while_loop([](const Tensor& s) { return sum(s) < 50.0F; },
                                    [](const Tensor& s) { return s * 1.5F; }, v));
            },
            start);
      },
      {.name = "f", .arg_names = {"x"}});
  f(ones({3}));
  expect_error(
      [&] { onnx::save(path("f.onnx"), f); }, ErrorCode::kUnimplemented,
      {"internal.while_loop of (",
       "The gradient of a while_loop has no operator. Export a function without this gradient"});
}

TEST_F(OnnxExport, ComplexNumbersAndRandomNumbersAreRefused) {
  const auto f =
      function([](const Tensor& x) { return exp(x); }, {.name = "f", .arg_names = {"x"}});
  f(astype(zeros({2}), kComplex64));
  expect_error([&] { onnx::save(path("f.onnx"), f); }, ErrorCode::kUnimplemented,
               {"exp of (complex64[2]) has no form in ONNX"});
  // No call is refused where complex numbers only pass through.
  const auto same =
      function([](const Tensor& x) { return x; }, {.name = "same", .arg_names = {"x"}});
  same(astype(zeros({2}), kComplex64));
  expect_error([&] { onnx::save(path("same.onnx"), same); }, ErrorCode::kUnimplemented,
               {"input 'x' is complex64, and complex numbers have no form in ONNX. Export a "
                "function of real(x) and imag(x)"});
  const Tensor fixed = astype(ones({2}), kComplex128);
  const auto other = function([=](const Tensor& x) { return std::pair(x, fixed); },
                              {.name = "other", .arg_names = {"x"}});
  other(zeros({2}));
  expect_error([&] { onnx::save(path("other.onnx"), other); }, ErrorCode::kUnimplemented,
               {"constant '", "is complex128, and complex numbers have no form in ONNX"});
  const auto g = function([](const Tensor& x) { return x + random::normal({2}); },
                          {.name = "g", .arg_names = {"x"}});
  g(zeros({2}));
  expect_error([&] { onnx::save(path("g.onnx"), g); }, ErrorCode::kUnimplemented,
               {"random_normal", " has no form in ONNX"});
}

TEST_F(OnnxExport, ChangedStateIsRefused) {
  const Variable count(Tensor(0.0F), {.name = "count"});
  const auto f = function(
      [&](const Tensor& x) {
        count.assign(count.read() + 1.0F);
        return x;
      },
      {.name = "f", .arg_names = {"x"}});
  f(zeros({2}));
  expect_error(
      [&] {
        onnx::save(path("f.onnx"), {{"f", f}, {"count", count}});
      },
      ErrorCode::kUnimplemented,
      {"function 'f' changes 'count', but a model of ONNX changes no state. Export a function that "
       "returns the new values"});
}

TEST_F(OnnxExport, TheFunctionAndItsGraphAreChosen) {
  const auto f = function([](const Tensor& x) { return x * 2; }, {.name = "f", .arg_names = {"x"}});
  const auto g = function([](const Tensor& x) { return x * 3; }, {.name = "g", .arg_names = {"x"}});
  f(zeros({2}));
  f(Tensor({1, 2}));
  const std::vector<saved::Entry> both = {{"first", f}, {"second", g}};
  expect_error([&] { onnx::save(path("f.onnx"), both); }, ErrorCode::kInvalidArgument,
               {"there are 2 functions: first, second. Name one in SaveOptions::function"});
  expect_error([&] { onnx::save(path("f.onnx"), both, {.function = "frist"}); },
               ErrorCode::kNotFound, {"there is no function 'frist'. There are: first"});
  expect_error([&] { onnx::save(path("f.onnx"), both, {.function = "second"}); },
               ErrorCode::kFailedPrecondition,
               {"function 'second' has no graph. Call it once before it is exported"});
  expect_error([&] { onnx::save(path("f.onnx"), f, {.graph = 3}); }, ErrorCode::kInvalidArgument,
               {"graph is 3, but function 'f' has 2 graphs"});
  expect_error([&] { onnx::save(path("f.onnx"), f, {.training = true}); },
               ErrorCode::kFailedPrecondition,
               {"function 'f' has no graph of the training phase. Call it in "
                "PhaseScope(Phase::kTraining) before it is exported"});
  expect_error([&] { onnx::save(path("f.onnx"), f, {.opset = 16}); }, ErrorCode::kInvalidArgument,
               {"onnx::save: opset is 16, but must be in [17, 21]"});
  onnx::save(path("f.onnx"), f, {.graph = 2});
  EXPECT_EQ(read_model(path("f.onnx")).inputs.at("x"), "6[2]");
  onnx::save(path("f.onnx"), f);
  EXPECT_EQ(read_model(path("f.onnx")).inputs.at("x"), "1[2]");
}

// A table of weights that depends on a size is no formula.
TEST_F(OnnxExport, SizesThatONNXHasNoFormForAreNamed) {
  const auto f = function(
      [](const Tensor& x) {
        return image::resize(x, {4, 4});
      },
      {.name = "f", .arg_names = {"x"}});
  f(zeros({1, 7, 9, 1}));
  f(zeros({1, 8, 11, 1}));
  expect_error([&] { onnx::save(path("f.onnx"), f); }, ErrorCode::kUnimplemented,
               {"an operand of a MatMul depends on the sizes ",
                " in a way that ONNX has no form for", "Set SaveOptions::open_sizes to false"});
  onnx::save(path("f.onnx"), f, {.open_sizes = false});
  EXPECT_EQ(read_model(path("f.onnx")).inputs.at("x"), "1[1,7,9,1]");
}

TEST_F(OnnxExport, FoldersThatAreMissingAreNamed) {
  const auto f = function([](const Tensor& x) { return x * 2; }, {.name = "f", .arg_names = {"x"}});
  f(zeros({2}));
  expect_error([&] { onnx::save(path("none/f.onnx"), f); }, ErrorCode::kNotFound, {"none"});
}

}  // namespace
}  // namespace etude::onnx_test
