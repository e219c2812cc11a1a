// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/layers.h"

#include <cmath>
#include <optional>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/base/error.h"
#include "etude/core/context/ambient.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/layers/pooling.h"
#include "etude/nn/layers/sequential.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "tests/expect_error.h"

namespace etude::nn::layers_test {
namespace {

using tests::expect_error;

// spec: L1
TEST(Dense, IsAProductPlusBias) {
  Dense dense(2, 3, {.activation = relu});
  dense.weight = Tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  dense.bias = Tensor({1.0, 0.0, -100.0});
  expect_near(dense(Tensor({{1.0, 2.0}})), {10, 12, 0});
  expect_near(dense(Tensor({1.0, 2.0})), {10, 12, 0});
  EXPECT_FALSE(Dense(2, 3, {.bias = false}).bias.has_value());
  expect_error(
      [&] {
        dense(Tensor({{1.0, 2.0, 3.0}}));
      },
      ErrorCode::kInvalidArgument,
      {"Dense: the input has shape [1,3], but the layer needs at least 1 axis, the "
       "last of size 2 (its weight has shape [2,3])"});
  expect_error([] { Dense(0, 3); }, ErrorCode::kInvalidArgument, {"0 inputs and 3 outputs"});
}

// spec: L1
TEST(Dense, AWeightOfRankThreeGivesAProductPerExample) {
  Dense dense(2, 1);
  dense.weight = Tensor({{{1.0}, {0.0}}, {{0.0}, {1.0}}});
  expect_near(dense(Tensor({{3.0, 4.0}, {5.0, 6.0}})), {3, 6});
}

// spec: L3, L8
TEST(Convolution, ShapesOfLeNet) {
  const Conv2D same({5, 5}, 1, 6, {.padding = "same"}), valid({5, 5}, 6, 16);
  const MaxPool2D pool(2);
  const Tensor x = zeros({2, 28, 28, 1});
  EXPECT_EQ(same(x).shape(), (Shape{2, 28, 28, 6}));
  EXPECT_EQ(valid(pool(same(x))).shape(), (Shape{2, 10, 10, 16}));
  EXPECT_EQ(Conv2D(3, 1, 2, {.strides = 2})(x).shape(), (Shape{2, 13, 13, 2}));
  EXPECT_EQ(Conv2D(3, 1, 2, {.dilations = {2, 3}})(x).shape(), (Shape{2, 24, 22, 2}));
  EXPECT_EQ(AvgPool2D(2, {.strides = 1})(x).shape(), (Shape{2, 27, 27, 1}));
  expect_error([&] { valid(x); }, ErrorCode::kInvalidArgument,
               {"Conv2D: the input has shape [2,28,28,1], but the layer needs 4 axes, the last "
                "of size 6 (its filter has shape [5,5,6,16])"});
  expect_error([&] { pool(zeros({2, 2})); }, ErrorCode::kInvalidArgument, {"MaxPool2D"});
  expect_error([] { Conv2D(3, 4, 6, {.groups = 4}); }, ErrorCode::kInvalidArgument,
               {"4 groups must divide"});
}

// spec: L8
TEST(Pooling, Values) {
  const Tensor x(std::vector<float>{1, 2, 3, 4}, {1, 2, 2, 1});
  expect_near(MaxPool2D(2)(x), {4});
  expect_near(AvgPool2D(2)(x), {2.5});
}

// spec: L12
TEST(Reshaping, FlattenReshapeFunction) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(Flatten()(x).shape(), (Shape{2, 12}));
  EXPECT_EQ(Reshape({4, -1})(x).shape(), (Shape{2, 4, 3}));
  expect_near(Lambda(relu)(Tensor({-1.0, 2.0})), {0, 2});
  expect_error([] { Lambda{Activation()}; }, ErrorCode::kInvalidArgument,
               {"the function is empty"});
}

// spec: L13.a, C1, C2
TEST(Dropout, FollowsThePhase) {
  const Dropout dropout(0.25);
  const Tensor x = ones({10000});
  EXPECT_TRUE(same_value(dropout(x), x));
  const PhaseScope training(Phase::kTraining);
  const SeedScope seed(5);
  const std::vector<double> y = dropout(x).to_vector<double>();
  double sum = 0;
  for (const double v : y) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0 / 3) < 1e-6) << v;
    sum += v;
  }
  EXPECT_NEAR(sum / 10000, 1, 0.03);
  EXPECT_FALSE(same_value(dropout(x), dropout(x)));
  {
    const PhaseScope inference(Phase::kInference);
    EXPECT_TRUE(same_value(dropout(x), x));
  }
  EXPECT_FALSE(same_value(dropout(x), x));
  expect_error([] { Dropout(1); }, ErrorCode::kInvalidArgument, {"p is 1"});
}

// spec: L15, V31.a, V31.b
TEST(BatchNorm, TrainingUpdatesThePassedStatisticsOnly) {
  BatchNorm norm(2);
  const Tensor x({{1.0, 2.0}, {3.0, 4.0}});
  BatchStatistics statistics = norm.running.value;
  expect_near(norm.train(x, statistics), {-.9995004, -.9995004, .9995004, .9995004}, 1e-6);
  expect_near(statistics.mean, {.02, .03}, 1e-6);
  expect_near(statistics.variance, {1, 1}, 1e-6);
  expect_near(norm.running.value.mean, {0, 0});
  EXPECT_TRUE(same_value(norm(x), norm(x)));
  expect_near(norm(x), {.9995004, 1.9990007, 2.9985011, 3.9980015}, 1e-5);
  norm.running.value = statistics;
  EXPECT_NEAR(norm(x).to_vector<double>()[0], .98 * .9995004, 1e-5);
  const PhaseScope training(Phase::kTraining);
  expect_near(norm(x), {-.9995004, -.9995004, .9995004, .9995004}, 1e-6);
  expect_error(
      [&] {
        norm(zeros({2, 3}));
      },
      ErrorCode::kInvalidArgument, {"3 features on axis 1, but the layer has 2"});
}

// spec: L15
TEST(BatchNorm, CopiesAreIndependentAndAxesWork) {
  BatchNorm norm(3, {.axis = 1, .momentum = 0.5});
  BatchStatistics a = norm.running.value, b = a;
  const Tensor x = ones({2, 3, 4});
  norm.train(x, a);
  expect_near(a.mean, {.5, .5, .5});
  expect_near(b.mean, {0, 0, 0});
}

TEST(Sequential, DrawsFromLeftToRightInBraces) {
  set_seed(1);
  const Dense first(2, 3), second(3, 2);
  set_seed(1);
  const Sequential model{Dense(2, 3), Dense(3, 2)};
  EXPECT_TRUE(all(model.get<0>().weight == first.weight).item<bool>());
  EXPECT_TRUE(all(model.get<1>().weight == second.weight).item<bool>());
}

// spec: L25
TEST(Sequential, NestsAndIndexes) {
  Sequential model(Dense(2, 3), Lambda(relu),
                   Sequential(std::vector<Dense>{Dense(3, 3), Dense(3, 3)}, Dense(3, 1)));
  EXPECT_EQ(model(zeros({4, 2})).shape(), (Shape{4, 1}));
  EXPECT_EQ(model.size(), 3u);
  model.get<0>().weight = ones({2, 3});
  std::vector<std::string> paths;
  for_each_leaf<Tensor>(model,
                        [&](const std::string& path, const Tensor&) { paths.push_back(path); });
  EXPECT_EQ(paths,
            (std::vector<std::string>{"layers/0/weight", "layers/0/bias",
                                      "layers/2/layers/0/0/weight", "layers/2/layers/0/0/bias",
                                      "layers/2/layers/0/1/weight", "layers/2/layers/0/1/bias",
                                      "layers/2/layers/1/weight", "layers/2/layers/1/bias"}));
  expect_near(sequenced(Tensor({-1.0, 2.0}), Lambda(relu), Lambda(relu)), {0, 2});
}

// spec: L26.a
TEST(Layers, WithoutParametersHaveAnEmptyTangent) {
  static_assert(!HasLeaf<tangent_t<Flatten>, Tensor>::value);
  static_assert(!HasLeaf<tangent_t<MaxPool2D>, Tensor>::value);
  static_assert(!HasLeaf<tangent_t<Dropout>, Tensor>::value);
  static_assert(HasLeaf<tangent_t<Dense>, Tensor>::value);
  const Sequential model(Flatten(), Dense(4, 2), Dropout(0.5));
  const Tensor x = ones({3, 2, 2});
  const auto slope = gradient([&](const auto& m) { return sum(m(x)); }, model);
  std::vector<std::string> paths;
  for_each_leaf<Tensor>(slope, [&](const std::string& path, const Tensor& g) {
    paths.push_back(path + g.shape().to_string());
  });
  EXPECT_EQ(paths, (std::vector<std::string>{"layers/1/weight[4,2]", "layers/1/bias[2]"}));
}

struct LeNet {
  Conv2D conv1{{5, 5}, 1, 6, {.padding = "same", .activation = relu}};
  MaxPool2D pool1{2};
  Conv2D conv2{{5, 5}, 6, 16, {.activation = relu}};
  MaxPool2D pool2{2};
  Flatten flatten;
  Dense fc1{400, 120, {.activation = relu}}, fc2{120, 84, {.activation = relu}}, fc3{84, 10};

  Tensor operator()(const Tensor& x) const {
    return sequenced(x, conv1, pool1, conv2, pool2, flatten, fc1, fc2, fc3);
  }
};

// spec: L27
TEST(Summary, CountsOfKnownModels) {
  const Summary lenet = summary(LeNet(), {32, 28, 28, 1});
  EXPECT_EQ(lenet.parameters, 61706);
  EXPECT_EQ(lenet.bytes, 4 * 61706);
  EXPECT_EQ(lenet.result, (Shape{32, 10}));
  ASSERT_EQ(lenet.layers.size(), 8u);
  EXPECT_EQ(lenet.layers[2].path, "conv2");
  EXPECT_EQ(lenet.layers[2].kind, "Conv2D");
  EXPECT_EQ(lenet.layers[2].result, (Shape{32, 10, 10, 16}));
  EXPECT_EQ(lenet.layers[2].parameters, 2416);
  EXPECT_EQ(lenet.layers[2].flops, 32 * 480'000);  // 10 x 10 x 16 results of 2 x 5 x 5 x 6
  EXPECT_EQ(lenet.flops, 32 * 833'040);
  EXPECT_NE(lenet.to_string().find("61,706"), std::string::npos);
  EXPECT_NE(lenet.to_string().find("26,657,280"), std::string::npos);
  const Sequential regression(Dense(13, 64), Dense(64, 32), Dense(32, 1));
  EXPECT_EQ(summary(regression, {1, 13}).parameters, 3009);
  EXPECT_EQ(summary(regression, {1, 13}).layers[1].path, "layers/1");
}

struct ConvNorm {
  Conv2D conv;
  BatchNorm norm;
  Tensor operator()(const Tensor& x) const { return norm(conv(x)); }
};
ConvNorm conv_norm(int64_t size, int64_t in, int64_t out, int64_t stride) {
  return {Conv2D(size, in, out, {.strides = stride, .padding = "same", .bias = false}),
          BatchNorm(out)};
}
struct Block {
  ConvNorm first, second;
  std::optional<ConvNorm> shortcut;
  Tensor operator()(const Tensor& x) const {
    return relu(second(relu(first(x))) + (shortcut ? (*shortcut)(x) : x));
  }
};
// For CIFAR: three stages of nine blocks, with projections where the size changes.
struct ResNet56 {
  ConvNorm stem = conv_norm(3, 3, 16, 1);
  std::vector<Block> blocks = all_blocks();
  Dense top{64, 10};

  Tensor operator()(Tensor x) const {
    x = relu(stem(x));
    for (const Block& block : blocks) x = block(x);
    return top(mean(x, {.axis = {1, 2}}));
  }
  static std::vector<Block> all_blocks() {
    std::vector<Block> blocks;
    for (int64_t in = 16, i = 0; i < 27; ++i) {
      const int64_t out = 16 << (i / 9), stride = out / in;
      blocks.push_back({conv_norm(3, in, out, stride), conv_norm(3, out, out, 1), {}});
      if (stride > 1) blocks.back().shortcut = conv_norm(1, in, out, stride);
      in = out;
    }
    return blocks;
  }
};

// spec: L27
TEST(Summary, ResNet56) {
  const Summary resnet = summary(ResNet56(), {2, 32, 32, 3});
  EXPECT_EQ(resnet.parameters, 855770);
  EXPECT_EQ(resnet.result, (Shape{2, 10}));
  EXPECT_EQ(resnet.layers.size(), 2u * (1 + 2 * 27 + 2) + 1);
  EXPECT_EQ(resnet.layers[2].path, "blocks/0/first/conv");
  EXPECT_EQ(resnet.layers.back().path, "top");
}

// spec: I1
TEST(Initialisers, MomentsAndLimits) {
  const SeedScope seed(1);
  const auto moments = [](const Tensor& x) {
    double sum = 0, squares = 0, largest = 0;
    for (const double v : x.to_vector<double>()) {
      sum += v;
      squares += v * v;
      largest = std::max(largest, std::abs(v));
    }
    const auto n = static_cast<double>(x.size());
    return std::array{sum / n, std::sqrt(squares / n - sum / n * sum / n), largest};
  };
  const Shape shape{784, 100};
  const double limit = .0823853;
  const struct {
    const char* name;
    Initializer init;
    double mean, stddev, limit;
  } rows[] = {
      {"glorot_uniform", glorot_uniform, 0, limit / std::sqrt(3.0), limit},
      {"he_uniform", he_uniform, 0, std::sqrt(2.0 / 784), std::sqrt(6.0 / 784)},
      {"lecun_uniform", lecun_uniform, 0, std::sqrt(1.0 / 784), std::sqrt(3.0 / 784)},
      {"glorot_normal", glorot_normal, 0, std::sqrt(2.0 / 884),
       2 * std::sqrt(2.0 / 884) / .8796257},
      {"he_normal", he_normal, 0, std::sqrt(2.0 / 784), 2 * std::sqrt(2.0 / 784) / .8796257},
      {"lecun_normal", lecun_normal, 0, std::sqrt(1.0 / 784), 2 * std::sqrt(1.0 / 784) / .8796257},
      {"random_uniform", random_uniform(1, 3), 2, 2 / std::sqrt(12.0), 3},
      {"random_normal", random_normal(1, 2), 1, 2, 20},
      {"truncated_normal", truncated_normal(0, 1), 0, .8796257, 2},
      {"constant", constant(.5), .5, 0, .5},
  };
  for (const auto& row : rows) {
    const Tensor x = row.init(shape);
    EXPECT_EQ(x.shape(), shape) << row.name;
    const auto [mean, stddev, largest] = moments(x);
    EXPECT_NEAR(mean, row.mean, .02 * row.stddev + 1e-9) << row.name;
    EXPECT_NEAR(stddev, row.stddev, .02 * row.stddev + 1e-6) << row.name;
    EXPECT_LE(largest, row.limit * (1 + 1e-6)) << row.name;
  }
  const struct {
    VarianceScalingOptions options;
    double variance;
  } scalings[] = {{{}, 1.0 / 784},
                  {{.scale = 2, .mode = "fan_out", .distribution = "normal"}, 2.0 / 100},
                  {{.mode = "fan_avg", .distribution = "uniform"}, 1.0 / 442}};
  for (const auto& [options, variance] : scalings) {
    const auto [mean, stddev, largest] = moments(variance_scaling(options)(shape));
    EXPECT_NEAR(mean, 0, .02 * std::sqrt(variance));
    EXPECT_NEAR(stddev, std::sqrt(variance), .02 * std::sqrt(variance));
    if (options.distribution == "uniform") {
      EXPECT_LE(largest, std::sqrt(3 * variance) * 1.000001);
    }
  }
  expect_error([] { variance_scaling({.mode = "fan"}); }, ErrorCode::kInvalidArgument,
               {"mode is \"fan\""});
  EXPECT_NEAR(moments(glorot_uniform({5, 5, 6, 16}))[2], std::sqrt(6.0 / (25 * 22)), 2e-3);
  expect_error([] { he_uniform({}); }, ErrorCode::kInvalidArgument, {"needs a shape with an axis"});
}

// QtQ = gain^2 I for tall shapes, QQt for wide ones; filters count as [field in, out].
// spec: I1
TEST(Initialisers, OrthogonalAndIdentity) {
  for (const Shape& shape : {Shape{7, 4}, Shape{4, 7}, Shape{5, 5}, Shape{3, 3, 2, 8}}) {
    const SeedScope seed(3);
    const Tensor x = orthogonal(2)(shape);
    EXPECT_EQ(x.shape(), shape);
    const Tensor q = reshape(x, {-1, shape[shape.rank() - 1]});
    const bool is_tall = q.shape()[0] >= q.shape()[1];
    const Tensor product =
        is_tall ? matmul(q, q, {.transpose_x = true}) : matmul(q, q, {.transpose_y = true});
    const int64_t n = product.shape()[0];
    std::vector<double> want(static_cast<std::size_t>(n * n), 0);
    for (int64_t i = 0; i < n; ++i) want[static_cast<std::size_t>(i * n + i)] = 4;
    expect_near(product, want, 1e-5);
    const SeedScope other(4);
    EXPECT_FALSE(same_value(orthogonal(2)(shape), x));
  }
  expect_near(identity({2, 3}), {1, 0, 0, 0, 1, 0});
  Conv2D conv({3, 3}, 2, 2, {.padding = "same", .filter_init = identity});
  const Tensor image = random_normal()({1, 4, 5, 2});
  EXPECT_TRUE(same_value(conv(image), image));
  expect_error([] { orthogonal()({3}); }, ErrorCode::kInvalidArgument, {"has no two axes"});
  expect_error([] { identity({3}); }, ErrorCode::kInvalidArgument, {"has no two axes"});
}

}  // namespace
}  // namespace etude::nn::layers_test
