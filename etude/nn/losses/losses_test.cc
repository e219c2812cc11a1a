// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/losses/losses.h"

#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "etude/ops.h"
#include "etude/ops/gradient_of.h"

namespace etude {
namespace {

using Doubles = std::vector<double>;
using Loss = std::function<Tensor(const Tensor&, const Tensor&)>;

const Doubles kP = {1, 2, 3, 4, 5, 6, 7, 8}, kE = {.1, .2, .3, .4, .4, .3, .2, .1};
const Doubles kTo4 = {1, 2, 3, 4}, kTenths = {.1, .2, .3, .4}, kTo8 = kP;

Tensor table(const Doubles& values) {
  return values.size() == 8 ? Tensor(values, {2, 4}) : Tensor(values);
}
Doubles scaled(Doubles values, double by) {
  for (double& v : values) v *= by;
  return values;
}
Doubles lowered(Doubles values, double by) {
  for (double& v : values) v -= by;
  return values;
}

struct Row {
  const char* name;
  Loss loss;
  Doubles predicted, expected;
  double want;
};

// An op with the defaults of its options.
template <class Options>
Loss plain(Tensor (*op)(const Arg&, const Arg&, const Options&), Options options = {}) {
  return [=](const Tensor& p, const Tensor& e) { return op(p, e, options); };
}

// spec: LS1, LS2, LS3, LS4, LS5, LS6, LS7, LS8, LS9, LS10, LS11, LS12, LS15, LS16, LS17, LS19,
//   LS21
TEST(Losses, Values) {
  const std::vector<Row> rows = {
      {"LS1", plain(nn::l1_loss), kTo4, kTenths, 9},
      {"LS2", plain(nn::l2_loss), kTo4, lowered(kTo4, .5), 1},
      {"LS3", plain(nn::mean_absolute_error), kP, kE, 4.25},
      {"LS4", plain(nn::mean_squared_error), kP, kE, 23.325},
      {"LS5", plain(nn::mean_squared_log_error), kP, kE, 2.1312442},
      {"LS6", plain(nn::mean_absolute_percentage_error), kTo8, scaled(kTo8, .1), 900},
      {"LS7", plain(nn::hinge_loss), kP, kE, .225},
      {"LS8", plain(nn::squared_hinge_loss), kP, scaled(kP, .5), .03125},
      {"LS9", plain(nn::categorical_hinge_loss), {3, 4, 5}, {.3, .4, .3}, .5},
      {"LS10", plain(nn::log_cosh_loss), {.2, .3, .4}, {1, 4, 3}, 1.7368573},
      {"LS11", plain(nn::poisson_loss), {.1, .2, .3}, {1, 2, 3}, 3.2444598},
      {"LS12", plain(nn::kl_divergence), {.2, .3, .4}, {1, 4, 3}, 18.0152156},
      {"LS15",
       plain(nn::sigmoid_cross_entropy),
       {-100, -2, -2, 0, 2, 2, 2, 100},
       {0, 0, 1, 0, 0, 1, .5, 1},
       .7909734},
      {"LS16", plain(nn::huber_loss), {.9, .2, .2, .8, .4, .6}, {1, 0, 1, 1, 0, 0}, .625},
      {"LS16 mean", plain(nn::huber_loss, {.reduction = "mean"}), kP, kE, 3.750625},
      {"LS17", plain(nn::binary_cross_entropy), {.9, .2, .6}, {1, 0, 1}, .2797766},
      {"LS19", plain(nn::cosine_similarity_loss), {1, 0}, {.6, .8}, .4},
      {"LS21", plain(nn::focal_loss), {2, -1, .5}, {1, 0, 1}, .0114459},
  };
  for (const Row& row : rows) {
    EXPECT_NEAR(row.loss(table(row.predicted), table(row.expected)).item<double>(), row.want,
                1e-7 * std::max(1.0, row.want))
        << row.name;
  }
}

// spec: LS4
TEST(Losses, GradientOfTheMeanSquaredError) {
  const Tensor e = table(kE);
  const Tensor g =
      gradient_of([&](const Tensor& p) { return nn::mean_squared_error(p, e); }, table(kP));
  Doubles want;
  for (std::size_t i = 0; i < 8; ++i) want.push_back((kP[i] - kE[i]) / 4);
  EXPECT_NEAR(want.front(), .225, 1e-12);
  EXPECT_NEAR(want.back(), 1.975, 1e-12);
  expect_near(g, want, 1e-12);
  const Tensor p = table(kP);
  expect_near(gradient_of([&](const Tensor& x) { return nn::mean_squared_error(p, x); }, e),
              scaled(want, -1), 1e-12);
}

// Each gradient by hand, at the default reduction.
// spec: LS1, LS7, LS10, LS12, LS15, LS16
TEST(Losses, GradientsByHand) {
  const struct {
    const char* name;
    Loss loss;
    Doubles predicted, expected, want;
  } rows[] = {
      {"LS1", plain(nn::l1_loss), {1, -1, 2}, {0, 0, 2}, {1, -1, 0}},
      {"LS7", plain(nn::hinge_loss), {2, .5}, {1, -1}, {0, .5}},
      {"LS10", plain(nn::log_cosh_loss), {.5, 1e4}, {0, 0}, {std::tanh(.5) / 2, .5}},
      {"LS12", plain(nn::kl_divergence), {.5, .25}, {.5, 0}, {-1, 0}},
      {"LS15", plain(nn::sigmoid_cross_entropy, {.pos_weight = 3}), {0, 0}, {1, 0}, {-.75, .25}},
      {"LS16", plain(nn::huber_loss, {.delta = 2}), {.5, 3, -7}, {0, 0, 0}, {.5, 2, -2}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Tensor e(row.expected);
    expect_near(gradient_of([&](const Tensor& p) { return row.loss(p, e); }, Tensor(row.predicted)),
                row.want, 1e-12);
  }
}

// spec: LS10, LS12, LS15, LS17
TEST(Losses, StayFinite) {
  EXPECT_NEAR(nn::log_cosh_loss(Tensor(1e4), Tensor(-1e4)).item<double>(), 2e4 - M_LN2, 2e-3);
  EXPECT_EQ(nn::kl_divergence(Tensor({0.0, 1.0}), Tensor({0.0, 1.0})).item<double>(), 0);
  EXPECT_EQ(nn::binary_cross_entropy(Tensor({0.0, 1.0}), Tensor({0.0, 1.0})).item<double>(), 0);
  const Tensor z({-1e4, 1e4}), e({0.0, 1.0});
  EXPECT_EQ(nn::sigmoid_cross_entropy(z, e).item<double>(), 0);
  EXPECT_EQ(nn::sigmoid_cross_entropy(z, 1.0 - e).item<double>(), 1e4);
  // Not lost to cancellation: log(1 + exp(-30)).
  EXPECT_NEAR(nn::sigmoid_cross_entropy(Tensor(30.0), Tensor(1.0)).item<double>() /
                  std::log1p(std::exp(-30)),
              1, 1e-6);
}

// By central differences, in both operands.
// spec: LS2, LS3, LS5, LS6, LS8, LS9, LS11, LS17, LS19, LS21
TEST(Losses, GradientsEqualDifferences) {
  const struct {
    const char* name;
    Loss loss;
  } rows[] = {
      {"LS2", plain(nn::l2_loss)},
      {"LS3", plain(nn::mean_absolute_error)},
      {"LS5", plain(nn::mean_squared_log_error)},
      {"LS6", plain(nn::mean_absolute_percentage_error)},
      {"LS8", plain(nn::squared_hinge_loss)},
      {"LS9", plain(nn::categorical_hinge_loss)},
      {"LS11", plain(nn::poisson_loss)},
      {"LS17", plain(nn::binary_cross_entropy)},
      {"LS19", plain(nn::cosine_similarity_loss)},
      {"LS21", plain(nn::focal_loss, {.gamma = 1.5})},
  };
  const Doubles p = {.31, .52, .83, .24, .65, .46}, e = {.92, .23, .44, .71, .37, .18};
  const auto at = [](Doubles values, std::size_t i, double by) {
    values[i] += by;
    return Tensor(values, {2, 3});
  };
  constexpr double kStep = 1e-6;
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Tensor tp = at(p, 0, 0), te = at(e, 0, 0);
    const Tensor dp = gradient_of([&](const Tensor& x) { return row.loss(x, te); }, tp);
    const Tensor de = gradient_of([&](const Tensor& x) { return row.loss(tp, x); }, te);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double by_p = row.loss(at(p, i, kStep), te).item<double>() -
                          row.loss(at(p, i, -kStep), te).item<double>();
      const double by_e = row.loss(tp, at(e, i, kStep)).item<double>() -
                          row.loss(tp, at(e, i, -kStep)).item<double>();
      EXPECT_NEAR(dp.to_vector<double>()[i], by_p / (2 * kStep),
                  1e-6 * (1 + std::abs(by_p) / kStep));
      EXPECT_NEAR(de.to_vector<double>()[i], by_e / (2 * kStep),
                  1e-6 * (1 + std::abs(by_e) / kStep));
    }
  }
}

// spec: LS18
TEST(Losses, NegativeLogLikelihoodTakesTheLabel) {
  const Tensor z({{1.0, 2.0, 3.0, 4.0}, {5.0, 6.0, 7.0, 8.0}}), labels({3, 0});
  EXPECT_NEAR(nn::nll_loss(nn::log_softmax(z), labels).item<double>(), 1.9401897, 1e-6);
  expect_near(nn::nll_loss(z, labels, {.reduction = "none"}), {-4, -5}, 0);
  const Tensor g = gradient_of([&](const Tensor& x) { return nn::nll_loss(x, labels); }, z);
  expect_near(g, {0, 0, 0, -.5, -.5, 0, 0, 0}, 0);
}

// spec: LS3, LS4
TEST(Losses, ReductionsWeightsAndShapes) {
  const Tensor p({{1.0, 2.0}, {3.0, 5.0}}), e({1.0, 1.0});  // differences 0 1 2 4
  const Tensor w({{1.0}, {3.0}});
  expect_near(nn::mean_absolute_error(p, e, {.reduction = "none"}), {0, 1, 2, 4}, 0);
  EXPECT_EQ(nn::mean_absolute_error(p, e, {.reduction = "sum"}).item<double>(), 7);
  expect_near(nn::mean_absolute_error(p, e, {.reduction = "none", .weights = w}), {0, 1, 6, 12}, 0);
  EXPECT_EQ(nn::mean_absolute_error(p, e, {.reduction = "sum", .weights = w}).item<double>(), 19);
  // The weighted mean: weights 1 1 3 3.
  EXPECT_EQ(nn::mean_absolute_error(p, e, {.weights = w}).item<double>(), 19.0 / 8);
  // Any function of the terms.
  const auto largest = [](const Tensor& terms) { return max(terms); };
  EXPECT_EQ(nn::mean_absolute_error(p, e, {.reduction = largest}).item<double>(), 4);
  expect_near(
      gradient_of(
          [&](const Tensor& x) { return nn::mean_absolute_error(x, e, {.reduction = largest}); },
          p),
      {0, 0, 0, 1}, 0);
  EXPECT_EQ(nn::mean_squared_error(p, 1.0).item<double>(), 21.0 / 4);
  EXPECT_NE(message_of([&] { nn::l1_loss(p, e, {.reduction = "avg"}); }).find("\"avg\""),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              nn::l1_loss(Tensor({1, 2}), Tensor({1, 2}));
            }).find("l1_loss: operand 'predicted' is int32"),
            std::string::npos);
  EXPECT_NE(message_of([&] { nn::huber_loss(p, e, {.delta = 0}); }).find("delta is 0"),
            std::string::npos);
  const std::string message = message_of([&] {
    nn::mean_squared_error(p, Tensor({1.0, 2.0, 3.0}));
  });
  EXPECT_EQ(message.find("mean_squared_error: operand 'predicted' is float"), 0u) << message;
  EXPECT_NE(message.find("[3]; in its call of squared_difference: "), std::string::npos) << message;
  EXPECT_NE(message.find("[2,2]"), std::string::npos) << message;
  EXPECT_NE(message.find("losses_test.cc:"), std::string::npos) << message;
}

// [n, 1] and [n] would make n^2 terms, each of another pair.
// spec: LS4
TEST(Losses, RefuseTermsOfOtherPairs) {
  const Tensor column({{1.0}, {2.0}, {3.0}}), row({1.0, 2.0, 3.0});
  const std::vector<std::pair<const char*, Loss>> losses = {
      {"l1_loss", plain(nn::l1_loss)},
      {"mean_squared_error", plain(nn::mean_squared_error)},
      {"log_cosh_loss", plain(nn::log_cosh_loss)},
      {"hinge_loss", plain(nn::hinge_loss)},
      {"kl_divergence", plain(nn::kl_divergence)},
      {"binary_cross_entropy", plain(nn::binary_cross_entropy)}};
  for (const auto& [name, loss] : losses) {
    for (const auto& [p, e] : {std::pair(column, row), std::pair(row, column)}) {
      const std::string message = message_of([&] { loss(p, e); });
      EXPECT_EQ(message.find(std::string(name) + ": operand 'predicted' has shape ["), 0u)
          << message;
      EXPECT_NE(message.find("terms of shape [3,3]"), std::string::npos) << message;
      EXPECT_NE(message.find("[3,1]"), std::string::npos) << message;
    }
  }
  EXPECT_EQ(nn::mean_squared_error(column, column + 1.0).item<double>(), 1);
  EXPECT_NEAR(nn::mean_squared_error(column, 2.0).item<double>(), 2.0 / 3, 1e-6);
  EXPECT_EQ(nn::mean_squared_error(reshape(row, {1, 3}), row).item<double>(), 0);
  const std::string message =
      message_of([&] { nn::mean_squared_error(row, row, {.weights = column}); });
  EXPECT_NE(message.find("operand 'weights' has shape [3,1], which does not broadcast to the shape "
                         "[3] of the terms"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace etude
