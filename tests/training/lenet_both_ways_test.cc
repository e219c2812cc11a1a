// SPDX-License-Identifier: Apache-2.0
// LeNet by the library's layers and as ten lines of plain structs and functions: the same bits.
#include <cstdint>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude {
namespace {

struct Layered {
  nn::Conv2D conv1{{5, 5}, 1, 6, {.padding = "same", .activation = nn::relu}};
  nn::Conv2D conv2{{5, 5}, 6, 16, {.activation = nn::relu}};
  nn::MaxPool2D pool{2};
  nn::Dense fc1{400, 120, {.activation = nn::relu}}, fc2{120, 84, {.activation = nn::relu}};
  nn::Dense fc3{84, 10};

  Tensor operator()(const Tensor& image) const {
    return fc3(fc2(fc1(flatten(pool(conv2(pool(conv1(image)))), {.start = 1}))));
  }
};

struct Affine {
  Tensor weight, bias;
  Tensor operator()(const Tensor& x) const { return matmul(x, weight) + bias; }
};
struct Plain {
  Affine conv1, conv2, fc1, fc2, fc3;
  Tensor operator()(const Tensor& image) const {
    const auto pooled = [](const Tensor& x) { return nn::max_pool2d(nn::relu(x), {2, 2}); };
    Tensor x = pooled(nn::conv2d(image, conv1.weight, {.padding = "same", .bias = conv1.bias}));
    x = pooled(nn::conv2d(x, conv2.weight, {.bias = conv2.bias}));
    return fc3(nn::relu(fc2(nn::relu(fc1(flatten(x, {.start = 1}))))));
  }
};

// Trains on noise whose brightness depends on the class. Returns the last loss.
template <class Model>
float train(Model& model) {
  set_seed(5);
  const Tensor images = random::uniform({64, 28, 28, 1});
  const Tensor labels = astype(arange(64), kInt32) % Tensor(10);
  optim::AdamW optimizer({.lr = 3e-3});
  float last = 0;
  for (int step = 0; step < 6; ++step) {
    const auto [loss, slope] = value_with_gradient(
        [&](const Model& m) { return nn::softmax_cross_entropy(m(images), labels); }, model);
    optimizer.update(model, slope);
    last = loss.template item<float>();
  }
  return last;
}

// spec: D20
TEST(LeNetBothWays, TrainsToTheSameBits) {
  set_seed(1);
  Layered layered;
  Plain plain{{layered.conv1.filter, layered.conv1.bias},
              {layered.conv2.filter, layered.conv2.bias},
              {layered.fc1.weight, layered.fc1.bias},
              {layered.fc2.weight, layered.fc2.bias},
              {layered.fc3.weight, layered.fc3.bias}};
  const Tensor start = plain.fc3.weight;
  EXPECT_EQ(train(layered), train(plain));
  EXPECT_TRUE(same_value(layered.conv1.filter, plain.conv1.weight));
  EXPECT_TRUE(same_value(layered.conv2.bias, plain.conv2.bias));
  EXPECT_TRUE(same_value(layered.fc1.weight, plain.fc1.weight));
  EXPECT_TRUE(same_value(layered.fc3.weight, plain.fc3.weight));
  EXPECT_TRUE(same_value(layered.fc3.bias, plain.fc3.bias));
  EXPECT_FALSE(same_value(start, plain.fc3.weight));
}

}  // namespace
}  // namespace etude
