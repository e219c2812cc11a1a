// SPDX-License-Identifier: Apache-2.0
// Published models: the numbers of their parameters are the published ones, their results have the
// right shapes, and the gradients of small models agree with differences.
#include "etude/nn/models/models.h"

#include <gtest/gtest.h>

#include "etude/core/context/ambient.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/summary.h"
#include "etude/nn/test_gradient.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "tests/expect_error.h"

namespace etude::nn::models {
namespace {

using etude::tests::expect_message;

template <class Make>
void expect_count(int64_t published, const Make& make, int64_t image = 224) {
  const Summary found = summary_of(make, {2, image, image, 3});
  EXPECT_EQ(found.parameters, published);
  EXPECT_EQ(found.result.to_string(), "[2,1000]");
}

// spec: EX30 L29
// Counts are from the models of torchvision, and from Keras (trainable parameters) where it is
// named.
TEST(Models, ResidualNetworksHaveThePublishedCounts) {
  const std::pair<int, int64_t> depths[] = {
      {18, 11689512}, {34, 21797672}, {50, 25557032}, {101, 44549160}, {152, 60192808}};
  for (const auto& [depth, count] : depths) expect_count(count, [&] { return resnet(depth); });
  expect_count(68883240, [] { return resnet(50, {}, 2); });
  expect_count(126886696, [] { return resnet(101, {}, 2); });
  expect_count(25568360, [] { return resnet_v2(50); });     // Keras
  expect_count(44577896, [] { return resnet_v2(101); });    // Keras
  expect_count(60236904, [] { return resnet_v2(152); });    // Keras
  expect_count(25549352, [] { return big_transfer(50); });  // R50x1
  const auto count = [](const auto& make) { return summary_of(make, {1, 32, 32, 3}).parameters; };
  EXPECT_EQ(count([] { return resnet_cifar(56); }), 855770);
  EXPECT_EQ(count([] { return resnet_cifar(20); }), 272474);
  EXPECT_EQ(count([] { return wide_resnet_cifar(28, 10); }), 36479194);
}

// spec: EX30
TEST(Models, PlainAndDenseNetworksHaveThePublishedCounts) {
  expect_count(132863336, [] { return vgg(11); });
  expect_count(133047848, [] { return vgg(13); });
  expect_count(138357544, [] { return vgg(16); });
  expect_count(143667240, [] { return vgg(19); });
  expect_count(7978856, [] { return densenet(121); });
  expect_count(14149480, [] { return densenet(169); });
  expect_count(20013928, [] { return densenet(201); });
  expect_count(1248424, [] { return squeezenet("1.0"); });
  expect_count(1235496, [] { return squeezenet("1.1"); });
  expect_count(
      22855952, [] { return xception(); }, 299);  // Keras
}

// spec: EX3 EX4 EX30
TEST(Models, MobileNetworksHaveThePublishedCounts) {
  expect_count(4231976, [] { return mobilenet(); });                // Keras
  expect_count(470072, [] { return mobilenet({.width = 0.25}); });  // Keras
  expect_count(3504872, [] { return mobilenet_v2(); });
  expect_count(5483032, [] { return mobilenet_v3("large"); });
  expect_count(2542856, [] { return mobilenet_v3("small"); });
  expect_count(1366792, [] { return shufflenet_v2({.width = 0.5}); });
  expect_count(2278604, [] { return shufflenet_v2(); });
  expect_count(3503624, [] { return shufflenet_v2({.width = 1.5}); });
  expect_count(7393996, [] { return shufflenet_v2({.width = 2}); });
  struct Row {
    int64_t count, image;
  };
  const Row rows[] = {{5288548, 224},  {7794184, 240},  {9109994, 260},
                      {12233232, 300}, {19341616, 380}, {30389784, 456},
                      {43040704, 528}, {66347960, 600}, {87413142, 672}};
  for (int b = 0; b <= 8; ++b) {
    SCOPED_TRACE(b);
    expect_count(
        rows[b].count, [&] { return efficientnet(b); }, rows[b].image);
  }
}

// spec: EX6
TEST(Models, TheFiftyLayersOfResNetHaveTheirShapes) {
  const Summary found = summary_of([] { return resnet(50); }, {32, 224, 224, 3});
  std::vector<std::string> shapes;
  int convolutions = 0;
  for (const LayerSummary& layer : found.layers) {
    convolutions += layer.kind == "Conv2D";
    const std::string shape = layer.result.to_string();
    if (layer.kind == "ConvBlock" && (shapes.empty() || shapes.back() != shape))
      shapes.push_back(shape);
  }
  EXPECT_EQ(convolutions, 53);  // 49, and 4 in shortcuts
  EXPECT_EQ(shapes, (std::vector<std::string>{"[32,56,56,64]", "[32,56,56,256]", "[32,28,28,512]",
                                              "[32,14,14,1024]", "[32,7,7,2048]"}));
  EXPECT_EQ(found.result, (Shape{32, 1000}));
  // 4.09 G products for each image in torchvision's table.
  EXPECT_NEAR(static_cast<double>(found.flops) / 2e9 / 32, 4.09, 0.05);
}

// spec: EX30
TEST(Models, VideoAndTablesHaveTheirCounts) {
  const Summary video = summary_of([] { return C3D(101); }, {1, 16, 112, 112, 3});
  EXPECT_EQ(video.parameters, 78409573);
  EXPECT_EQ(video.result, (Shape{1, 101}));
  const IntList tables = {10, 20, 30};
  const SeedScope seed(1);
  const Columns x{random::normal({4, 5}), Tensor({{0, 1, 2}, {9, 19, 29}, {1, 1, 1}, {5, 0, 7}})};
  const DLRM dlrm(tables, 8, {5, 16, 8}, {16, 1});
  int64_t count = 0;
  for_each_leaf<Tensor>(dlrm, [&](const Tensor& t) { count += t.size(); });
  // Tables, 5-16-8, and 8 numbers with the products of 6 pairs of 4 vectors into 16 and 1.
  EXPECT_EQ(count, 60 * 8 + 5 * 16 + 16 + 16 * 8 + 8 + 14 * 16 + 16 + 16 + 1);
  EXPECT_EQ(dlrm(x).shape(), (Shape{4, 1}));
  const WideAndDeep wide(tables, 8, 5, {32, 16});
  count = 0;
  for_each_leaf<Tensor>(wide, [&](const Tensor& t) { count += t.size(); });
  EXPECT_EQ(count, 60 + 5 + 1 + 60 * 8 + 29 * 32 + 32 + 32 * 16 + 16 + 16 + 1);
  EXPECT_EQ(wide(x).shape(), (Shape{4, 1}));
}

// Each pair once, in the order (1,0), (2,0), (2,1): against products by hand.
TEST(Models, DlrmMultipliesAllPairs) {
  const SeedScope seed(2);
  DLRM model({2, 2}, 2, {1, 2}, {1});
  model.bottom.layers[0].weight = Tensor({{1.0F, 2.0F}});
  model.bottom.layers[0].bias = Tensor({0.0F, 0.0F});
  model.tables[0].table = Tensor({{0.0F, 0.0F}, {3.0F, 1.0F}});
  model.tables[1].table = Tensor({{-1.0F, 2.0F}, {0.0F, 0.0F}});
  model.top.layers[0].weight = Tensor({{1.0F}, {10.0F}, {100.0F}, {1000.0F}, {10000.0F}});
  model.top.layers[0].bias = Tensor({0.0F});
  const Tensor y = model({Tensor({{2.0F}}), Tensor({{1, 0}})});
  // bottom (2, 4); products: (3,1)(2,4) = 10, (-1,2)(2,4) = 6, (-1,2)(3,1) = -1.
  EXPECT_FLOAT_EQ(y.item<float>(), 2 + 40 + 1000 + 6000 - 10000);
}

void expect_gradient_of(const char* name, ConvNet net, int64_t image) {
  SCOPED_TRACE(name);
  const PhaseScope training(Phase::kTraining);
  const Tensor x = random::normal({4, image, image, 3}), labels = Tensor({0, 1, 2, 3});
  net.dropout = Dropout(0);  // so that all losses are of the same function
  etude::tests::expect_gradient(
      net, [&](const ConvNet& m) { return softmax_cross_entropy(m(x), labels); });
}

// spec: EX3 EX4 EX7 EX30
TEST(Models, GradientsAreThoseOfDifferences) {
  const SeedScope seed(3);
  const ImageOptions few{.classes = 10, .width = 0.25};
  expect_gradient_of("mobilenet", mobilenet(few), 64);
  expect_gradient_of("mobilenet_v2", mobilenet_v2(few), 64);
  expect_gradient_of("mobilenet_v3", mobilenet_v3("small", few), 64);
  expect_gradient_of("efficientnet", efficientnet(0, few), 32);
  expect_gradient_of("shufflenet_v2", shufflenet_v2({.classes = 10, .width = 0.5}), 64);
  expect_gradient_of("vgg", vgg(16, {.classes = 10, .width = 0.0625}, 32), 32);
  expect_gradient_of("squeezenet", squeezenet("1.1", few), 64);
  expect_gradient_of("xception", xception({.classes = 10, .width = 0.0625}), 48);
  expect_gradient_of("densenet", densenet(121, few), 64);
  expect_gradient_of("resnet", resnet(18, {.classes = 10, .width = 0.125}), 32);
  expect_gradient_of("resnet_cifar", resnet_cifar(8), 32);
  expect_gradient_of("resnet_v2", resnet_v2(50, {.classes = 10, .width = 0.125}), 64);
  expect_gradient_of("big_transfer", big_transfer(50, {.classes = 10, .width = 0.5}), 32);
}

// A sum that moves when two layers draw their weights in another order. Both compilers computed
// these numbers; if they differ, an expression leaves the order of draws to the compiler.
TEST(Models, ASeedGivesTheSameWeightsByEveryCompiler) {
  const auto sum_of = [](const auto& make) {
    set_seed(1);
    const auto model = make();
    double total = 0;
    int64_t leaf = 0;
    for_each_leaf<Tensor>(model, [&](std::string_view, const Tensor& x) {
      ++leaf;
      if (!x.has_value()) return;
      total += static_cast<double>(leaf) * sum(astype(x, kFloat64)).template item<double>();
    });
    return total;
  };
  EXPECT_NEAR(sum_of([] { return mobilenet({.width = 0.25}); }), 209251.5497, 1e-3);
  EXPECT_NEAR(sum_of([] { return mobilenet_v2({.width = 0.25}); }), 776297.6404, 1e-3);
  EXPECT_NEAR(sum_of([] { return mobilenet_v3("small"); }), 701905.8045, 1e-3);
  EXPECT_NEAR(sum_of([] { return shufflenet_v2(); }), 1194119.6833, 1e-3);
  EXPECT_NEAR(sum_of([] { return squeezenet("1.1"); }), -2238.5083, 1e-3);
  EXPECT_NEAR(sum_of([] { return efficientnet(0); }), 3815232.6522, 1e-3);
  EXPECT_NEAR(sum_of([] { return resnet_cifar(20); }), 46273.3743, 1e-3);
  EXPECT_NEAR(sum_of([] { return densenet(121); }), 12248815.7131, 1e-3);
  EXPECT_NEAR(sum_of([] { return DLRM({10, 20}, 4, {8, 4}, {8, 1}); }), 17.3960, 1e-3);
  EXPECT_NEAR(sum_of([] { return WideAndDeep({10, 20}, 4, 3, {8, 4}); }), 42.3639, 1e-3);
  EXPECT_NEAR(sum_of([] { return nn::TransformerEncoderLayer(8, 2); }), 198.0186, 1e-3);
  EXPECT_NEAR(sum_of([] { return nn::TransformerDecoderLayer(8, 2); }), 620.0227, 1e-3);
}

TEST(Models, UnpublishedSizesAreRefused) {
  expect_message([&] { static_cast<void>(resnet(51)); },
                 "resnet: there is no depth 51; published are 18, 34, 50, 101, 152");
  expect_message([&] { static_cast<void>(efficientnet(9)); },
                 "efficientnet: there is no B 9; published are 0, 1, 2, 3, 4, 5");
  expect_message([&] { static_cast<void>(mobilenet_v3("tiny")); },
                 "there is no size tiny; published are small, large");
  expect_message([&] { static_cast<void>(resnet_cifar(57)); },
                 "resnet_cifar: the depth 57; needed is 6 n + 2, such as 56");
  expect_message([&] { static_cast<void>(vgg(16, {}, 100)); },
                 "vgg: images of 100 by 100; needed is a multiple of 32");
  expect_message([&] { static_cast<void>(densenet(121, {.classes = 0})); },
                 "densenet: classes is 0");
}

TEST(ConvNet, WrongPartsAreRefused) {
  expect_message([&] { static_cast<void>(ConvUnit(3, 4, {.norm = "layer"})); },
                 "ConvUnit: norm is 'layer', but must be 'batch', 'group' or 'none'");
  expect_message([&] { static_cast<void>(ConvBlock({})); },
                 "ConvBlock: no path; needed is at least one");
  expect_message([&] { static_cast<void>(ConvBlock({ConvBlock::Path()}, {.join = "mean"})); },
                 "ConvBlock: join is 'mean', but must be 'add' or 'concat'");
  const SeedScope seed(4);
  const ConvBlock split({{}, {}}, {.join = "concat", .splits = true});
  expect_message(
      [&] {
        static_cast<void>(split(zeros({1, 2, 2, 3})));
      },
      "has 3 channels, which 2 paths cannot share");
  const ConvBlock fewer({{ConvUnit(4, 2)}}, {.keeps_input = true});
  expect_message(
      [&] {
        static_cast<void>(fewer(zeros({1, 2, 2, 4})));
      },
      "the input has 4 channels, but a block that adds it to its result has only 2");
  expect_message(
      [&] {
        static_cast<void>(infer(resnet_cifar(8), zeros({1, 32, 32, 1})));
      },
      "blocks/0/paths/0/0/conv (Conv2D)");
}

// Channels 0 1 | 2 3 take turns: 0 2 1 3.
TEST(ConvNet, ShufflesChannels) {
  const ConvBlock block({{}, {}}, {.join = "concat", .splits = true, .shuffles = true});
  const Tensor x = reshape(arange(4), {1, 1, 1, 4});
  EXPECT_EQ(block(x).to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 1, 3}));
}

// With stride 2, each second pixel, and a zero before and after the channel.
TEST(ConvNet, WhatIsKeptIsPadded) {
  ConvUnit unit(1, 3, {.stride = 2, .norm = "none"});
  unit.conv->filter = zeros({3, 3, 1, 3});
  const ConvBlock block({{unit}}, {.keeps_input = true});
  const Tensor y = block(reshape(Tensor({1.0F, 2.0F, 3.0F, 4.0F}), {1, 1, 4, 1}));
  EXPECT_EQ(y.shape(), (Shape{1, 1, 2, 3}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 1, 0, 0, 3, 0}));
}

}  // namespace
}  // namespace etude::nn::models
