// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "etude/device/cpu/parallel.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"

namespace etude::softmax_test {
namespace {

using Floats = std::vector<float>;
using Labels = std::vector<int32_t>;

const Tensor kLogits({{1.0, 2.0, 3.0, 4.0}, {5.0, 6.0, 7.0, 8.0}});    // P of the loss rows
const Tensor kExpected({{0.1, 0.2, 0.3, 0.4}, {0.4, 0.3, 0.2, 0.1}});  // E

Tensor random_tensor(const Shape& shape, float scale) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, scale);
  Floats values(static_cast<std::size_t>(shape.count()));
  for (float& v : values) v = normal(random);
  return Tensor(values, shape);
}

// spec: T37
TEST(Softmax, Values) {
  const Tensor x{1.0, 2.0, 3.0};
  expect_near(nn::softmax(x), {.09003, .24473, .66524}, 1e-5);
  expect_near(logsumexp(x), {3.4076060}, 1e-6);
  expect_near(nn::log_softmax(Tensor{1e4, 0.0}), {0, -1e4}, 0);
  expect_near(gradient_of([](const Tensor& v) { return nn::softmax(v); }, x, Tensor{1.0, 0.0, 0.0}),
              {.0819251, -.0220329, -.0598921}, 1e-6);
  const Tensor g =
      gradient_of([](const Tensor& v) { return nn::log_softmax(v); }, x, Tensor{3.0, -1.0, 2.0});
  EXPECT_NEAR(sum(g).item<float>(), 0, 1e-6);
}

// spec: T9.a, T37
TEST(Softmax, ExtremeRows) {
  const float infinity = std::numeric_limits<float>::infinity();
  expect_near(nn::softmax(Tensor(Floats{-infinity, 0, 0})), {0, .5, .5}, 0);
  expect_near(logsumexp(Tensor(Floats{-infinity, -infinity})), {-infinity}, 0);
  EXPECT_EQ(logsumexp(Tensor(Floats{infinity, 1})).item<float>(), infinity);
  EXPECT_EQ(logsumexp(Tensor(Floats{})).item<float>(), -infinity);
  expect_near(logsumexp(Tensor({{1e4, 1e4}, {-1e4, -1e4}}), {.axis = 1}),
              {1e4 + std::log(2), -1e4 + std::log(2)}, 1e-3);
  EXPECT_NE(
      message_of([] { nn::softmax(Tensor{1.0}, {.axis = 1}); }).find("axis 1 is outside [-1, 1)"),
      std::string::npos);
}

// Rows on both sides of the limits of vectors and of 64 partials.
// spec: T9.a
TEST(Softmax, EqualsFloat64AndItselfOnOtherAxes) {
  for (const int64_t n : {1, 3, 10, 15, 16, 17, 63, 64, 65, 100, 1000}) {
    SCOPED_TRACE(n);
    const Tensor x = random_tensor({5, n}, 3);
    const Tensor want = nn::softmax(astype(x, kFloat64)), got = nn::softmax(x);
    expect_near(got, want.to_vector<double>(), 2e-7);
    expect_near(nn::log_softmax(x), log(want).to_vector<double>(), 4e-6);
    expect_near(logsumexp(x, {.axis = 1}),
                log(sum(exp(astype(x, kFloat64)), {.axis = 1})).to_vector<double>(), 2e-6);
    const Tensor across = nn::softmax(matrix_transpose(x), {.axis = 0});
    EXPECT_TRUE(same_value(matrix_transpose(across), got));
    expect_near(nn::softmax(astype(x, kBFloat16)),
                nn::softmax(astype(astype(x, kBFloat16), kFloat64)).to_vector<double>(), 4e-3);
  }
}

// Rows of few elements are computed side by side: each has the bits that it has alone, whatever its
// neighbours hold.
// spec: T9.a
TEST(Softmax, ShortRowsHaveTheBitsOfEachAlone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t n : {2, 3, 8, 10, 16, 17, 31, 32, 33}) {
    SCOPED_TRACE(n);
    const int64_t rows = 2 * n + 3;
    Tensor x = random_tensor({rows, n}, 3);
    x.at(1) = -kInfinity;
    x.at(2, 0) = kInfinity;
    x.at(3, n - 1) = std::numeric_limits<float>::quiet_NaN();
    x.at(5, 1) = -kInfinity;
    const Tensor down = matrix_transpose(x), labels = arange(rows) % n;
    const auto losses = [](const Tensor& z, const Tensor& y) {
      return nn::softmax_cross_entropy(z, y, {.reduction = "none", .ignore_index = 1});
    };
    const auto gradient = [&](const Tensor& z, const Tensor& y) {
      return gradient_of([&](const Tensor& v) { return losses(v, y); }, z, ones({z.shape()[0]}));
    };
    const Tensor soft = nn::softmax(x), soft_down = nn::softmax(down, {.axis = 0}),
                 logs = nn::log_softmax(x), sums = logsumexp(x, {.axis = 1}),
                 lost = losses(x, labels), slopes = gradient(x, labels);
    for (int64_t r = 0; r < rows; ++r) {
      SCOPED_TRACE(r);
      const auto row = slice(r, r + 1);
      const Tensor alone = x.at(row), label = labels.at(row);
      EXPECT_TRUE(same_value(soft.at(row), nn::softmax(alone)));
      EXPECT_TRUE(same_value(soft_down.at(slice({}), r), nn::softmax(x.at(r))));
      EXPECT_TRUE(same_value(logs.at(row), nn::log_softmax(alone)));
      EXPECT_TRUE(same_value(sums.at(row), logsumexp(alone, {.axis = 1})));
      EXPECT_TRUE(same_value(lost.at(row), losses(alone, label)));
      EXPECT_TRUE(same_value(slopes.at(row), gradient(alone, label)));
    }
  }
}

// spec: T9.a
TEST(Softmax, HasTheSameBitsForAnyNumberOfThreads) {
  const Tensor x = random_tensor({300, 70, 9}, 2);
  for (const int64_t axis : {1, 2}) {
    std::vector<Tensor> results;
    for (const int threads : {1, 2, 7}) {
      set_thread_count(threads);
      results.push_back(nn::softmax(x, {.axis = axis}));
    }
    set_thread_count(0);
    EXPECT_TRUE(same_value(results[0], results[1]));
    EXPECT_TRUE(same_value(results[0], results[2]));
  }
}

// spec: LS13
TEST(CrossEntropy, OfProbabilities) {
  EXPECT_NEAR(nn::softmax_cross_entropy(kLogits, kExpected).item<float>(), 1.9401897, 2e-6);
  const Tensor g =
      gradient_of([](const Tensor& z) { return nn::softmax_cross_entropy(z, kExpected); }, kLogits);
  const std::vector<double> row = astype(g * 2, kFloat64).to_vector<double>();
  expect_near(Tensor(std::vector<double>(row.begin(), row.begin() + 4)),
              {-.0679414, -.1128557, -.0631172, .2439143}, 1e-6);
  const Tensor by_labels =
      gradient_of([](const Tensor& e) { return nn::softmax_cross_entropy(kLogits, e); }, kExpected);
  expect_near(by_labels, (nn::log_softmax(kLogits) * -0.5).to_vector<double>(), 1e-6);
}

// spec: LS14
TEST(CrossEntropy, OfLabels) {
  const Tensor labels(Labels{3, 0});
  const Tensor hot({{0.0, 0.0, 0.0, 1.0}, {1.0, 0.0, 0.0, 0.0}});
  const auto loss = [](const Tensor& z, const Tensor& y,
                       const nn::SoftmaxCrossEntropyOptions& o = {}) {
    return nn::softmax_cross_entropy(z, y, o).item<float>();
  };
  EXPECT_NEAR(loss(kLogits, labels), 1.9401897, 2e-6);
  EXPECT_NEAR(loss(kLogits, hot), 1.9401897, 2e-6);
  const Tensor one({{1.0, 2.0, 3.0, 4.0}}), three(Labels{3});
  EXPECT_NEAR(loss(one, three), .4401897, 1e-6);
  EXPECT_NEAR(loss(one, three, {.label_smoothing = .1}), .5901897, 1e-6);
  const Tensor weights{1.0, 2.0, 3.0, 4.0};
  EXPECT_NEAR(loss(kLogits, labels, {.class_weights = weights}), 1.0401897, 1e-6);
  EXPECT_NEAR(loss(kLogits, labels, {.reduction = "sum"}), 2 * 1.9401897, 4e-6);
  EXPECT_NEAR(loss(kLogits, Tensor(Labels{3, -1}), {.ignore_index = -1}), .4401897, 1e-6);
  expect_near(nn::softmax_cross_entropy(kLogits, Tensor(Labels{3, -1}),
                                        {.reduction = "none", .ignore_index = -1}),
              {.4401897, 0}, 1e-6);
  EXPECT_TRUE(std::isfinite(loss(Tensor({{1e4, 0.0}}), Tensor(Labels{1}))));
  EXPECT_EQ(loss(Tensor({{1e4, 0.0}}), Tensor(Labels{1})), 1e4f);
}

// spec: LS14
TEST(CrossEntropy, GradientsEqualThoseOfOneHotLabels) {
  const Tensor z = random_tensor({6, 5}, 2), weights{1.0, 0.5, 2.0, 3.0, 1.5};
  const Labels numbers = {4, 0, 2, 2, 1, 3};
  Floats hot(30, 0);
  for (std::size_t i = 0; i < 6; ++i) hot[i * 5 + static_cast<std::size_t>(numbers[i])] = 1;
  for (const double smoothing : {0.0, 0.2}) {
    for (const bool weighted : {false, true}) {
      const nn::SoftmaxCrossEntropyOptions options{.reduction = "sum",
                                                   .label_smoothing = smoothing,
                                                   .class_weights = weighted ? weights : Tensor()};
      const auto f = [&](const Tensor& y) {
        return [&options, y](const Tensor& x) { return nn::softmax_cross_entropy(x, y, options); };
      };
      const Tensor by_number = gradient_of(f(Tensor(numbers)), z),
                   by_hot = gradient_of(f(Tensor(hot, {6, 5})), z);
      expect_near(by_number, by_hot.to_vector<double>(), 1e-6);
      EXPECT_NEAR(sum(by_number).item<float>(), 0, 1e-5);
    }
  }
}

// spec: LS14
TEST(CrossEntropy, SaysWhatIsWrong) {
  const auto message = [](const Tensor& labels,
                          const nn::SoftmaxCrossEntropyOptions& options = {}) {
    return message_of([&] { nn::softmax_cross_entropy(kLogits, labels, options); });
  };
  EXPECT_NE(message(Tensor(Labels{3, 4})).find("label 4 of row 1 is outside [0, 4)"),
            std::string::npos);
  EXPECT_NE(message(Tensor(Labels{-1, 0})).find("label -1 of row 0 is outside [0, 4)"),
            std::string::npos);
  EXPECT_NE(message(Tensor(Labels{1})).find("need labels of shape [2]: one number for each row"),
            std::string::npos);
  EXPECT_NE(message(Tensor(Labels{0, 0}), {.reduction = "avg"}).find("reduction is \"avg\""),
            std::string::npos);
  EXPECT_NE(
      message(Tensor(Labels{0, 0}), {.class_weights = Tensor{1.0}}).find("there are 4 classes"),
      std::string::npos);
}

}  // namespace
}  // namespace etude::softmax_test
