// SPDX-License-Identifier: Apache-2.0
// Staged functions with signatures: one graph for all sizes that the signature leaves open, and the
// refused calls.
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

// spec: SG-01.a, TC-13.c
TEST(Signatures, MakeOneGraphForAllSizes) {
  const auto body = [](const Tensor& x) { return sqrt(sum(x * x)) + mean(x); };
  const auto norm = function(body, {.signature = Signature{TensorSpec{{kAny}}}});
  for (const int64_t n : {1, 2, 7, 0, 100}) {
    const Tensor x = random::normal({n});
    EXPECT_TRUE(same_value(norm(x), body(x))) << n;
  }
  EXPECT_EQ(norm.trace_count(), 1u);
  EXPECT_NE(norm.explain().find("trace 1 (arg0: float32[n])"), std::string::npos) << norm.explain();
}

// spec: SG-07.a
TEST(Signatures, MakeTheGraphBeforeAnyCall) {
  int runs = 0;
  const auto f = function(
      [&](const Tensor& x, int k) {
        ++runs;
        return x * 2.0F + static_cast<float>(k);
      },
      {.name = "twice", .arg_names = {"x"}, .signature = Signature{TensorSpec{{kAny, 3}}}});
  const GraphFunction made = f.trace();
  EXPECT_EQ(&made.graph(), &f.trace().graph());
  EXPECT_EQ(&made.graph(), &f.traces()[0].graph());
  EXPECT_EQ(made.name(), "twice");
  EXPECT_TRUE(made.to_string().starts_with("sizes of twice: n is axis 0 of x\n"))
      << made.to_string();
  const int before = runs;
  f(ones({5, 3}), 0);
  EXPECT_EQ(runs, before);
  EXPECT_EQ(f.trace_count(), 1u);
  f(ones({5, 3}), 1);  // host values make graphs of their own
  EXPECT_EQ(f.trace_count(), 2u);
}

TEST(Signatures, WithoutOpenSizesAreTheTypes) {
  const auto f = function([](const Tensor& x) { return x * static_cast<float>(x.size()); },
                          {.signature = Signature{TensorSpec{{2}}}});
  EXPECT_EQ(f(ones({2})).to_vector<float>()[0], 2.0F);
  EXPECT_EQ(f.trace_count(), 1u);
}

// spec: SG-03.a
TEST(Signatures, RefuseOtherTypesBeforeTheyRun) {
  int runs = 0;
  const auto f = function(
      [&](const Tensor& x) {
        ++runs;
        return x + 1.0F;
      },
      {.name = "f", .signature = Signature{TensorSpec{{kAny, 4}}}});
  for (const Tensor& x : {ones({3, 5}), ones({4}), astype(ones({3, 4}), kInt32)}) {
    expect_error(
        [&] { f(x); }, ErrorCode::kInvalidArgument,
        {"function 'f' takes (float32[?,4]), as its signature says, but was given (",
         x.type()->to_string(), "make the function without a signature", "signature_test.cc"});
  }
  const auto g = function([](const std::vector<Tensor>& x) { return x[0]; },
                          {.signature = Signature{TensorSpec{{kAny}}}});
  expect_error(
      [&] {
        g({ones({2}), ones({2})});
      },
      ErrorCode::kInvalidArgument, {"takes (float32[?])", "(float32[2], float32[2])"});
  EXPECT_EQ(runs, 0);
}

// spec: SG-05
TEST(Signatures, AreNotLongerThanTheParameters) {
  expect_error(
      [] {
        function([](const Tensor& x, int) { return x; },
                 {.name = "f", .signature = Signature{TensorSpec{{2}}, TensorSpec{{3}}}});
      },
      ErrorCode::kInvalidArgument,
      {"the signature (float32[2], float32[3]) of function 'f' has 2 specs, but the function takes "
       "1 tensors and Variables"});
}

// spec: SG-08
TEST(InputNames, AreThoseOfParametersFieldsAndSpecs) {
  struct Model {
    Tensor weight;
    std::vector<Tensor> layers;
  };
  const auto names = [](const Graph& graph) {
    std::vector<std::string> out;
    for (const Graph::Input& input : graph.inputs()) out.push_back(input.name);
    return out;
  };
  using Names = std::vector<std::string>;
  const Tensor a = ones({2});
  const auto f = function([](const std::vector<Tensor>& x, const Model& m,
                             const Tensor& y) { return x[0] + x[1] + m.weight + m.layers[1] + y; },
                          {.arg_names = {"x", "model"}});
  EXPECT_EQ(names(f.trace({a, a}, {a, {a, a}}, a).graph()),
            (Names{"x", "x_1", "model/weight", "model/layers", "model/layers_1", "arg2"}));
  EXPECT_NE(f.explain().find("(x: float32[2], x_1: float32[2], model/weight: "), std::string::npos)
      << f.explain();
  // A name that a parameter has is not given twice.
  const auto g = function([](const std::vector<Tensor>& x, const Tensor& y) { return x[1] + y; },
                          {.arg_names = {"x", "x_1"}});
  EXPECT_EQ(names(g.trace({a, a}, a).graph()), (Names{"x", "x_1", "x_1_1"}));
  const auto h = function(
      [](const Tensor& x, const Tensor& y, const Tensor& z) { return sum(x) + y + z; },
      {.arg_names = {"x", "y", "image"},
       .signature = Signature{{"image", TensorSpec{{kAny}}}, TensorSpec{{2}}, TensorSpec{{2}}}});
  EXPECT_EQ(names(h.trace(ones({2}), a, a).graph()), (Names{"image", "y", "image_1"}));
  EXPECT_NE(h.explain().find("(image: float32[n]"), std::string::npos) << h.explain();
}

TEST(InputNames, InASignatureAreDistinct) {
  const Signature named{{"x", TensorSpec{{kAny, 3}}}, TensorSpec{{2}}};
  EXPECT_EQ(named.to_string(), "(x: float32[?,3], float32[2])");
  expect_error(
      [] {
        Signature{{"x", TensorSpec{{2}}}, {"x", TensorSpec{{3}}}};
      },
      ErrorCode::kInvalidArgument,
      {"two specs of the signature (x: float32[2], x: float32[3]) have the name 'x'",
       "Give one of them another", "signature_test.cc"});
}

// spec: SG-06
TEST(Signatures, TakeAnyVariableOfAType) {
  const auto add =
      function([](Variable& v, const Tensor& x) { return v.assign_add(sum(x)); },
               {.name = "add", .signature = Signature{VariableSpec{{}}, TensorSpec{{kAny}}}});
  Variable a(1.0), b(2.0), c(Tensor({1.0, 2.0}));
  add(a, ones({3}));
  add(b, ones({4}));
  EXPECT_EQ(a.read().item<float>(), 4.0F);
  EXPECT_EQ(b.read().item<float>(), 6.0F);
  EXPECT_EQ(add.trace_count(), 1u);
  expect_error([&] { add(c, ones({3})); }, ErrorCode::kInvalidArgument,
               {"takes (variable float32[], float32[?])", "variable float32[2]"});
}

// spec: TC-14.e, SG-01.b
TEST(Signatures, RefuseHostCodeThatLooksAtAnOpenSize) {
  const auto f =
      function([](const Tensor& x) { return x * static_cast<float>(x.shape()[0]); },
               {.name = "f", .arg_names = {"x"}, .signature = Signature{TensorSpec{{kAny, 4}}}});
  expect_error(
      [&] {
        f(ones({3, 4}));
      },
      ErrorCode::kFailedPrecondition,
      {"function 'f' looks at the size of axis 0 of x at ", "signature_test.cc",
       "its signature (float32[?,4]) leaves open", "State the size in the signature",
       "zeros_like(x)"});
  expect_error([&] { f.trace(); }, ErrorCode::kFailedPrecondition, {"the size of axis 0 of x"});
  const auto g = function([](const Tensor& x) { return x * static_cast<float>(x.shape()[1]); },
                          {.signature = Signature{TensorSpec{{kAny, 4}}}});
  EXPECT_EQ(g(ones({3, 4})).to_vector<float>()[0], 4.0F);
}

TEST(Signatures, OpenSizesThatAreEqualInTheFirstCallAreOne) {
  const auto body = [](const Tensor& x, const Tensor& y) { return x * y + 1.0F; };
  const auto f =
      function(body, {.signature = Signature{TensorSpec{{kAny, 3}}, TensorSpec{{kAny, 3}}}});
  for (const int64_t n : {4, 5, 6}) EXPECT_EQ(f(ones({n, 3}), ones({n, 3})).shape()[0], n);
  EXPECT_EQ(f.trace_count(), 1u);
}

TEST(Signatures, SizesWhereAnOpRoundsHaveTheirOwnGraphs) {
  const auto body = [](const Tensor& x) { return nn::max_pool2d(x, 2); };
  const auto f = function(body, {.signature = Signature{TensorSpec{{kAny, kAny, 8, 1}}}});
  for (const int64_t n : {6, 8, 7}) {
    const Tensor x = random::normal({2, n, 8, 1});
    EXPECT_TRUE(same_value(f(x), body(x))) << n;
  }
  EXPECT_EQ(f.trace_count(), 1u);
}

TEST(Signatures, AreAskedForToTraceWithoutArguments) {
  const auto f = function([](const Tensor& x) { return x; }, {.name = "f"});
  expect_error([&] { f.trace(); }, ErrorCode::kFailedPrecondition,
               {"function 'f' has no signature to make a graph from", "Pass arguments"});
  const auto g = function([](const std::vector<Tensor>& x) { return x.size(); },
                          {.name = "g", .signature = Signature{TensorSpec{{kAny}}}});
  expect_error([&] { g.trace(); }, ErrorCode::kInvalidArgument,
               {"function 'g' has 0 tensors and 0 Variables in its arguments, but its signature is "
                "(float32[?])"});
}

// spec: SG-09
TEST(GraphFunctions, HoldHostValues) {
  const auto power = function(
      [](const Tensor& a, int b) {
        Tensor y = a;
        for (int i = 1; i < b; ++i) y = y * a;
        return y;
      },
      {.name = "power", .arg_names = {"a", "b"}});
  const auto square = power.trace(Tensor(3.0F), 2);
  EXPECT_EQ(square(Tensor(10.0F), 2).item<float>(), 100.0F);
  expect_error(
      [&] { square(Tensor(10.0F), 3); }, ErrorCode::kInvalidArgument,
      {"graph function 'power': b is 3, but the graph was made for 2: host values are fixed "
       "in it. Call the function",
       "signature_test.cc"});
  EXPECT_EQ(power.trace_count(), 1u);
}

// spec: SG-10.a
TEST(GraphFunctions, RefuseOtherTypes) {
  const auto f = function([](const Tensor& x, const Tensor& y) { return x + sum(y); },
                          {.name = "f", .arg_names = {"x", "y"}});
  const auto made = f.trace(ones({2, 3}), ones({4}));
  expect_error(
      [&] {
        made(ones({2, 3}), ones({5}));
      },
      ErrorCode::kInvalidArgument,
      {"graph function 'f': y is float32[5], but the graph was made for float32[4]"});
  expect_error(
      [&] {
        made(astype(ones({2, 3}), kFloat64), ones({4}));
      },
      ErrorCode::kInvalidArgument, {"x is float64[2,3], but the graph was made for float32[2,3]"});
  expect_error([&] { made(Tensor(), ones({4})); }, ErrorCode::kInvalidArgument, {"x is absent"});
}

TEST(GraphFunctions, OfSignaturesServeAllSizes) {
  const auto f = function([](const Tensor& x, const Tensor& y) { return x + sum(y); },
                          {.name = "f",
                           .arg_names = {"x", "y"},
                           .signature = Signature{TensorSpec{{kAny, 3}}, TensorSpec{{kAny}}}});
  const auto made = f.trace();
  EXPECT_TRUE(same_value(made(ones({2, 3}), ones({5})), full({2, 3}, 6.0F)));
  expect_error(
      [&] {
        made(ones({2, 3}), ones({5, 1}));
      },
      ErrorCode::kInvalidArgument, {"y is float32[5,1], but the graph was made for float32[m]"});
}

// spec: SG-11.a..c
TEST(GraphFunctions, KeepTheStructureOfResults) {
  struct Result {
    std::optional<Tensor> none;
    std::vector<Tensor> list;
    int number = 0;
  };
  Variable v(5.0);
  const Tensor outside = ones({2});
  const auto f = function([&](const Tensor& x) {
    return Result{std::nullopt, {x, outside, v.read(), Tensor(3)}, 7};
  });
  const Result direct = f(ones({3}));
  const Result by_graph = f.trace(ones({3}))(ones({3}) * 2.0F);
  for (const Result& r : {direct, by_graph}) {
    EXPECT_FALSE(r.none.has_value());
    ASSERT_EQ(r.list.size(), 4u);
    EXPECT_TRUE(same_value(r.list[1], outside));
    EXPECT_EQ(r.list[2].item<float>(), 5.0F);
    EXPECT_EQ(r.list[3].item<int>(), 3);
    EXPECT_EQ(r.number, 7);
  }
  EXPECT_TRUE(same_value(by_graph.list[0], full({3}, 2.0F)));
}

// spec: SG-10.b
TEST(GraphFunctions, RefuseOtherNumbersOfTensors) {
  const auto f = function([](const std::vector<Tensor>& xs) { return xs[0] + xs.back(); },
                          {.name = "f", .arg_names = {"xs"}});
  const auto made = f.trace({ones({2}), ones({2})});
  EXPECT_TRUE(same_value(made({ones({2}), ones({2})}), full({2}, 2.0F)));
  for (const std::vector<Tensor>& xs :
       {std::vector<Tensor>{ones({2})}, std::vector<Tensor>(3, ones({2}))}) {
    expect_error([&] { made(xs); }, ErrorCode::kInvalidArgument,
                 {"graph function 'f'", "another structure"});
  }
}

// The place of an absent tensor.
TEST(Signatures, HavePlacesOfAbsentTensors) {
  const nn::Dense without_bias(4, 3, {.bias = false});
  const auto apply = [](const nn::Dense& layer, const Tensor& x) { return layer(x); };
  const Signature signature{TensorSpec{{4, 3}}, AbsentSpec{}, {"x", TensorSpec{{kAny, 4}}}};
  EXPECT_EQ(signature.to_string(), "(float32[4,3], absent, x: float32[?,4])");
  EXPECT_EQ(signature.is_absent(), (std::vector<uint8_t>{0, 1, 0}));
  const auto f = function(apply, {.name = "f", .signature = signature});
  for (const int64_t n : {1, 3, 5}) {
    const Tensor x = ones({n, 4});
    EXPECT_TRUE(same_value(f(without_bias, x), without_bias(x))) << n;
  }
  const nn::Dense biased(4, 3);
  expect_error(
      [&] {
        f(biased, ones({2, 4}));
      },
      ErrorCode::kInvalidArgument,
      {"function 'f' takes (float32[4,3], absent, x: float32[?,4]), as its signature "
       "says, but was given (float32[4,3], float32[3], float32[2,4])"});
  // Absent where the signature has a tensor.
  const auto with_bias = function(
      apply, {.name = "f",
              .signature = Signature{TensorSpec{{4, 3}}, TensorSpec{{3}}, TensorSpec{{kAny, 4}}}});
  expect_error(
      [&] {
        with_bias(without_bias, ones({2, 4}));
      },
      ErrorCode::kInvalidArgument, {"but was given (float32[4,3], absent, float32[2,4])"});
  // The size that host code reads has the name of its input; the absent tensor has none.
  const auto reads =
      function([](const nn::Dense& layer,
                  const Tensor& x) { return layer(x) * static_cast<double>(x.shape()[0]); },
               {.name = "reads", .signature = signature});
  expect_error(
      [&] {
        reads(without_bias, ones({2, 4}));
      },
      ErrorCode::kFailedPrecondition, {"function 'reads' looks at the size of axis 0 of x"});
}

TEST(Signatures, MayBeMadeOfSpecsThatAreKnownAtRunTime) {
  std::vector<Signature::Spec> specs;
  for (const int64_t size : {2, 3})
    specs.emplace_back("x" + std::to_string(size), TensorSpec{{size}});
  const Signature signature(std::move(specs));
  EXPECT_EQ(signature.to_string(), "(x2: float32[2], x3: float32[3])");
  std::vector<Signature::Spec> twice(2, {"x", TensorSpec{{2}}});
  EXPECT_THROW(Signature(std::move(twice)), Error);
}

}  // namespace
}  // namespace etude
