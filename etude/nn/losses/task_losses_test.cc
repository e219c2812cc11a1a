// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/losses/task_losses.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "etude/stage/function.h"
#include "tests/expect_error.h"

namespace etude::nn::task_losses_test {
namespace {

using Doubles = std::vector<double>;
using Loss = std::function<Tensor(const Tensor&, const Tensor&)>;
using etude::tests::expect_error;

Tensor table(const Doubles& values) { return Tensor(values, {2, 3}); }

// Two rows of three numbers, and the value of each loss at (kX, kY), by hand.
const Doubles kX = {.31, .52, .83, .24, .65, .46}, kY = {.92, .23, .44, .71, .37, .18};

double row_distance(const Doubles& x, const Doubles& y, std::size_t row) {
  double sum = 0;
  for (std::size_t i = 3 * row; i < 3 * row + 3; ++i) sum += std::pow(x[i] - y[i] + 1e-6, 2);
  return std::sqrt(sum);
}
double row_cosine(std::size_t a, std::size_t b) {
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double x = kX[3 * a + i], y = kY[3 * b + i];
    xy += x * y;
    xx += x * x;
    yy += y * y;
  }
  return xy / std::sqrt(xx * yy);
}
// The mean of f(x, y) over all elements.
double element_mean(const std::function<double(double, double)>& f) {
  double sum = 0;
  for (std::size_t i = 0; i < kX.size(); ++i) sum += f(kX[i], kY[i]);
  return sum / static_cast<double>(kX.size());
}
double overlap(std::size_t row, bool is_iou) {
  double both = 0, all = 0;
  for (std::size_t i = 3 * row; i < 3 * row + 3; ++i) {
    both += kX[i] * kY[i];
    all += kX[i] + kY[i];
  }
  return is_iou ? 1 - (both + 1) / (all - both + 1) : 1 - (2 * both + 1) / (all + 1);
}
double info_nce(double temperature) {
  double sum = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const double own = std::exp(row_cosine(i, i) / temperature);
    sum -= std::log(own / (own + std::exp(row_cosine(i, 1 - i) / temperature)));
  }
  return sum / 2;
}

struct Row {
  const char* name;
  Loss loss;
  double want;
};

std::vector<Row> embedding_rows() {
  const Doubles far = {.1, .2, .9, .3, .6, .4};
  const Tensor negative = table(far), same(Doubles{1, 0}), sign(Doubles{1, -1});
  const double d0 = row_distance(kX, kY, 0), d1 = row_distance(kX, kY, 1);
  const double n0 = row_distance(kX, far, 0), n1 = row_distance(kX, far, 1);
  return {
      {"triplet",
       [=](const Tensor& x, const Tensor& y) { return triplet_margin_loss(x, y, negative); },
       (std::max(0., d0 - n0 + 1) + std::max(0., d1 - n1 + 1)) / 2},
      {"contrastive",
       [=](const Tensor& x, const Tensor& y) { return contrastive_loss(x, y, same); },
       (d0 * d0 + std::pow(std::max(0., 1 - d1), 2)) / 4},
      {"cosine_embedding",
       [=](const Tensor& x, const Tensor& y) {
         return cosine_embedding_loss(x, y, sign, {.margin = .2});
       },
       (1 - row_cosine(0, 0) + row_cosine(1, 1) - .2) / 2},
      {"info_nce",
       [](const Tensor& x, const Tensor& y) { return info_nce_loss(x, y, {.temperature = .5}); },
       info_nce(.5)},
  };
}

std::vector<Row> element_rows() {
  const Tensor variance = table({.5, 2, 1, .3, .7, 1.5}), one(Doubles{1});
  const Doubles v = variance.to_vector<double>();
  double gauss = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    gauss += (std::log(v[i]) + std::pow(kX[i] - kY[i], 2) / v[i]) / 12;
  }
  return {
      {"margin_ranking",
       [=](const Tensor& x, const Tensor& y) {
         return margin_ranking_loss(x, y, one, {.margin = .1});
       },
       element_mean([](double x, double y) { return std::max(0., y - x + .1); })},
      {"gaussian_nll",
       [=](const Tensor& x, const Tensor& y) { return gaussian_nll_loss(x, y, variance); }, gauss},
      {"quantile",
       [](const Tensor& x, const Tensor& y) { return quantile_loss(x, y, {.quantile = .9}); },
       element_mean([](double x, double y) { return y > x ? .9 * (y - x) : .1 * (x - y); })},
      {"smooth_l1",
       [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y, {.beta = .3}); },
       element_mean([](double x, double y) {
         const double d = std::abs(x - y);
         return d < .3 ? d * d / .6 : d - .15;
       })},
      {"dice", [](const Tensor& x, const Tensor& y) { return dice_loss(x, y); },
       (overlap(0, false) + overlap(1, false)) / 2},
      {"iou", [](const Tensor& x, const Tensor& y) { return iou_loss(x, y); },
       (overlap(0, true) + overlap(1, true)) / 2},
      {"wasserstein", [](const Tensor& x, const Tensor& y) { return wasserstein_loss(x, y); },
       -element_mean([](double x, double y) { return x * y; })},
      {"perceptual",
       [](const Tensor& x, const Tensor& y) {
         return perceptual_loss(x, y, [](const Tensor& t) {
           return std::vector<Tensor>{t, 2.0 * t};
         });
       },
       5 * element_mean([](double x, double y) { return (x - y) * (x - y); })},
  };
}

// Values, and both gradients compared with central differences.
// spec: LS22
TEST(MoreLosses, ValuesAndGradients) {
  const auto moved = [](Doubles values, std::size_t i, double by) {
    values[i] += by;
    return table(values);
  };
  constexpr double kStep = 1e-6;
  for (const auto& rows : {embedding_rows(), element_rows()}) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.name);
      const Tensor x = table(kX), y = table(kY);
      EXPECT_NEAR(row.loss(x, y).item<double>(), row.want, 1e-9);
      const Doubles dx =
          gradient_of([&](const Tensor& t) { return row.loss(t, y); }, x).to_vector<double>();
      const Doubles dy =
          gradient_of([&](const Tensor& t) { return row.loss(x, t); }, y).to_vector<double>();
      for (std::size_t i = 0; i < 6; ++i) {
        const auto slope = [&](double at_plus, double at_minus) {
          return (at_plus - at_minus) / (2 * kStep);
        };
        EXPECT_NEAR(dx[i],
                    slope(row.loss(moved(kX, i, kStep), y).item<double>(),
                          row.loss(moved(kX, i, -kStep), y).item<double>()),
                    1e-6);
        EXPECT_NEAR(dy[i],
                    slope(row.loss(x, moved(kY, i, kStep)).item<double>(),
                          row.loss(x, moved(kY, i, -kStep)).item<double>()),
                    1e-6);
      }
    }
  }
}

// spec: LS22
TEST(MoreLosses, QuantileAndMultiMargin) {
  const Tensor p(Doubles{1, 2, 3, 4, 5, 6, 7, 8}), e(Doubles{.1, .2, .3, .4, .4, .3, .2, .1});
  EXPECT_NEAR(quantile_loss(p, e, {.quantile = .9}).item<double>(), .425, 1e-9);
  // Label 3 of 0.1 0.2 0.4 0.8: (0.3 + 0.4 + 0.6) / 4.
  const Tensor scores(Doubles{.1, .2, .4, .8}, {1, 4}), label(std::vector<int64_t>{3});
  EXPECT_NEAR(multi_margin_loss(scores, label).item<double>(), .325, 1e-9);
  const Tensor slope =
      gradient_of([&](const Tensor& x) { return multi_margin_loss(x, label); }, scores);
  const Doubles want = {.25, .25, .25, -.75};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(slope.to_vector<double>()[i], want[i], 1e-12);
}

using Labels = std::vector<int64_t>;

// The probability of all ways to spell labels in so many steps, one by one.
double probability_of(const std::vector<Doubles>& p, const Labels& labels, int64_t blank) {
  const auto classes = static_cast<int64_t>(p[0].size());
  double sum = 0;
  int64_t ways = 1;
  for (std::size_t t = 0; t < p.size(); ++t) ways *= classes;
  for (int64_t way = 0; way < ways; ++way) {
    Labels spelled;
    int64_t last = blank, rest = way;
    double product = 1;
    for (const Doubles& step : p) {
      const int64_t k = rest % classes;
      rest /= classes;
      product *= step[static_cast<std::size_t>(k)];
      if (k != blank && k != last) spelled.push_back(k);
      last = k;
    }
    if (spelled == labels) sum += product;
  }
  return sum;
}

// Softmax of rows.
std::vector<Doubles> probabilities(const Doubles& logits, std::size_t steps) {
  std::vector<Doubles> out(steps, Doubles(3));
  for (std::size_t t = 0; t < steps; ++t) {
    double sum = 0;
    for (std::size_t k = 0; k < 3; ++k) sum += std::exp(logits[3 * t + k]);
    for (std::size_t k = 0; k < 3; ++k) out[t][k] = std::exp(logits[3 * t + k]) / sum;
  }
  return out;
}

Doubles waves(std::size_t n) {
  Doubles out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(std::sin(static_cast<double>(i * i + 2 * i)));
  return out;
}

// spec: LS20
TEST(CtcLoss, IsTheProbabilityOfAllSpellings) {
  const Tensor thirds = etude::zeros({3, 3}, {.dtype = kFloat64});
  EXPECT_NEAR(ctc_loss(thirds, Tensor(Labels{1, 2})).item<double>(), 1.6863990, 1e-7);
  const Doubles logits = waves(15);
  const struct {
    Labels labels;
    int64_t blank;
  } rows[] = {{{1, 2}, 0}, {{1, 1}, 0}, {{2, 2, 1}, 0}, {{1}, 2}, {{0, 1, 0}, 2}};
  for (const auto& [labels, blank] : rows) {
    const double want = -std::log(probability_of(probabilities(logits, 5), labels, blank));
    EXPECT_NEAR(ctc_loss(Tensor(logits, {5, 3}), Tensor(labels), {.blank = blank}).item<double>(),
                want, 1e-9)
        << labels.size() << " labels, blank " << blank;
  }
}

// A batch of rows with lengths of their own, padded with labels that are no classes.
// spec: LS20
TEST(CtcLoss, LengthsOfABatchAndGradients) {
  const Doubles logits = waves(2 * 4 * 3);
  const Tensor x(logits, {2, 4, 3}), labels(Labels{2, 1, 1, -9}, {2, 2});
  const CtcLossOptions options{.reduction = "none",
                               .logit_lengths = Tensor(Labels{4, 3}),
                               .label_lengths = Tensor(Labels{2, 1})};
  const auto p = probabilities(Doubles(logits.begin(), logits.begin() + 12), 4);
  const auto q = probabilities(Doubles(logits.begin() + 12, logits.begin() + 21), 3);
  const Doubles got = ctc_loss(x, labels, options).to_vector<double>();
  EXPECT_NEAR(got[0], -std::log(probability_of(p, {2, 1}, 0)), 1e-9);
  EXPECT_NEAR(got[1], -std::log(probability_of(q, {1}, 0)), 1e-9);
  const auto total = [&](const Tensor& z) { return sum(ctc_loss(z, labels, options)); };
  const Doubles slope = gradient_of(total, x).to_vector<double>();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    Doubles up = logits, down = logits;
    up[i] += 1e-6;
    down[i] -= 1e-6;
    EXPECT_NEAR(
        slope[i],
        (total(Tensor(up, {2, 4, 3})) - total(Tensor(down, {2, 4, 3}))).item<double>() / 2e-6, 1e-7)
        << i;
  }
  // Steps after the end of a row do not count.
  for (std::size_t i = 21; i < 24; ++i) EXPECT_EQ(slope[i], 0);
  const auto staged = function([&](const Tensor& z) { return gradient_of(total, z); });
  EXPECT_TRUE(same_value(staged(x), gradient_of(total, x)));
}

// spec: LS20
TEST(CtcLoss, TooFewStepsAndNoLabels) {
  const Tensor x(waves(6), {2, 3});
  const auto loss = [](const Tensor& z) { return ctc_loss(z, Tensor(Labels{1, 1})); };
  EXPECT_EQ(loss(x).item<double>(), INFINITY);
  for (const double slope : gradient_of(loss, x).to_vector<double>()) EXPECT_EQ(slope, 0);
  const auto p = probabilities(waves(6), 2);
  const Tensor none =
      ctc_loss(x, Tensor(Labels{1}), {.reduction = "sum", .label_lengths = Tensor(Labels{0})});
  EXPECT_NEAR(none.item<double>(), -std::log(p[0][0] * p[1][0]), 1e-9);
}

TEST(CtcLoss, MistakesAreNamed) {
  const Tensor x = etude::zeros({2, 3});
  const auto refused = [](const auto& fn, ErrorCode code, std::string_view text) {
    expect_error(fn, code, {"ctc_loss", text, "task_losses_test.cc"});
  };
  const ErrorCode invalid = ErrorCode::kInvalidArgument;
  refused([&] { ctc_loss(x, etude::zeros({2})); }, invalid,
          "logits have shape [2,3] and labels are float32[2]");
  refused([&] { ctc_loss(x, Tensor(Labels{1}), {.blank = 3}); }, invalid,
          "blank is 3, but there are 3 classes");
  refused(
      [&] {
        ctc_loss(x, Tensor(Labels{1}), {.logit_lengths = Tensor(Labels{1, 2})});
      },
      invalid, "logit_lengths are int64[2], but need integers [1]");
  refused([&] { ctc_loss(x, Tensor(Labels{7})); }, ErrorCode::kOutOfRange, "7");
}

TEST(MoreLosses, MistakesAreNamed) {
  const Tensor x = etude::zeros({2, 3});
  expect_error(
      [&] {
        info_nce_loss(x, etude::zeros({1, 3}));
      },
      ErrorCode::kInvalidArgument,
      {"info_nce_loss", "queries and keys need one shape [n, features]"});
  expect_error([&] { perceptual_loss(x, x, [](const Tensor&) { return std::vector<Tensor>(); }); },
               ErrorCode::kInvalidArgument,
               {"perceptual_loss", "there are 0 features of the predicted"});
}

TEST(MoreLosses, BalancedClassWeights) {
  const Tensor weights = balanced_class_weights(Tensor(Labels{0, 0, 0, 2}), 3);
  const Doubles want = {4. / 9, 0, 4. / 3};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(weights.to_vector<double>()[i], want[i], 1e-6);
  expect_error([] { balanced_class_weights(Tensor(Labels{3}), 3); }, ErrorCode::kOutOfRange,
               {"balanced_class_weights: label 3 is outside [0, 3)", "task_losses_test.cc"});
}

}  // namespace
}  // namespace etude::nn::task_losses_test
