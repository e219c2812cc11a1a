// SPDX-License-Identifier: Apache-2.0
// Convolutions, pooling, padding, normalisation, and blocks of these: values against direct sums
// and formulas, sizes, numbers of parameters of published models, and errors. Tests of every layer
// are in tests/training/layer_modes_test.cc.
#include <cmath>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/context/ambient.h"
#include "etude/nn/layers/adapters.h"
#include "etude/nn/layers/blocks.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/noise.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/layers/pooling.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "etude/ops/random.h"
#include "etude/ops/test_numbers.h"
#include "tests/expect_error.h"

namespace etude::nn::image_layers_test {
namespace {

using etude::tests::drawn;
using etude::tests::expect_error;
using etude::tests::message_of;
using Sizes = std::vector<int64_t>;

void expect_close(const Tensor& got, const Tensor& want, double tolerance = 1e-5) {
  ASSERT_EQ(got.shape(), want.shape());
  expect_relatively_near(got, want.to_vector<double>(), tolerance);
}

// How a window lies on an axis.
struct Axis {
  int64_t stride = 1, dilation = 1, before = 0, after = 0;
};

// The sum that defines a convolution of x [n, d, h, w, c] with filter [kd, kh, kw, c / groups, o].
std::vector<double> direct(const Tensor& x, const Tensor& filter, const std::array<Axis, 3>& axes,
                           int64_t groups) {
  const Shape &s = x.shape(), &f = filter.shape();
  const std::vector<double> a = x.to_vector<double>(), b = filter.to_vector<double>();
  std::array<int64_t, 3> out{};
  for (int i = 0; i < 3; ++i) {
    const Axis& at = axes[static_cast<std::size_t>(i)];
    out[static_cast<std::size_t>(i)] =
        (s[i + 1] + at.before + at.after - (f[i] - 1) * at.dilation - 1) / at.stride + 1;
  }
  std::vector<double> y;
  for (int64_t at = 0; at < s[0] * out[0] * out[1] * out[2] * f[4]; ++at) {
    const int64_t o = at % f[4], w = at / f[4] % out[2], h = at / f[4] / out[2] % out[1];
    const int64_t d = at / f[4] / out[2] / out[1] % out[0];
    const int64_t n = at / f[4] / out[2] / out[1] / out[0];
    double sum = 0;
    for (int64_t tap = 0; tap < f[0] * f[1] * f[2] * f[3]; ++tap) {
      const int64_t c = tap % f[3], kw = tap / f[3] % f[2], kh = tap / f[3] / f[2] % f[1];
      const int64_t kd = tap / f[3] / f[2] / f[1];
      const int64_t z = d * axes[0].stride + kd * axes[0].dilation - axes[0].before;
      const int64_t r = h * axes[1].stride + kh * axes[1].dilation - axes[1].before;
      const int64_t q = w * axes[2].stride + kw * axes[2].dilation - axes[2].before;
      if (z < 0 || z >= s[1] || r < 0 || r >= s[2] || q < 0 || q >= s[3]) continue;
      const int64_t channel = o / (f[4] / groups) * f[3] + c;
      sum +=
          a[static_cast<std::size_t>((((n * s[1] + z) * s[2] + r) * s[3] + q) * s[4] + channel)] *
          b[static_cast<std::size_t>(tap * f[4] + o)];
    }
    y.push_back(sum);
  }
  return y;
}

// spec: T13, L2, L3
TEST(Convolutions, OverOneAndThreeAxesAreTheirSums) {
  const SeedScope seed(1);
  const Conv1D line(
      3, 4, 6,
      {.strides = 2, .explicit_padding = {3, 1}, .dilations = 2, .groups = 2, .bias = false});
  const Tensor x = drawn({2, 9, 4});
  expect_relatively_near(line(x),
                         direct(reshape(x, {2, 1, 1, 9, 4}), reshape(line.filter, {1, 1, 3, 2, 6}),
                                {Axis(), Axis(), Axis{2, 2, 3, 1}}, 2));
  const Tensor volume = drawn({2, 5, 4, 6, 4});
  for (const int64_t groups : {1, 2}) {
    const Conv3D conv({2, 3, 2}, 4, 6,
                      {.strides = {2, 1, 3},
                       .explicit_padding = {1, 2, 0, 1, 1, 0},
                       .dilations = {2, 1, 3},
                       .groups = groups,
                       .bias = false});
    expect_relatively_near(conv(volume),
                           direct(volume, conv.filter,
                                  {Axis{2, 2, 1, 2}, Axis{1, 1, 0, 1}, Axis{3, 3, 1, 0}}, groups));
  }
  Conv3D same(3, 4, 2, {.strides = 2, .padding = "same", .activation = relu});
  same.bias = Tensor({-100.0F, 100.0F});
  const Tensor y = same(volume);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 2, 3, 2}));
  EXPECT_EQ(min(y).item<float>(), 0);
}

// spec: T13, L5, L6
TEST(Convolutions, DepthwiseAndSeparableOnesAreTheirSums) {
  const SeedScope seed(2);
  const Tensor x = drawn({2, 6, 5, 3});
  const DepthwiseConv2D each({3, 2}, 3, 2, {.strides = {2, 1}, .padding = "same", .bias = false});
  // As a filter [h, w, 1, 3 * 2] with three groups.
  const std::vector<double> want =
      direct(reshape(x, {2, 1, 6, 5, 3}), reshape(each.filter, {1, 3, 2, 1, 6}),
             {Axis(), Axis{2, 1, 0, 1}, Axis{1, 1, 0, 1}}, 3);
  expect_relatively_near(each(x), want);
  const SeparableConv2D both(3, 3, 4, {.multiplier = 2});
  const Tensor inner(direct(reshape(x, {2, 1, 6, 5, 3}), reshape(both.depthwise, {1, 3, 3, 1, 6}),
                            {Axis(), Axis(), Axis()}, 3),
                     {2, 4, 3, 6});
  expect_close(both(x), matmul(astype(inner, kFloat32), reshape(both.pointwise, {6, 4})));
  const SeparableConv1D line(3, 3, 4, {.strides = 2, .padding = "same"});
  EXPECT_EQ(line(drawn({2, 9, 3})).shape(), (Shape{2, 5, 4}));
  EXPECT_EQ(summary(both, {1, 6, 5, 3}).parameters, 3 * 3 * 3 * 2 + 6 * 4 + 4);
}

// float32 has loops of its own, by vectors of channels; float64 takes the direct sums of all
// convolutions.
// spec: T13, L5
TEST(Convolutions, DepthwiseOnesOfManyChannelsAreThoseOfFloat64) {
  const SeedScope seed(13);
  for (const int64_t channels : {16, 70}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t dilation : {1, 2}) {
        for (const char* padding : {"same", "valid"}) {
          DepthwiseConv2D layer({3, 2}, channels, 1,
                                {.strides = {stride, 1 + stride / 2},
                                 .padding = padding,
                                 .dilations = {1, dilation},
                                 .bias_init = random_normal(0, 1)});
          DepthwiseConv2D exact = layer;
          exact.filter = astype(layer.filter, kFloat64);
          exact.bias = astype(layer.bias, kFloat64);
          const Tensor x = drawn({2, 7, 13, channels});
          const auto loss = [](const DepthwiseConv2D& l, const Tensor& v) {
            return sum(square(l(v)));
          };
          expect_close(layer(x), exact(astype(x, kFloat64)), 1e-5);
          const auto [of_layer, of_x] = gradient(loss, layer, x);
          const auto [want_layer, want_x] = gradient(loss, exact, astype(x, kFloat64));
          expect_close(of_x, want_x, 1e-4);
          expect_close(of_layer.filter, want_layer.filter, 1e-4);
          expect_close(of_layer.bias, want_layer.bias, 1e-4);
        }
      }
    }
  }
}

// <y, conv(x)> = <conv_transpose(y), x>: the gradient in x of the product with y.
template <class Transposed, class Convolution>
void expect_transpose(const Transposed& back, Convolution conv, const Shape& of_y,
                      const Shape& of_x) {
  conv.filter = back.filter;
  const Tensor y = drawn(of_y), x = drawn(of_x);
  const Tensor want = gradient([&](const Tensor& v) { return sum(conv(v) * y); }, x);
  expect_close(back(y), want);
}

// spec: T13, L4
TEST(Convolutions, TransposedOnesAreTheGradientsInX) {
  const SeedScope seed(3);
  expect_transpose(TransposedConv1D(4, 2, 3, {.strides = 2, .output_padding = 1}),
                   Conv1D(4, 3, 2, {.strides = 2, .bias = false}), {2, 3, 2}, {2, 9, 3});
  expect_transpose(TransposedConv2D({3, 2}, 2, 3, {.strides = {2, 3}, .padding = "same"}),
                   Conv2D({3, 2}, 3, 2, {.strides = {2, 3}, .padding = "same", .bias = false}),
                   {2, 3, 2, 2}, {2, 6, 6, 3});
  expect_transpose(
      TransposedConv3D({3, 2, 2}, 2, 3, {.strides = {2, 1, 3}, .output_padding = {1, 0, 2}}),
      Conv3D({3, 2, 2}, 3, 2, {.strides = {2, 1, 3}, .bias = false}), {2, 2, 3, 2, 2},
      {2, 6, 4, 7, 3});
  for (const int64_t size : {2, 5}) {  // below and above the stride
    expect_transpose(TransposedConv3D(size, 2, 3, {.strides = 3, .padding = "same"}),
                     Conv3D(size, 3, 2, {.strides = 3, .padding = "same", .bias = false}),
                     {1, 2, 2, 1, 2}, {1, 6, 6, 3, 3});
  }
  TransposedConv2D biased(2, 1, 1, {.filter_init = ones});
  biased.bias = Tensor({0.5F});
  expect_relatively_near(biased(ones({1, 1, 2, 1})), {1.5, 2.5, 1.5, 1.5, 2.5, 1.5});
}

// spec: L30
TEST(Convolutions, LocalOnesHaveAFilterForEachPlace) {
  const SeedScope seed(4);
  LocallyConnected2D local({4, 5}, {2, 3}, 2, 3, {.strides = {2, 1}});
  EXPECT_EQ(local.filter.shape(), (Shape{6, 12, 3}));
  const Tensor x = drawn({2, 4, 5, 2});
  // With one filter for all places it is a convolution.
  const Tensor filter = drawn({12, 3});
  local.filter = broadcast_to(filter, {6, 12, 3});
  Conv2D conv({2, 3}, 2, 3, {.strides = {2, 1}});
  conv.filter = reshape(filter, {2, 3, 2, 3});
  expect_close(local(x), conv(x));
  local.bias = concat({zeros({5, 3}), ones({1, 3})});  // of the last place alone
  const Tensor moved = local(x) - conv(x);
  EXPECT_NEAR(sum(moved).item<float>(), 6, 1e-3);
  EXPECT_NE(message_of([&] {
              local(zeros({2, 4, 4, 2}));
            }).find("the layer was made for [2,4,5,2]"),
            std::string::npos);
  EXPECT_EQ(LocallyConnected1D(6, 3, 2, 4)(drawn({2, 6, 2})).shape(), (Shape{2, 4, 4}));
}

// spec: T14, L8
TEST(Pooling, OverThreeAxesIsThatOfAllElementsOfAWindow) {
  const SeedScope seed(5);
  const Tensor x = drawn({2, 4, 5, 6, 2});
  const Tensor highest = MaxPool3D({2, 3, 2}, {.strides = {2, 1, 3}})(x);
  const Tensor average = AvgPool3D({2, 3, 2}, {.strides = {2, 1, 3}})(x);
  ASSERT_EQ(highest.shape(), (Shape{2, 2, 3, 2, 2}));
  for (int d = 0; d < 2; ++d) {
    for (int h = 0; h < 3; ++h) {
      for (int w = 0; w < 2; ++w) {
        const Tensor window =
            x.at(kAll, slice(2 * d, 2 * d + 2), slice(h, h + 3), slice(3 * w, 3 * w + 2));
        const std::vector<int64_t> inner{1, 2, 3};
        EXPECT_TRUE(same_value(Tensor(highest.at(kAll, d, h, w)), max(window, {.axis = inner})));
        expect_close(Tensor(average.at(kAll, d, h, w)), mean(window, {.axis = inner}));
      }
    }
  }
  // Padding takes no part: a corner sees one element of eight.
  expect_relatively_near(AvgPool3D(2, {.strides = 2, .padding = "same"})(ones({1, 3, 3, 3, 1})),
                         std::vector<double>(8, 1));
  expect_relatively_near(MaxPool1D(2)(Tensor({{{1.0}, {3.0}, {2.0}, {0.0}}})), {3, 2});
  expect_relatively_near(AvgPool1D(2, {.strides = 1})(Tensor({{{1.0}, {3.0}, {2.0}}})), {2, 2.5});
  // Of equal maxima the first in row-major order gets the gradient.
  const Tensor flat = ones({1, 2, 2, 2, 1});
  expect_relatively_near(gradient([](const Tensor& v) { return sum(MaxPool3D(2)(v)); }, flat),
                         {1, 0, 0, 0, 0, 0, 0, 0});
}

// spec: L9, L11
TEST(Pooling, GlobalOnesAndUpSampling) {
  const Tensor x(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 2, 2});
  expect_relatively_near(GlobalMaxPool2D()(x), {7, 8});
  expect_relatively_near(GlobalAvgPool2D()(x), {4, 5});
  EXPECT_EQ(GlobalAvgPool1D()(zeros({2, 3, 4})).shape(), (Shape{2, 4}));
  EXPECT_EQ(GlobalMaxPool3D()(zeros({2, 3, 4, 5, 6})).shape(), (Shape{2, 6}));
  expect_relatively_near(UpSampling2D(2)(Tensor(std::vector<float>{1, 2}, {1, 1, 2, 1})),
                         {1, 1, 2, 2, 1, 1, 2, 2});
  EXPECT_EQ(UpSampling3D({1, 2, 3})(zeros({1, 2, 2, 2, 1})).shape(), (Shape{1, 2, 4, 6, 1}));
  const Tensor small = ones({1, 2, 2, 1});
  expect_relatively_near(gradient([](const Tensor& v) { return sum(UpSampling2D(2)(v)); }, small),
                         {4, 4, 4, 4});
}

// spec: T14, L10
TEST(Pooling, FractionalRegionsCoverTheImage) {
  const SeedScope seed(6);
  for (const bool pseudo_random : {false, true}) {
    for (const bool overlapping : {false, true}) {
      for (int64_t s = 0; s < 20; ++s) {
        const FractionalMaxPool2D pool(
            {1, 1.4, 1.9, 1},
            {.pseudo_random = pseudo_random, .overlapping = overlapping, .seed = s});
        // Of ascending numbers the largest of a region is its last: all but the ends of regions go.
        const Tensor ascending = reshape(arange(13 * 11, {.dtype = kFloat32}), {1, 13, 11, 1});
        const Tensor y = pool(ascending);
        ASSERT_EQ(y.shape(), (Shape{1, 9, 5, 1}));
        const std::vector<double> ends = y.to_vector<double>();
        EXPECT_EQ(ends.back(), 13 * 11 - 1);
        int64_t was = overlapping ? 0 : -1;
        for (int row = 0; row < 9; ++row) {  // regions are one or two rows, or one more
          const auto end = static_cast<int64_t>(ends[static_cast<std::size_t>(row * 5)]) / 11;
          EXPECT_GE(end - was, row == 8 && overlapping ? 0 : 1) << s;
          EXPECT_LE(end - was, 2) << s;
          was = end;
        }
        EXPECT_TRUE(same_value(y, pool(ascending)));
      }
    }
  }
  expect_relatively_near(FractionalMaxPool2D({1, 1, 1, 1}, {.pseudo_random = true})(
                             Tensor(std::vector<float>{1, 2, 3, 4}, {1, 2, 2, 1})),
                         {1, 2, 3, 4});
  EXPECT_NE(message_of([] {
              FractionalMaxPool2D({1, 0.5, 1, 1});
            }).find("FractionalMaxPool2D: ratio is 0.5 for height and 1 for width"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              FractionalMaxPool2D({2, 1, 1, 1});
            }).find("ratio is 2 for examples"),
            std::string::npos);
}

// spec: L7, L30
TEST(Padding, PaddingAndCroppingAreInverse) {
  const SeedScope seed(7);
  const Tensor x = drawn({2, 3, 4, 2});
  const ZeroPadding2D around({1, 2, 0, 3});
  const Tensor y = around(x);
  EXPECT_EQ(y.shape(), (Shape{2, 6, 7, 2}));
  EXPECT_NEAR(sum(y).item<float>(), sum(x).item<float>(), 1e-4);
  EXPECT_TRUE(same_value(Cropping2D({1, 2, 0, 3})(y), x));
  EXPECT_EQ(ZeroPadding1D(2)(zeros({1, 3, 1})).shape(), (Shape{1, 7, 1}));
  EXPECT_EQ(ZeroPadding3D({1, 0, 0, 0, 0, 2})(zeros({1, 1, 1, 1, 1})).shape(),
            (Shape{1, 2, 1, 3, 1}));
  EXPECT_EQ(Cropping1D(1)(zeros({1, 3, 1})).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(Cropping3D({1, 0, 0, 0, 0, 0})(zeros({1, 2, 1, 1, 1})).shape(), (Shape{1, 1, 1, 1, 1}));
  EXPECT_NE(message_of([&] {
              Cropping2D({2, 2, 0, 0})(x);
            }).find("2 and 2 elements cannot be taken"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              ZeroPadding2D({1, 2});
            }).find("needed are one, or 4"),
            std::string::npos);
  EXPECT_NE(message_of([] { ZeroPadding2D(-1); }).find("ZeroPadding2D: the width -1"),
            std::string::npos);
  // Channel 0 of a block of two by two, then channel 1.
  const Tensor block(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 8});
  expect_relatively_near(PixelShuffle(2)(block), {1, 5, 2, 6, 3, 7, 4, 8});
  EXPECT_NE(message_of([&] { PixelShuffle(3)(block); }).find("no multiple of 9"),
            std::string::npos);
}

// spec: T15, L16, L28
TEST(Normalisation, OfEachExample) {
  const SeedScope seed(8);
  const Tensor x = drawn({3, 4, 5});
  LayerNorm norm({4, 5}, {.epsilon = 1e-5});
  norm.scale = drawn({4, 5});
  norm.offset = drawn({4, 5});
  const Tensor away = x - mean(x, {.axis = {1, 2}, .keepdims = true});
  const Tensor variance = mean(square(away), {.axis = {1, 2}, .keepdims = true});
  expect_close(norm(x), away / sqrt(variance + 1e-5) * norm.scale + norm.offset);
  const LayerNorm other(IntList{3, 5}, {.axes = {0, 2}, .offset = false});
  EXPECT_FALSE(other.offset.has_value());
  expect_relatively_near(mean(other(x), {.axis = {0, 2}}), {0, 0, 0, 0});
  expect_relatively_near(LayerNorm(2)(Tensor({{1.0, 3.0}})), {-.9995004, .9995004}, 1e-6);
  RMSNorm rms(2, 0);
  rms.scale = Tensor({1.0F, 10.0F});
  expect_relatively_near(rms(Tensor({{3.0, 4.0}})), {.8485281, 11.3137085});
  const Tensor rows({{3.0, 4.0}, {0.0, 0.0}});
  expect_relatively_near(l2_normalize(rows), {.6, .8, 0, 0});
  EXPECT_NE(message_of([&] {
              norm(zeros({3, 4, 4}));
            }).find("with [4,4] on the axes of the layer"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              LayerNorm({4, 5}, {.axes = -1});
            }).find("1 axes for the shape [4,5]"),
            std::string::npos);
  EXPECT_NE(message_of([] { RMSNorm(0); }).find("RMSNorm: the size 0"), std::string::npos);
}

// spec: T15, L17, L18
TEST(Normalisation, OfGroupsOfFeatures) {
  const SeedScope seed(9);
  const Tensor x = drawn({2, 3, 4, 6});
  GroupNorm norm(6, 3, {.epsilon = 1e-5});
  norm.scale = drawn({6});
  norm.offset = drawn({6});
  const Tensor parts = reshape(x, {2, 12, 3, 2});
  const Tensor away = parts - mean(parts, {.axis = {1, 3}, .keepdims = true});
  const Tensor variance = mean(square(away), {.axis = {1, 3}, .keepdims = true});
  const Tensor want = reshape(away / sqrt(variance + 1e-5), x.shape()) * norm.scale + norm.offset;
  expect_close(norm(x), want);
  GroupNorm first(6, 3, {.axis = 1, .epsilon = 1e-5});
  first.scale = norm.scale;
  first.offset = norm.offset;
  expect_close(first(permute_dims(x, {0, 3, 1, 2})), permute_dims(want, {0, 3, 1, 2}));
  const InstanceNorm each(6, {.epsilon = 1e-5});
  const GroupNorm six(6, 6, {.epsilon = 1e-5});
  expect_close(each(x), six(x));
  EXPECT_NE(
      message_of([] { GroupNorm(6, 4); }).find("GroupNorm: 4 groups do not divide 6 features"),
      std::string::npos);
  EXPECT_NE(message_of([] { GroupNorm(6, 2, {.axis = 0}); }).find("axis is 0"), std::string::npos);
  EXPECT_NE(message_of([&] {
              norm(zeros({2, 3, 5}));
            }).find("GroupNorm: the input has shape [2,3,5] with 5 features on axis 2"),
            std::string::npos);
}

// spec: L13.c
TEST(Noise, IsOfTrainingAlone) {
  const Tensor x = random::normal({4, 3, 3, 2});
  const auto expect_identity = [&](const auto& layer) { EXPECT_TRUE(same_value(layer(x), x)); };
  expect_identity(Dropout(.5));
  expect_identity(GaussianNoise(.5));
  expect_identity(GaussianDropout(.5));
  expect_identity(AlphaDropout(.5));
  expect_identity(SpatialDropout(.5));
  expect_identity(StochasticDepth(.5));
}

// spec: L13.b
TEST(Noise, KeepsMeanAndVariance) {
  const SeedScope seed(10);
  const PhaseScope training(Phase::kTraining);
  const Tensor x = random::normal({40000});
  const auto expect_moments = [&](const Tensor& y, double of_mean, double of_variance) {
    EXPECT_NEAR(mean(y).item<float>(), of_mean, .03);
    EXPECT_NEAR(var(y).item<float>(), of_variance, .06);
  };
  expect_moments(AlphaDropout(.2)(x), 0, 1);
  expect_moments(GaussianNoise(.5)(x), 0, 1.25);
  expect_moments(GaussianDropout(.2)(ones({40000})), 1, .25);
  const Tensor y = SpatialDropout(.5)(ones({20, 3, 3, 10}));
  expect_close(max(y, {.axis = {1, 2}}), min(y, {.axis = {1, 2}}));
  EXPECT_NEAR(mean(y).item<float>(), 1, .3);
  const Tensor z = StochasticDepth(.5)(ones({200, 4}));
  expect_close(max(z, {.axis = 1}), min(z, {.axis = 1}));
  EXPECT_NE(message_of([] { AlphaDropout(1); }).find("AlphaDropout: p is 1"), std::string::npos);
}

// ResNet for CIFAR: K. He et al. (2015), section 4.2. Its shortcuts by padding (option A) have no
// parameters; those by projection have 16 * 32 + 32 * 64 and two numbers for each channel.
struct ResNet {
  Conv2D stem{3, 3, 16, {.padding = "same", .bias = false}};
  BatchNorm norm{16};
  std::vector<ResidualBlock> blocks;
  Dense output{64, 10};
  Tensor operator()(const Tensor& x) const {
    Tensor y = relu(norm(stem(x)));
    for (const ResidualBlock& block : blocks) y = block(y);
    return output(GlobalAvgPool2D()(y));
  }
};
ResNet make_resnet(int blocks_per_stage, const char* shortcut) {
  ResNet model;
  int64_t in = 16;
  for (const int64_t out : {16, 32, 64}) {
    for (int i = 0; i < blocks_per_stage; ++i) {
      const int64_t stride = i == 0 && out > 16 ? 2 : 1;
      model.blocks.emplace_back(in, out, ResidualOptions{.stride = stride, .shortcut = shortcut});
      in = out;
    }
  }
  return model;
}

// spec: L27, L29
TEST(Blocks, HaveThePublishedNumbersOfParameters) {
  const Summary resnet = summary(make_resnet(9, "projection"), {1, 32, 32, 3});
  EXPECT_EQ(resnet.result, (Shape{1, 10}));
  EXPECT_EQ(resnet.parameters, 855770);
  EXPECT_EQ(summary(make_resnet(9, "padding"), {1, 32, 32, 3}).parameters, 853018);
  EXPECT_EQ(summary(MLP({784, 256, 128, 10}), {1, 784}).parameters, 235146);
  EXPECT_EQ(summary(SqueezeExcite(64, 4), {1, 8, 8, 64}).parameters, 64 * 4 + 4 + 4 * 64 + 64);
  // The first block of MobileNetV2 that expands: 96 channels, 24 of 16.
  EXPECT_EQ(summary(InvertedResidual(16, 24, {.stride = 2}), {1, 8, 8, 16}).parameters,
            16 * 96 + 2 * 96 + 9 * 96 + 2 * 96 + 96 * 24 + 2 * 24);
  // ViT-B/16.
  EXPECT_EQ(summary(PatchEmbedding(16, 3, 768), {1, 224, 224, 3}).parameters, 590592);
}

// spec: L29
TEST(Blocks, AddToTheirInput) {
  const SeedScope seed(11);
  ResidualBlock block(4, 4);
  EXPECT_FALSE(block.shortcut.has_value());
  block.norm2.scale = zeros({4});
  const Tensor x = drawn({2, 5, 5, 4});
  expect_close(block(x), relu(x));
  ResidualBlock wider(4, 6, {.stride = 2, .shortcut = "padding"});
  wider.norm2.scale = zeros({6});
  const Tensor y = wider(x);
  expect_close(Tensor(y.at(kEllipsis, slice(1, 5))),
               relu(x.at(kAll, slice({}, {}, 2), slice({}, {}, 2))));
  EXPECT_TRUE(ResidualBlock(4, 6).shortcut.has_value());
  InvertedResidual inverted(4, 4, {.expansion = 1});
  EXPECT_FALSE(inverted.expand.has_value());
  inverted.project_norm.scale = zeros({4});
  expect_close(inverted(x), x);
  EXPECT_NE(message_of([&] {
              PatchEmbedding(2, 4, 3)(x);
            }).find("PatchEmbedding: the input has shape [2,5,5,4], whose height and width"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              ResidualBlock(4, 2, {.shortcut = "padding"});
            }).find("to no fewer channels, but these are 4 and 2"),
            std::string::npos);
  EXPECT_NE(message_of([] { MLP(IntList{4}); }).find("MLP: 1 sizes"), std::string::npos);
}

// spec: L30
TEST(Adapters, WeightsAreNormalisedAdaptedAndQuantised) {
  const SeedScope seed(12);
  const Dense dense(6, 4);
  const Tensor x = drawn({5, 6});
  const WeightNorm normed(dense);
  expect_close(normed(x), dense(x));
  WeightNorm longer = normed;
  longer.magnitude = longer.magnitude * 2.0F;
  expect_close(longer(x), dense(x) * 2.0F);

  SpectralNorm spectral(dense);
  Tensor u = spectral.vector.value;
  for (int i = 0; i < 300; ++i) u = internal::power_step(dense.weight, u);
  spectral.vector.value = u;
  // The largest singular value squared is the largest eigenvalue of W^T W, which u belongs to.
  const Tensor square_of = matmul(dense.weight, dense.weight, {.transpose_x = true});
  const double value = std::sqrt(sum(u * matmul(square_of, u)).item<float>());
  expect_close(matmul(square_of, u), u * (value * value), 1e-3);
  expect_close(spectral(x), dense(x) / value, 1e-4);

  LoRA adapted(dense, 2, 3);
  EXPECT_TRUE(same_value(adapted(x), dense(x)));
  adapted.up = drawn({2, 4});
  expect_close(adapted(x), dense(x) + matmul(matmul(x, adapted.down), adapted.up) * 1.5F);
  expect_close(adapted.merged()(x), adapted(x));
  EXPECT_EQ(summary(adapted, {5, 6}).parameters, 6 * 2 + 2 * 4);

  const QuantizedDense small(dense);
  EXPECT_EQ(small.weight.value.dtype(), kInt8);
  const Tensor restored = astype(small.weight.value, kFloat32) * small.factor.value;
  EXPECT_LE(max(abs(restored - dense.weight) / small.factor.value).item<float>(), .5001);
  expect_close(small(x), matmul(x, restored));
  EXPECT_NE(message_of([&] { LoRA(dense, 0); }).find("LoRA: rank is 0"), std::string::npos);
}

// spec: L2..L11, L16..L18
TEST(ImageLayers, ErrorsNameTheLayerAndBothShapes) {
  const Tensor x = zeros({2, 4, 4, 3});
  const struct {
    std::function<void()> call;
    std::string_view text;
  } wrong[] = {
      {[&] { Conv1D(3, 3, 2)(x); },
       "Conv1D: the input has shape [2,4,4,3], but the layer needs 3 axes, the last of size 3 (its "
       "filter has shape [3,3,2])"},
      {[&] { Conv3D(3, 3, 2)(x); }, "Conv3D: the input has shape [2,4,4,3]"},
      {[&] { TransposedConv2D(3, 2, 2)(x); },
       "TransposedConv2D: the input has shape [2,4,4,3], but the layer needs 4 axes, the last of "
       "size 2 (its filter has shape [3,3,2,2])"},
      {[&] { DepthwiseConv2D(3, 2)(x); },
       "DepthwiseConv2D: the input has shape [2,4,4,3], but the layer needs 4 axes, the last of "
       "size 2"},
      {[&] { SeparableConv2D(3, 2, 2)(x); }, "SeparableConv2D: the input has shape [2,4,4,3]"},
      {[&] { MaxPool1D(2)(x); }, "MaxPool1D: the input has shape [2,4,4,3], but the layer needs 3"},
      {[&] { AvgPool3D(2)(x); }, "AvgPool3D: the input has shape [2,4,4,3], but the layer needs 5"},
      {[&] { GlobalAvgPool1D()(x); }, "GlobalAvgPool1D: the input has shape [2,4,4,3]"},
      {[&] { UpSampling1D(2)(x); }, "UpSampling1D: the input has shape [2,4,4,3]"},
      {[&] { InstanceNorm(2)(x); }, "InstanceNorm: the input has shape [2,4,4,3] with 3 features"},
      {[&] {
         Conv3D({1, 2}, 3, 2);
       },
       "Conv3D: the window has 2 sizes, but needs one, or 3"},
      {[&] {
         Conv1D({1, 2}, 3, 2);
       },
       "Conv1D: the window has 2 sizes, but needs one"},
      {[&] {
         Conv2D(3, 3, 2, {.strides = {1, 1, 1}});
       },
       "Conv2D: strides has 3 sizes"},
      {[&] { DepthwiseConv2D(3, 3, 1, {.groups = 3}); }, "DepthwiseConv2D: groups is 3"},
      {[&] { TransposedConv1D(3, 0, 2); }, "TransposedConv1D: 0 input and 2 output channels"},
      {[&] { LocallyConnected2D(2, 3, 1, 1); }, "LocallyConnected2D: the window has the size 3"},
      {[&] { UpSampling2D(0); }, "UpSampling2D: size has the size 0, but needs at least 1"},
      {[&] { PixelShuffle(0); }, "PixelShuffle: block is 0"},
  };
  for (const auto& [call, text] : wrong) {
    expect_error(call, ErrorCode::kInvalidArgument, {text, "image_layers_test.cc"});
  }
}

}  // namespace
}  // namespace etude::nn::image_layers_test
