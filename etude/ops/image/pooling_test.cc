// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/ops.h"

namespace etude::pooling_test {
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

// Values of a half type are exact in float32, and a result is rounded once.
TEST(Pooling, HalfTypesRoundTheFloat32Result) {
  std::vector<float> values;
  for (int i = 0; i < 2 * 9 * 7 * 5; ++i) values.push_back(std::sin(static_cast<float>(i * i)));
  for (const DType half : {kFloat16, kBFloat16}) {
    const Tensor x = astype(Tensor(values, {2, 9, 7, 5}), half), wide = astype(x, kFloat32);
    for (const char* padding : {"valid", "same"}) {
      EXPECT_TRUE(
          same_value(nn::max_pool2d(x, 3, {.strides = 2, .padding = padding}),
                     astype(nn::max_pool2d(wide, 3, {.strides = 2, .padding = padding}), half)));
      EXPECT_TRUE(
          same_value(nn::avg_pool2d(x, 3, {.strides = 2, .padding = padding}),
                     astype(nn::avg_pool2d(wide, 3, {.strides = 2, .padding = padding}), half)));
    }
    const auto mean = [](const Tensor& t) { return nn::avg_pool2d(t, 3, {.strides = 2}); };
    const auto most = [](const Tensor& t) { return nn::max_pool2d(t, 2); };
    EXPECT_TRUE(same_value(gradient_of(x, mean), astype(gradient_of(wide, mean), half)));
    EXPECT_TRUE(same_value(gradient_of(x, most), astype(gradient_of(wide, most), half)));
  }
}

// The mean of a window as its definition has it: columns from 0 down, then from left to right.
float window_mean(const std::vector<float>& x, int64_t w, int64_t channels, int64_t first,
                  std::array<int64_t, 2> window) {
  float sum = 0;
  for (int64_t t = 0; t < window[1]; ++t) {
    float column = 0;
    for (int64_t r = 0; r < window[0]; ++r) {
      column += x[static_cast<std::size_t>(first + (r * w + t) * channels)];
    }
    sum = t == 0 ? column : sum + column;
  }
  return sum / static_cast<float>(window[0] * window[1]);
}

// Whatever the number of channels, and where rows and columns at the end are in no window.
TEST(AvgPool2d, WindowsThatLieInsideHaveTheBitsOfDirectSums) {
  struct {
    int64_t h, w, c;
    std::array<int64_t, 2> window, strides;
  } cases[] = {
      {8, 8, 6, {2, 2}, {2, 2}},   {7, 9, 16, {2, 2}, {2, 2}},  {9, 9, 1, {3, 3}, {3, 3}},
      {6, 11, 37, {2, 3}, {2, 3}}, {8, 8, 5, {3, 3}, {1, 2}},   {5, 7, 4, {5, 7}, {1, 1}},
      {10, 10, 3, {2, 2}, {3, 4}}, {4, 12, 15, {1, 4}, {1, 4}}, {6, 6, 19, {3, 1}, {2, 1}}};
  for (const auto& [h, w, c, window, strides] : cases) {
    const Shape sizes{h, w, c, window[0], window[1], strides[0], strides[1]};
    SCOPED_TRACE(sizes.to_string());
    std::vector<float> values(static_cast<std::size_t>(h * w * c));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(static_cast<float>(3 * i + 1));
    }
    const Tensor x(values, {1, h, w, c});
    Tape tape;
    Tensor y;
    {
      const TapeContext context(tape);
      tape.watch(x);
      y = nn::avg_pool2d(x, {window[0], window[1]}, {.strides = {strides[0], strides[1]}});
    }
    const std::vector<float> got = y.to_vector<float>();
    std::vector<float> spread(values.size(), 0.0f);  // of y itself, taken as the cotangent
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t row = at / (y.shape()[2] * c), column = at / c % y.shape()[2];
      const int64_t first = (row * strides[0] * w + column * strides[1]) * c + at % c;
      ASSERT_EQ(got[i], window_mean(values, w, c, first, window)) << "result " << i;
      const float share = got[i] / static_cast<float>(window[0] * window[1]);
      for (int64_t r = 0; r < window[0]; ++r) {
        for (int64_t t = 0; t < window[1]; ++t) {
          spread[static_cast<std::size_t>(first + (r * w + t) * c)] += share;
        }
      }
    }
    const std::vector<float> ct =
        tape.gradient({&y, 1}, {&x, 1}, std::array{y})[0].to_vector<float>();
    const bool apart = strides[0] >= window[0] && strides[1] >= window[1];
    for (std::size_t i = 0; i < ct.size(); ++i) {
      if (apart) {
        ASSERT_EQ(ct[i], spread[i]) << "pixel " << i;
      } else {
        ASSERT_NEAR(ct[i], spread[i], 1e-6) << "pixel " << i;
      }
    }
  }
}

}  // namespace
}  // namespace etude::pooling_test
