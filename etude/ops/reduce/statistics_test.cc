// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "etude/device/cpu/parallel.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "etude/ops/random.h"

namespace etude {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

const Tensor kSquare({{1.0, 2.0}, {3.0, 4.0}});

// spec: T31, T10.a, T10.d
TEST(Statistics, VarianceAndItsGradient) {
  EXPECT_EQ(var(kSquare).item<float>(), 1.25f);
  expect_near(var(kSquare, {.axis = 0, .correction = 1, .keepdims = true}), {2, 2}, 1e-6);
  expect_near(etude::std(kSquare, {.axis = 1}), {.5, .5}, 1e-6);
  const auto [center, spread] = moments(kSquare, {.axis = 1});
  expect_near(center, {1.5, 3.5}, 1e-6);
  expect_near(spread, {.25, .25}, 1e-6);
  expect_near(gradient_of([](const Tensor& x) { return var(x); }, kSquare), {-.75, -.25, .25, .75},
              1e-6);
  // Equal elements: no direction.
  expect_near(gradient_of([](const Tensor& x) { return etude::std(x); }, Tensor{2.0, 2.0}), {0, 0},
              0);
}

// spec: T10.a, T10.d
TEST(Statistics, Norms) {
  const Tensor x({{3.0, -4.0}, {0.0, 0.0}});
  EXPECT_EQ(norm(x).item<float>(), 5);
  expect_near(norm(x, {.ord = 1, .axis = 1}), {7, 0}, 0);
  expect_near(norm(x, {.ord = 0, .axis = 1}), {2, 0}, 0);
  expect_near(norm(x, {.ord = std::numeric_limits<double>::infinity(), .axis = 0}), {3, 4}, 0);
  expect_near(norm(x, {.ord = 3}), {std::cbrt(27.0 + 64.0)}, 1e-5);
  expect_near(gradient_of([](const Tensor& v) { return norm(v, {.axis = 1}); }, x), {.6, -.8, 0, 0},
              1e-6);
}

// spec: T10.a, T10.d
TEST(Statistics, Differences) {
  const Tensor x{1.0, 4.0, 9.0, 16.0};
  expect_near(diff(x), {3, 5, 7}, 0);
  expect_near(diff(x, {.n = 2}), {2, 2}, 0);
  EXPECT_EQ(diff(x, {.n = 9}).size(), 0);
  expect_near(gradient_of([](const Tensor& v) { return diff(v); }, x, Tensor{1.0, 10.0, 100.0}),
              {-1, -9, -90, 100}, 0);
}

// spec: T10.a
TEST(Scans, AllVariants) {
  const Tensor x{2.0, 3.0, 5.0};
  expect_near(cumulative_sum(x), {2, 5, 10}, 0);
  expect_near(cumulative_sum(x, {.exclusive = true}), {0, 2, 5}, 0);
  expect_near(cumulative_sum(x, {.reverse = true}), {10, 8, 5}, 0);
  expect_near(cumulative_sum(x, {.exclusive = true, .reverse = true}), {8, 5, 0}, 0);
  expect_near(cumulative_sum(x, {.include_initial = true}), {0, 2, 5, 10}, 0);
  expect_near(cumulative_sum(x, {.reverse = true, .include_initial = true}), {10, 8, 5, 0}, 0);
  expect_near(cumulative_prod(x), {2, 6, 30}, 0);
  expect_near(cumulative_prod(x, {.include_initial = true}), {1, 2, 6, 30}, 0);
  expect_near(cumulative_sum(kSquare, {.axis = 0}), {1, 2, 4, 6}, 0);
  EXPECT_EQ(cumulative_sum(astype(x, kInt8)).dtype(), kInt32);
  EXPECT_NE(message_of([] { cumulative_sum(kSquare); }).find("so 'axis' is required"),
            std::string::npos);
}

// Against differences in float64, zeros among the elements included.
// spec: T10.d, T35
TEST(Scans, GradientsOfRunningProducts) {
  for (int flags = 0; flags < 8; ++flags) {
    const CumulativeProdOptions options{.exclusive = (flags & 1) != 0,
                                        .reverse = (flags & 2) != 0,
                                        .include_initial = (flags & 4) != 0};
    if (options.exclusive && options.include_initial) continue;
    for (const std::vector<double>& values :
         {std::vector<double>{2, 3, -1, .5}, {2, 0, 3, 4}, {0, 3, 0, 2}}) {
      SCOPED_TRACE(flags);
      const auto f = [&](const Tensor& x) { return cumulative_prod(x, options); };
      std::vector<double> weights(options.include_initial ? 5 : 4), want;
      std::iota(weights.begin(), weights.end(), 1.0);
      for (std::size_t i = 0; i < 4; ++i) {  // each result is linear in each element
        std::vector<double> up = values, down = values;
        up[i] += .5;
        down[i] -= .5;
        want.push_back(sum((f(Tensor(up)) - f(Tensor(down))) * Tensor(weights)).item<double>());
      }
      expect_near(gradient_of(f, Tensor(values), Tensor(weights)), want, 1e-12);
    }
  }
}

// spec: T21.a
TEST(Sorting, IsStableWithNanLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x(Floats{3, nan, 1, 2, 1, nan});
  EXPECT_EQ(argsort(x).to_vector<int64_t>(), (Ints{2, 4, 3, 0, 1, 5}));
  EXPECT_EQ(argsort(x, {.descending = true}).to_vector<int64_t>(), (Ints{0, 3, 2, 4, 1, 5}));
  const Floats sorted = sort(x).to_vector<float>();
  EXPECT_EQ(Floats(sorted.begin(), sorted.begin() + 4), (Floats{1, 1, 2, 3}));
  EXPECT_TRUE(std::isnan(sorted[4]) && std::isnan(sorted[5]));
  EXPECT_EQ(sort(Tensor({{3, 1}, {2, 5}}), {.axis = 0}).to_vector<int32_t>(),
            (std::vector<int32_t>{2, 1, 3, 5}));
  EXPECT_EQ(sort(Tensor(std::vector<uint64_t>{~uint64_t{0}, 1})).to_vector<uint64_t>(),
            (std::vector<uint64_t>{1, ~uint64_t{0}}));
  expect_near(gradient_of([](const Tensor& v) { return sort(v); }, Tensor{3.0, 1.0, 2.0},
                          Tensor{10.0, 20.0, 30.0}),
              {30, 10, 20}, 0);
}

// spec: T21.a
TEST(Sorting, LongRowsForAnyNumberOfThreads) {
  std::mt19937 random(3);
  std::vector<int32_t> values(20 * 5000);
  for (int32_t& v : values) v = static_cast<int32_t>(random() % 1000);
  const Tensor x(values, {20, 5000});
  std::vector<Tensor> results;
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    results.push_back(argsort(x));
  }
  set_thread_count(0);
  EXPECT_TRUE(same_value(results[0], results[1]));
  EXPECT_TRUE(same_value(results[0], results[2]));
  const std::vector<int32_t> sorted = sort(x).to_vector<int32_t>();
  for (std::size_t row = 0; row < 20; ++row) {
    std::vector<int32_t> want(values.begin() + row * 5000, values.begin() + (row + 1) * 5000);
    std::sort(want.begin(), want.end());
    EXPECT_TRUE(std::equal(want.begin(), want.end(), sorted.begin() + row * 5000));
  }
  EXPECT_TRUE(same_value(take_along_axis(x, results[0]), sort(x)));
}

// spec: T21.a
TEST(Sorting, TopKAndExtremePositions) {
  const auto [values, indices] = top_k(Tensor({{1.0, 5.0, 3.0}, {2.0, 2.0, 9.0}}), 2);
  expect_near(values, {5, 3, 9, 2}, 0);
  EXPECT_EQ(indices.to_vector<int64_t>(), (Ints{1, 2, 2, 0}));
  expect_near(gradient_of([](const Tensor& v) { return top_k(v, 2).values; }, Tensor{1.0, 5.0, 3.0},
                          Tensor{10.0, 20.0}),
              {0, 10, 20}, 0);
  EXPECT_NE(message_of([] {
              top_k(Tensor{1.0, 2.0}, 3);
            }).find("k is 3, but axis 0 of operand 'x' has 2"),
            std::string::npos);
  const Tensor x({{1.0, 7.0, 7.0}, {9.0, -2.0, 0.0}});
  EXPECT_EQ(argmax(x).item<int64_t>(), 3);
  EXPECT_EQ(argmax(x, {.axis = 1}).to_vector<int64_t>(), (Ints{1, 0}));
  EXPECT_EQ(argmin(x, {.axis = 0, .keepdims = true}).to_vector<int64_t>(), (Ints{0, 1, 1}));
  EXPECT_EQ(argmin(x, {.axis = 0, .keepdims = true}).shape(), Shape({1, 3}));
  EXPECT_NE(message_of([&] {
              take_along_axis(x, Tensor({{3}, {0}}));
            }).find("index 3 is out of range for axis 1 of size 3"),
            std::string::npos);
}

// spec: T15
TEST(Normalization, BatchByGivenStatistics) {
  const Tensor mean{2.0, 3.0}, var{1.0, 4.0}, offset{10.0, 20.0}, scale{1.0, 3.0};
  const Tensor y = nn::batch_normalize(kSquare, mean, var, offset, scale, {.epsilon = 0});
  expect_near(y, {9, 18.5, 11, 21.5}, 1e-5);
  const Tensor rows =
      nn::batch_normalize(kSquare, mean, var, offset, scale, {.axis = 0, .epsilon = 0});
  expect_near(rows, {9, 10, 20, 21.5}, 1e-5);
  EXPECT_NE(message_of([&] {
              nn::batch_normalize(kSquare, Tensor{1.0}, var, offset, scale);
            }).find("needs mean of shape [2]"),
            std::string::npos);
  const auto by = [&](auto f, const Tensor& at) {
    return gradient_of(f, at, Tensor({{1.0, 2.0}, {3.0, 4.0}}));
  };
  expect_near(by([&](const Tensor& v) { return nn::batch_normalize(kSquare, mean, var, v, scale); },
                 offset),
              {4, 6}, 1e-6);
  expect_near(by(
                  [&](const Tensor& v) {
                    return nn::batch_normalize(kSquare, v, var, offset, scale, {.epsilon = 0});
                  },
                  mean),
              {-4, -9}, 1e-5);
  expect_near(by(
                  [&](const Tensor& v) {
                    return nn::batch_normalize(kSquare, mean, var, offset, v, {.epsilon = 0});
                  },
                  scale),
              {2, 1}, 1e-5);
}

// spec: T15
TEST(Normalization, LayerHasMeanZeroAndVarianceOne) {
  std::mt19937 random(5);
  Floats values(6 * 40);
  for (float& v : values) v = static_cast<float>(random() % 1000) * 0.01f;
  const Tensor x(values, {6, 40});
  const Tensor y = nn::layer_normalize(x, {-1}, {.epsilon = 0});
  expect_near(mean(y, {.axis = 1}), std::vector<double>(6, 0), 1e-6);
  expect_near(var(y, {.axis = 1}), std::vector<double>(6, 1), 1e-5);
  // Moving or stretching a row changes nothing, so the gradient is orthogonal to both.
  const Tensor g = gradient_of(
      [](const Tensor& v) { return nn::layer_normalize(v, {1}, {.epsilon = 0}); }, x, x * x);
  expect_near(sum(g, {.axis = 1}), std::vector<double>(6, 0), 1e-3);
  expect_near(sum(g * x, {.axis = 1}), std::vector<double>(6, 0), 1e-2);
}

TEST(Normalization, NoFeaturesAreNormalizedToNone) {
  for (const Shape& shape : {Shape{2, 0}, Shape{2, 3, 0}, Shape{2, 0, 3}}) {
    const int64_t axis = shape[1] == 0 ? 1 : -1;
    EXPECT_EQ(nn::instance_normalize(zeros(shape), {.axis = axis}).shape(), shape);
  }
}

// With the features last one fused op has the statistics; by their definition, with gradients that
// cross chunks of rows and examples. As many examples as are worked on side by side, and few.
// spec: T15, L17
TEST(Normalization, GroupsOfTheLastAxis) {
  for (const int64_t examples : {2, 37}) {
    for (const int64_t groups : {1, 3, 6}) {
      const auto data = [](const IntList& shape, uint64_t seed) {
        return random::normal(shape, {.dtype = kFloat64, .key = random::key(seed)});
      };
      const int64_t side = examples == 2 ? 50 : 3;
      const Tensor x = data({examples, side, side, 6}, 1) + 3.0, scale = data({6}, 2),
                   offset = data({6}, 3), ct = data({examples, side, side, 6}, 4);
      const auto fused = [&](const Tensor& a, const Tensor& s) {
        return nn::group_normalize(a, groups, {.scale = s, .offset = offset});
      };
      const auto written = [&](const Tensor& a, const Tensor& s) {
        const Tensor parts = reshape(a, {examples, side * side, groups, 6 / groups});
        const Ints over = {1, 3};
        const Tensor away = parts - mean(parts, {.axis = over, .keepdims = true});
        const Tensor variance = mean(square(away), {.axis = over, .keepdims = true});
        return reshape(away / sqrt(variance + 0.001), a.shape()) * s + offset;
      };
      const auto near = [](const Tensor& a, const Tensor& b) {
        EXPECT_LT(max(abs(a - b)).item<double>(), 1e-10);
      };
      near(fused(x, scale), written(x, scale));
      const auto by_x = [&](const auto& f) { return [&](const Tensor& t) { return f(t, scale); }; };
      const auto by_scale = [&](const auto& f) { return [&](const Tensor& t) { return f(x, t); }; };
      near(gradient_of(by_x(fused), x, ct), gradient_of(by_x(written), x, ct));
      near(gradient_of(by_scale(fused), scale, ct), gradient_of(by_scale(written), scale, ct));
      const auto squares = [&](const auto& f) {
        return [&](const Tensor& t) { return sum(square(gradient_of(by_x(f), t, ct))); };
      };
      near(gradient_of(squares(fused), x), gradient_of(squares(written), x));
      const Tensor first = permute_dims(x, {0, 3, 1, 2});
      const Tensor other =
          nn::group_normalize(first, groups, {.axis = 1, .scale = scale, .offset = offset});
      near(permute_dims(other, {0, 2, 3, 1}), fused(x, scale));
    }
  }
}

}  // namespace
}  // namespace etude
