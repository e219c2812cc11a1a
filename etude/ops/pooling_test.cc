// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "etude/ops.h"
#include "etude/runtime/tape.h"

namespace etude {
namespace {

Tensor gradient(Tape& tape, const Tensor& target, const Tensor& source) {
  return tape.gradient({&target, 1}, {&source, 1})[0];
}

Tensor gradient_of(const Tensor& x, Tensor (*f)(const Tensor&)) {
  Tape tape;
  Tensor y;
  {
    const TapeContext context(tape);
    tape.watch(x);
    y = f(x);
  }
  return gradient(tape, y, x);
}

Tensor image(std::vector<float> values, int64_t h, int64_t w, int64_t c = 1) {
  return Tensor(values, {1, h, w, c});
}

// spec: T14
TEST(MaxPool2d, TakesTheLargestOfEachWindow) {
  const Tensor x = image({1, 5, 2, 0, 3, 4, 8, 7, 0, 0, 0, 1, 9, 0, 2, 0}, 4, 4);
  EXPECT_EQ(nn::max_pool2d(x, 2).to_vector<float>(), (std::vector<float>{5, 8, 9, 2}));
  EXPECT_EQ(nn::max_pool2d(x, 3, {.strides = 1}).to_vector<float>(),
            (std::vector<float>{8, 8, 9, 8}));
  EXPECT_EQ(nn::max_pool2d(x, {1, 4}).shape(), (Shape{1, 4, 1, 1}));
  EXPECT_EQ(nn::max_pool2d(-x, 3, {.strides = 2, .padding = "same"}).to_vector<float>(),
            (std::vector<float>{0, 0, 0, 0}));
}

// spec: T14
TEST(MaxPool2d, GradientGoesToTheFirstOfEqualMaxima) {
  const Tensor x = image({2, 2, 2, 1, 2, 2, 1, 3}, 2, 4);
  const auto pool = [](const Tensor& t) { return nn::max_pool2d(t, 2); };
  EXPECT_EQ(gradient_of(x, pool).to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(MaxPool2d, OverlappingWindowsAddUp) {
  const Tensor x = image({0, 5, 0, 1}, 1, 4);
  const auto pool = [](const Tensor& t) { return nn::max_pool2d(t, {1, 2}, {.strides = 1}); };
  EXPECT_EQ(gradient_of(x, pool).to_vector<float>(), (std::vector<float>{0, 2, 0, 1}));
}

TEST(MaxPool2d, NotANumberIsTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = nn::max_pool2d(image({nan, 1, 2, 3, 1, 2, nan, nan}, 2, 4), 2);
  EXPECT_TRUE(std::isnan(y.to_vector<float>()[0]));
  EXPECT_TRUE(std::isnan(y.to_vector<float>()[1]));
}

// y = pool(x)^2: the second derivative is 2 at each maximum and 0 elsewhere.
TEST(MaxPool2d, SecondDerivative) {
  const Tensor x = image({1, 4, 3, 2}, 2, 2);
  Tape outer, inner;
  Tensor g;
  {
    const TapeContext outer_context(outer);
    outer.watch(x);
    Tensor y;
    {
      const TapeContext inner_context(inner);
      inner.watch(x);
      y = nn::max_pool2d(x, 2);
      y = y * y;
    }
    g = gradient(inner, y, x);
  }
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{0, 8, 0, 0}));
  EXPECT_EQ(gradient(outer, g, x).to_vector<float>(), (std::vector<float>{0, 2, 0, 0}));
}

TEST(MaxPool2d, IntegersAndEmptyBatches) {
  EXPECT_EQ(nn::max_pool2d(Tensor(std::vector<int32_t>{-5, -7}, {1, 1, 2, 1}), {1, 2}).item<int>(),
            -5);
  EXPECT_EQ(nn::max_pool2d(full({0, 4, 4, 2}, 1.0f), 2).shape(), (Shape{0, 2, 2, 2}));
}

// spec: T14
TEST(AvgPool2d, DividesByTheElementsInsideTheImage) {
  const Tensor x = image({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3);
  EXPECT_EQ(nn::avg_pool2d(x, 2).to_vector<float>(), (std::vector<float>{3}));
  EXPECT_EQ(nn::avg_pool2d(x, 2, {.padding = "same"}).to_vector<float>(),
            (std::vector<float>{3, 4.5, 7.5, 9}));
  EXPECT_EQ(nn::avg_pool2d(x, 2, {.explicit_padding = {1, 0, 1, 0}}).to_vector<float>(),
            (std::vector<float>{1, 2.5, 5.5, 7}));
}

TEST(AvgPool2d, GradientIsSharedOut) {
  const Tensor x = image({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3);
  const auto pool = [](const Tensor& t) { return nn::avg_pool2d(t, 2, {.padding = "same"}); };
  EXPECT_EQ(gradient_of(x, pool).to_vector<float>(),
            (std::vector<float>{.25, .25, .5, .25, .25, .5, .5, .5, 1}));
}

}  // namespace
}  // namespace etude
