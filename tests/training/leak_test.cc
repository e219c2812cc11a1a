// SPDX-License-Identifier: Apache-2.0
// Layers, gradients and optimisers keep nothing alive that the caller does not hold.
#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/leak_check.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/layers/pooling.h"
#include "etude/nn/layers/sequential.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"

namespace etude::leak_test {
namespace {

// Runs `work` twice, so that permanent objects exist, and then under a LeakCheck.
template <class Work>
void expect_balanced(const char* name, const Work& work) {
  work();
  work();
  const LeakCheck check(
      [&](const std::string& message) { ADD_FAILURE() << name << ": " << message; });
  for (int i = 0; i < 3; ++i) work();
}

// spec: C4
TEST(LeakCheck, ReportsWhatStaysAlive) {
  std::string message;
  std::vector<Tensor> kept;
  const int line = __LINE__ + 2;
  {
    const LeakCheck check([&](const std::string& text) { message = text; });
    const Tensor gone = zeros({3});
    kept.push_back(zeros({1000}));
    EXPECT_EQ(check.more_tensors(), 2);
  }
  EXPECT_EQ(message.find("LeakCheck at tests/training/leak_test.cc:" + std::to_string(line) +
                         ": 1 more tensors ("),
            0u)
      << message;
  message.clear();
  {
    const LeakCheck check([&](const std::string& text) { message = text; });
    const Tensor y = kept[0] + 1.0;
  }
  EXPECT_EQ(message, "");
}

template <class Layer>
void check_layer(const char* name, const Layer& layer, const Tensor& x) {
  expect_balanced(name, [&] { layer(x); });
  expect_balanced(name, [&] {
    const PhaseScope training(Phase::kTraining);
    gradient([&](const Tensor& v) { return sum(layer(v)); }, x);
    if constexpr (HasLeaf<Layer, Tensor>::value) {
      gradient([&](const Layer& l) { return sum(square(l(x))); }, layer);
    }
  });
  expect_balanced(name, [&] { summary(layer, x.shape()); });
  expect_balanced(name, [&] {  // also where the layer fails
    try {
      layer(zeros({}));
      ADD_FAILURE() << name << " takes a scalar";
    } catch (const Error&) {
    }
  });
}

// spec: C4, V35.a
TEST(LeakCheck, LayersAreBalanced) {
  const Tensor images = ones({2, 6, 6, 3}), rows = ones({4, 5});
  check_layer("Dense", nn::Dense(5, 3, {.activation = nn::relu}), rows);
  check_layer("Conv2D", nn::Conv2D(3, 3, 4, {.padding = "same"}), images);
  check_layer("MaxPool2D", nn::MaxPool2D(2), images);
  check_layer("AvgPool2D", nn::AvgPool2D(2), images);
  check_layer("Flatten", nn::Flatten(), images);
  check_layer("Reshape", nn::Reshape({36, 3}), images);
  check_layer("BatchNorm", nn::BatchNorm(3), images);
  check_layer("Sequential", nn::Sequential(nn::Flatten(), nn::Dropout(.5), nn::Dense(108, 2)),
              images);
}

struct Net {
  nn::Dense hidden{5, 8, {.activation = nn::relu}}, output{8, 2};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

// spec: C4, V35.a
TEST(LeakCheck, TrainingStepsAreBalanced) {
  Net model;
  optim::AdamW optimizer;
  const Tensor x = ones({4, 5}), labels({0, 1, 0, 1});
  expect_balanced("a step", [&] {
    auto [loss, grads] = value_with_gradient(
        [&](const Net& m) { return nn::softmax_cross_entropy(m(x), labels); }, model);
    optimizer.update(model, grads);
  });
  expect_balanced("second order", [&] {
    gradient(
        [&](const Tensor& v) {
          return sum(square(gradient([&](const Tensor& u) { return sum(square(model(u))); }, v)));
        },
        x);
  });
}

}  // namespace
}  // namespace etude::leak_test
