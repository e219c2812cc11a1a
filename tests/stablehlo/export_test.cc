// SPDX-License-Identifier: Apache-2.0
// The text of exported modules, and the texts of refusals. modules_test.py runs modules.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/stablehlo/stablehlo.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::stablehlo_test {
namespace {

namespace fs = std::filesystem;
using tests::expect_error;

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::size_t count(const std::string& text, const std::string& part) {
  std::size_t out = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++out;
  return out;
}

class StableHloExport : public ::testing::Test {
 protected:
  fs::path path(const char* name) const { return folder_.path() / name; }
  // The text of a function.
  template <class F>
  std::string text_of(const F& f, const stablehlo::SaveOptions& options = {}) const {
    stablehlo::save(path("f.mlir"), f, options);
    return content_of(path("f.mlir"));
  }
  const internal::TempFolder folder_;
};

struct Net {
  nn::Dense hidden{4, 8, {.activation = nn::relu}}, output{8, 3};
  Tensor operator()(const Tensor& x) const { return nn::softmax(output(hidden(x))); }
};

auto net_function() {
  return function([](const Net& net, const Tensor& x) { return net(x); },
                  {.name = "predict", .arg_names = {"net", "x"}});
}

TEST_F(StableHloExport, NamesTypesAndLines) {
  const Net net;
  const auto predict = net_function();
  predict(net, zeros({2, 4}));
  const std::string text = text_of(saved::bind(predict, net));
  EXPECT_TRUE(text.starts_with("module @\"predict\" attributes {etude.version = \"" +
                               std::string(version()) + "\"} {\n"))
      << text;
  EXPECT_EQ(count(text,
                  "func.func public @main(%x: tensor<2x4xf32> {etude.name = \"x\"}) -> "
                  "(tensor<2x3xf32> {etude.name = \"output\"}) {\n"),
            1U)
      << text;
  EXPECT_EQ(count(text, "stablehlo.dot_general"), 2U);
  EXPECT_EQ(count(text, "contracting_dims = [1] x [0]"), 2U);
  EXPECT_NE(text.find("export_test.cc\":"), text.npos);
  EXPECT_TRUE(text.ends_with(" : tensor<2x3xf32>\n  }\n}\n"));
}

TEST_F(StableHloExport, WeightsAreArgumentsOnRequest) {
  const Net net;
  const auto predict = net_function();
  predict(net, zeros({2, 4}));
  const std::string text = text_of(saved::bind(predict, net), {.weights_as_arguments = true});
  EXPECT_NE(text.find("@main(%x: tensor<2x4xf32> {etude.name = \"x\"}, %net_hidden_weight: "
                      "tensor<4x8xf32> {etude.name = \"net/hidden/weight\"}, "),
            text.npos)
      << text;
  EXPECT_EQ(text.find("dense<\"0x"), text.npos);
}

TEST_F(StableHloExport, ALoadedFunctionHasTheSameModule) {
  const Net net;
  const auto predict = net_function();
  predict(net, zeros({2, 4}));
  predict(net, zeros({5, 4}));
  const std::string live = text_of(saved::bind(predict, net));
  saved::save(path("folder").string(), {{"predict", saved::bind(predict, net)}});
  const saved::Program program = saved::load(path("folder").string());
  EXPECT_EQ(text_of(program.function("predict")), live);
  EXPECT_EQ(text_of(program), live);
}

// Elements are written so that MLIR reads the same bits.
TEST_F(StableHloExport, NumbersAreExact) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto f = function(
      [](const Tensor& x) {
        return x + Tensor({0.1F, -0.0F, 1e-20F, 3e20F});
      },
      {.name = "f", .arg_names = {"x"}});
  f(zeros({4}));
  EXPECT_NE(text_of(f).find(
                "dense<[0.10000000149011612, -0.0, 9.999999682655225e-21, 3.000000060122632e+20]>"),
            std::string::npos)
      << text_of(f);
  const auto g = function(
      [](const Tensor& x) {
        return where(x > 0, Tensor(std::vector<double>{kInfinity, -kInfinity}), 7.0);
      },
      {.name = "g", .arg_names = {"x"}});
  g(zeros({2}));
  EXPECT_NE(text_of(g).find("dense<[0x7FF0000000000000, 0xFFF0000000000000]> : tensor<2xf64>"),
            std::string::npos)
      << text_of(g);
  const auto h = function([](const Tensor& x) { return x + arange(20, {.dtype = kInt32}); },
                          {.name = "h", .arg_names = {"x"}});
  h(zeros({20}, {.dtype = kInt32}));
  EXPECT_EQ(text_of(h).find("dense<["), std::string::npos);
}

TEST_F(StableHloExport, SizesAreFixedByName) {
  const auto f =
      function([](const Tensor& x) { return x * 2.0F; }, {.name = "f", .arg_names = {"x"}});
  f(zeros({2, 3}));
  f(zeros({5, 3}));
  EXPECT_NE(text_of(f).find("%x: tensor<2x3xf32>"), std::string::npos);
  EXPECT_NE(text_of(f, {.sizes = {{"n", 64}}}).find("%x: tensor<64x3xf32>"), std::string::npos);
  EXPECT_NE(text_of(f, {.sizes = {{"n", 1}}}).find("%x: tensor<1x3xf32>"), std::string::npos);
  expect_error(
      [&] {
        text_of(f, {.sizes = {{"m", 4}}});
      },
      ErrorCode::kInvalidArgument,
      {"stablehlo::save: SaveOptions::sizes names 'm', but the open sizes of the graph are "
       "n"});
  expect_error(
      [&] {
        text_of(f, {.sizes = {{"n", -4}}});
      },
      ErrorCode::kInvalidArgument,
      {"SaveOptions::sizes has -4 for 'n', but a size is not negative"});
  const auto g =
      function([](const Tensor& x) { return x * 2.0F; }, {.name = "g", .arg_names = {"x"}});
  g(zeros({2}));
  expect_error(
      [&] {
        text_of(g, {.sizes = {{"n", 4}}});
      },
      ErrorCode::kInvalidArgument,
      {"SaveOptions::sizes names 'n', but the graph of function 'g' has no open size"});
}

TEST_F(StableHloExport, SizesThatTheGraphRefusesAreNamed) {
  const auto f = function(
      [](const Tensor& x) {
        return reshape(x, {2, -1});
      },
      {.name = "f", .arg_names = {"x"}});
  f(zeros({4}));
  f(zeros({6}));
  expect_error(
      [&] {
        text_of(f, {.sizes = {{"n", 7}}});
      },
      ErrorCode::kInvalidArgument,
      {"function 'f' has no graph at the sizes n=7: ",
       "Call it with these sizes before it is saved"});
}

TEST_F(StableHloExport, ACallWithoutAFormIsNamedAndNothingIsWritten) {
  const auto f = function([](const Tensor& x) { return linalg::svdvals(x); },
                          {.name = "f", .arg_names = {"x"}});
  f(eye(3));
  std::ofstream(path("f.mlir")) << "before";
  expect_error([&] { stablehlo::save(path("f.mlir"), f); }, ErrorCode::kUnimplemented,
               {"svdvals: linalg.svdvals of (float32[3,3]) has no form in StableHLO. Export a "
                "function without this call, and make the call outside of the module",
                "export_test.cc:"});
  EXPECT_EQ(content_of(path("f.mlir")), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(StableHloExport, TheGradientOfALoopNeedsALimit) {
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
      [&] { text_of(f); }, ErrorCode::kUnimplemented,
      {"internal.while_loop of (",
       "The gradient of a while_loop needs a limit of its steps: set LoopOptions::max_iterations"});
}

TEST_F(StableHloExport, RandomNumbersAndChangedStateAreRefused) {
  const auto f = function([](const Tensor& x) { return x + random::normal({2}); },
                          {.name = "f", .arg_names = {"x"}});
  f(zeros({2}));
  expect_error([&] { text_of(f); }, ErrorCode::kUnimplemented,
               {"random_normal", " has no form in StableHLO"});
  const auto drawing_loop = function(
      [](const Tensor& x) {
        return fold(
            [](const Tensor& sum, const Tensor& row) { return sum + row * random::normal({2}); },
            zeros({2}), x);
      },
      {.name = "drawing_loop", .arg_names = {"x"}});
  drawing_loop(zeros({3, 2}));
  expect_error([&] { text_of(drawing_loop); }, ErrorCode::kUnimplemented,
               {"a key of random numbers has no form in StableHLO. Draw the numbers outside of the "
                "module, and pass them as arguments",
                "export_test.cc:"});
  const Variable count(Tensor(0.0F), {.name = "count"});
  const auto g = function(
      [&](const Tensor& x) {
        count.assign(count.read() + 1.0F);
        return x;
      },
      {.name = "g", .arg_names = {"x"}});
  g(zeros({2}));
  expect_error(
      [&] {
        stablehlo::save(path("g.mlir"), {{"g", g}, {"count", count}});
      },
      ErrorCode::kUnimplemented,
      {"function 'g' changes 'count', but a module of StableHLO changes no state. Export a "
       "function that returns the new values"});
}

TEST_F(StableHloExport, TheFunctionAndItsGraphAreChosen) {
  const auto f = function([](const Tensor& x) { return x * 2; }, {.name = "f", .arg_names = {"x"}});
  f(zeros({2}));
  f(Tensor({1, 2}));
  expect_error([&] { text_of(f, {.graph = 3}); }, ErrorCode::kInvalidArgument,
               {"graph is 3, but function 'f' has 2 graphs"});
  expect_error([&] { text_of(f, {.graph = -1}); }, ErrorCode::kInvalidArgument,
               {"stablehlo::save: graph is -1, but must be at least 0"});
  EXPECT_NE(text_of(f, {.graph = 2}).find("%x: tensor<2xi32>"), std::string::npos);
  expect_error([&] { stablehlo::save(path("none/f.mlir"), f); }, ErrorCode::kNotFound, {"none"});
}

// Names of the user are no names of generated values.
TEST_F(StableHloExport, AResultMayHaveTheNameOfAnInput) {
  struct Both {
    Tensor x, y;
  };
  const auto f = function(
      [](const Tensor& x) {
        return Both{x * 2, x + 1};
      },
      {.name = "f", .arg_names = {"x"}});
  f(zeros({2}));
  const std::string text = text_of(f);
  EXPECT_NE(
      text.find("-> (tensor<2xf32> {etude.name = \"x\"}, tensor<2xf32> {etude.name = \"y\"})"),
      text.npos)
      << text;
}

TEST_F(StableHloExport, NamesAreUnique) {
  const auto f = function([](const Tensor& a, const Tensor& b) { return a * b + a; },
                          {.name = "f", .arg_names = {"0", "a b"}});
  f(zeros({2}), zeros({2}));
  const std::string text = text_of(f);
  EXPECT_NE(text.find("%_0: tensor<2xf32> {etude.name = \"0\"}, %a_b: tensor<2xf32> {etude.name = "
                      "\"a b\"}"),
            text.npos)
      << text;
}

}  // namespace
}  // namespace etude::stablehlo_test
