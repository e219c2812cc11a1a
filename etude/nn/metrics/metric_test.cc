// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/metrics/metric.h"

#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "etude/lazy/lazy.h"
#include "etude/lazy/metrics.h"
#include "etude/nn/metrics/metric_kinds.h"
#include "etude/nn/metrics/metrics.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude::nn::metric_test {
namespace {

using Numbers = std::vector<double>;
using etude::tests::expect_error;

// Rows of tensors from `first` to before `last`.
Tensor part(const Tensor& x, int64_t first, int64_t last) { return slice(x, {first}, {last}); }

Tensor ids(const std::vector<int64_t>& values) { return Tensor(values); }
Tensor ids(const std::vector<int64_t>& values, int64_t columns) {
  return Tensor(values, {static_cast<int64_t>(values.size()) / columns, columns});
}

struct Row {
  const char* name;
  Metric metric;
  Tensor predicted, expected;
  Numbers want;
};

// tp 6, tn 3, fp 1, fn 2
Row binary(const char* name, Metric metric, double want) {
  return {name,
          std::move(metric),
          Tensor(Numbers{1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0}),
          ids({1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1}),
          {want}};
}

std::vector<Row> class_rows() {
  const Tensor scores(Numbers{.5, .3, .2, .1, .7, .2, .6, .1, .3, .2, .3, .5}, {4, 3});
  const Tensor labels = ids({0, 1, 2, 1});  // chosen: 0, 1, 0, 2
  const Tensor many(Numbers{.9, .2, .8, .6, .7, .1}, {3, 2});
  const Tensor meant(Numbers{1, 0, 0, 1, 1, 1}, {3, 2});
  return {
      binary("M4", metrics::matthews(), .4780914),
      binary("M5 precision", metrics::precision({.average = "binary"}), 6. / 7),
      binary("M5 recall", metrics::recall({.average = "binary"}), 6. / 8),
      binary("M5 F1", metrics::f1({.average = "binary"}), 12. / 15),
      binary("M10 IoU", metrics::intersection_over_union({.average = "binary"}), 6. / 9),
      {"M2", metrics::accuracy(), scores, labels, {.5}},
      {"M3 1", metrics::top_k(1), scores, labels, {.5}},
      {"M3 2", metrics::top_k(2), scores, labels, {1}},
      {"M5 each", metrics::precision({.average = "none"}), scores, labels, {.5, 1, 0}},
      {"M5 macro", metrics::recall(), scores, labels, {.5}},
      {"M5 micro", metrics::f1({.average = "micro"}), scores, labels, {.5}},
      {"M5 one-hot", metrics::recall(), scores, one_hot(labels, 3), {.5}},
      {"M5 labels",
       metrics::precision({.average = "none", .threshold = .5}),
       many,
       meant,
       {2. / 3, 1}},
      {"M5 labels", metrics::recall({.average = "micro", .threshold = .5}), many, meant, {3. / 4}},
      {"M2 labels", metrics::binary_accuracy(), many, meant, {4. / 6}},
  };
}

std::vector<Row> ranking_rows() {
  const Tensor scores(Numbers{.1, .4, .35, .8}), labels = ids({0, 0, 1, 1});
  const Tensor three(Numbers{.1, .2, .7, .8, .1, .1, .3, .4, .3, .2, .5, .3}, {4, 3});
  // Class 0: .8 .3 .2 .1 for 0 1 0 0; 1: .5 .4 .2 .1 for 0 1 0 0; 2: .7 .3 .3 .1 for 1 0 1 0.
  const Tensor meant(Numbers{0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1}, {4, 3});
  const Tensor sure(Numbers{.9, .1, .6, .4, .3, .7, .55, .45}, {4, 2});
  return {
      {"M6", metrics::roc_auc(), scores, labels, {.75}},
      {"M6 ties", metrics::roc_auc(), Tensor(Numbers{.5, .5, .5, .5}), labels, {.5}},
      {"M6 two", metrics::roc_auc(), stack({1. - scores, scores}, {.axis = 1}), labels, {.75}},
      {"M6 classes", metrics::roc_auc(), three, meant, {(2. / 3 + 2. / 3 + 3.5 / 4) / 3}},
      {"M6 PR", metrics::pr_auc(), scores, labels, {.7916667}},
      {"M10 AP", metrics::average_precision(), scores, labels, {.8333333}},
      // Bins of width .5: .9 .6 .7 .55 in one, 3 of 4 right; of width .1: .6 and .55 in one.
      {"M10 ECE", metrics::calibration_error(2), sure, ids({0, 0, 1, 1}), {.75 - 2.75 / 4}},
      {"M10 ECE of 10",
       metrics::calibration_error(10),
       sure,
       ids({0, 0, 1, 1}),
       {(.1 + (1.15 - 1) + .3) / 4}},
  };
}

std::vector<Row> number_rows() {
  const Tensor p(Numbers{2.5, 0, 2, 8}), e(Numbers{3, -.5, 2, 7});
  const Tensor far = e + 1e9;
  const double mean_square = (400. / 3) / 4;
  return {
      {"M7", metrics::mean_squared_error(), p, e, {.375}},
      {"M7 MAE", metrics::mean_absolute_error(), p, e, {.5}},
      {"M7 RMSE", metrics::root_mean_squared_error(), p, e, {std::sqrt(.375)}},
      {"M7 R2", metrics::r2(), p, e, {.9486081}},
      {"M7 R2 far from 0", metrics::r2(), p + 1e9, far, {.9486081}},
      {"M10 PSNR",
       metrics::psnr(20),
       Tensor(Numbers{1, 2, 3, 4}),
       Tensor(Numbers{1, 2, 3, 4}) + std::sqrt(mean_square),
       {10 * std::log10(12)}},
      {"M9 mean", metrics::mean(), p, e, {3.125}},
      {"M9 sum", metrics::sum(), p, e, {12.5}},
      {"M9 max", metrics::max(), p, e, {8}},
  };
}

std::vector<Row> sequence_rows() {
  const Tensor logits = log(Tensor(Numbers{.5, .5, .25, .75, .125, .875, .3, .7}, {4, 2}));
  const Tensor labels = ids({0, 0, 0, 1});
  const double bits = (1 + 2 + 3 - std::log2(.7)) / 4;
  // kitten, sitting: 3 edits of 7; equal rows; nothing: 2 of 2.
  const Tensor said = ids({1, 2, 3, 3, 4, 5, 0, 7, 8, 0, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0}, 7);
  const Tensor meant = ids({6, 2, 3, 3, 2, 5, 7, 7, 8, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0}, 7);
  // "the the the the the the the" for "the cat is on the mat": 2 of 7 words, no pairs of words.
  const Tensor babble = ids({1, 1, 1, 1, 1, 1, 1}, 7), cat = ids({1, 2, 3, 4, 1, 5, 0}, 7);
  // 5 of 6 words, 3 of 5 pairs.
  const Tensor close = ids({1, 2, 3, 9, 1, 5}, 6), mat = ids({1, 2, 3, 4, 1, 5}, 6);
  return {
      {"M8", metrics::perplexity(), logits, labels, {std::exp2(bits)}},
      {"M8 bits", metrics::bits_per_character(), logits, labels, {bits}},
      {"M8 ignored", metrics::bits_per_character(1), logits, labels, {2}},
      {"M10 edits", metrics::edit_distance(), said, meant, {5. / 11}},
      {"M10 BLEU 1", metrics::bleu(1), babble, cat, {2. / 7}},
      {"M10 BLEU 2", metrics::bleu(2), close, mat, {std::sqrt(5. / 6 * 3 / 5)}},
      {"M10 BLEU short", metrics::bleu(1), ids({1, 2, 0}, 3), mat, {std::exp(1 - 6. / 2)}},
      {"M10 BLEU none", metrics::bleu(), babble, cat, {0}},
  };
}

void expect_numbers(const Numbers& got, const Numbers& want, const std::string& name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << name;
}

// At once, in two batches, and as two metrics that are merged.
void expect_row(const Row& row) {
  Metric whole = row.metric, batches = row.metric, first = row.metric, second = row.metric;
  EXPECT_TRUE(std::isnan(whole.result())) << row.name;
  const int64_t n = row.predicted.shape()[0];
  whole.update(row.predicted, row.expected);
  expect_numbers(whole.results(), row.want, row.name);
  if (n > 1) {
    for (Metric* metric : {&batches, &first}) {
      metric->update(part(row.predicted, 0, 1), part(row.expected, 0, 1));
    }
    for (Metric* metric : {&batches, &second}) {
      metric->update(part(row.predicted, 1, n), part(row.expected, 1, n));
    }
    first.merge(second);
    expect_numbers(batches.results(), row.want, row.name);
    expect_numbers(first.results(), row.want, row.name);
  }
  whole.reset();
  EXPECT_TRUE(std::isnan(whole.result())) << row.name;
}

// spec: M2, M3, M4, M5, M6, M7, M8, M9, M10
TEST(Metric, ValuesOfBatchesAndMerged) {
  for (const auto& rows : {class_rows(), ranking_rows(), number_rows(), sequence_rows()}) {
    for (const Row& row : rows) expect_row(row);
  }
}

// Of flat images all is known: only the means count. Rows of one image each.
// spec: M10
TEST(Metric, StructuralSimilarity) {
  const Tensor ramp = reshape(astype(arange(2 * 16 * 16 * 3.0), kFloat32), {2, 16, 16, 3}) / 1536.;
  expect_row({"same", metrics::ssim(), ramp, ramp, {1}});
  const double x = .25, y = .75, c1 = 1e-4;
  expect_row({"flat",
              metrics::ssim(),
              full({2, 12, 12, 1}, x),
              full({2, 12, 12, 1}, y),
              {(2 * x * y + c1) / (x * x + y * y + c1)}});
  Metric falls = metrics::ssim();
  falls.update(ramp, 1. - ramp);
  EXPECT_LT(falls.result(), 0);
}

// A look at elements while lazy calls are recorded would cut a segment.
// spec: M10
TEST(Metric, UpdatesReadNothing) {
  LazyMetrics counts;
  for (const auto& rows : {class_rows(), ranking_rows(), number_rows(), sequence_rows()}) {
    for (const Row& row : rows) {
      Metric metric = row.metric;
      Confusion confusion;
      {
        const LazyScope lazy;
        counts.reset();
        const Tensor p = row.predicted + 0, e = row.expected + 0;
        metric.update(p, e);
        metric.update(p, e);
        EXPECT_EQ(counts.counts().observations, 0) << row.name;
      }
      EXPECT_FALSE(std::isnan(metric.result())) << row.name;
    }
  }
  const LazyScope lazy;
  counts.reset();
  Confusion confusion;
  confusion.update(class_rows()[0].predicted + 0, class_rows()[0].expected + 0);
  EXPECT_EQ(counts.counts().observations, 0);
  EXPECT_EQ(confusion.count(1, 1), 6);
}

// spec: M9
TEST(Metric, ThroughputCountsSamplesBySeconds) {
  Throughput rate;
  EXPECT_EQ(rate.result(), 0);
  rate.update(1000);
  const double first = rate.result();
  EXPECT_GT(first, 0);
  EXPECT_LE(rate.result(), first);  // time has gone by
  rate.reset();
  EXPECT_EQ(rate.result(), 0);
}

// A metric of one's own: the largest error and the number of batches.
TEST(Metric, OfYourOwn) {
  Metric metric(
      "worst", Joined::kMax,
      [](const Tensor& p, const Tensor& e) { return std::vector<Tensor>{max(abs(p - e))}; },
      [](std::span<const Tensor> parts) { return Numbers{parts[0].item<double>()}; });
  metric.update(Tensor(Numbers{1, 2}), Tensor(Numbers{1, 5}));
  Metric copy = metric;
  copy.update(Tensor(Numbers{1}), Tensor(Numbers{9}));
  EXPECT_EQ(metric.result(), 3);
  EXPECT_EQ(copy.result(), 8);
}

TEST(Metric, MistakesAreNamed) {
  const auto invalid = [](const auto& fn, std::string_view text) {
    expect_error(fn, ErrorCode::kInvalidArgument, {text, "metric_test.cc"});
  };
  const Tensor scores(Numbers{.1, .9, .8, .2}, {2, 2}), labels = ids({0, 1});
  invalid([&] { metrics::top_k(3).update(scores, labels); },
          "top_k: k is 3, but predictions have shape [2,2]");
  invalid([&] { metrics::top_k(1).update(scores, ids({0})); },
          "top_k: labels have shape [1], but need [2]");
  invalid(
      [&] {
        metrics::accuracy().update(scores, ids({0, 1, 1}));
      },
      "2 predictions, but 3 labels");
  invalid(
      [&] { metrics::precision({.average = "mean"}); },
      "precision: average is \"mean\", but must be \"macro\", \"micro\", \"binary\" or \"none\"");
  invalid([&] { metrics::f1({.threshold = .5}).update(scores, labels); },
          "f1: predictions have shape [2,2] and labels [2], but both need [n, classes]");
  invalid(
      [&] {
        metrics::roc_auc().update(scores, ids({0, 1, 1}));
      },
      "roc_auc: [2,2] scores, but labels have shape [3]");
  invalid([&] { metrics::calibration_error(0); }, "calibration_error: bins is 0");
  invalid([&] { metrics::calibration_error().update(scores, scores); },
          "calibration_error: predictions have shape [2,2] and labels [2,2]");
  invalid([&] { metrics::bleu(0); }, "bleu: order is 0");
  invalid([&] { metrics::edit_distance().update(scores, scores); },
          "edit_distance: predictions are float64[2,2] and labels float64[2,2], but both need");
  invalid([&] { metrics::ssim().update(scores, scores); },
          "ssim: images have shapes [2,2] and [2,2], but both need");
  Metric a = metrics::accuracy();
  invalid([&] { a.merge(metrics::matthews()); }, "accuracy: cannot merge with a metric 'matthews'");
  a.update(scores, labels);
  invalid(
      [&] {
        a.update(concat({scores, scores}, {.axis = 1}), labels);
      },
      "accuracy: a part of this batch has shape [17], but [5] in earlier batches");
  a.update(scores, ids({0, 7}));
  expect_error([&] { a.result(); }, ErrorCode::kOutOfRange,
               {"accuracy: 1 labels are outside [0, 2)", "metric_test.cc"});
  const Row three = class_rows()[5];
  Metric of_two = metrics::f1({.average = "binary"});
  of_two.update(three.predicted, three.expected);
  invalid([&] { of_two.result(); }, "f1: the average \"binary\" is of 2 classes, but there are 3");
}

}  // namespace
}  // namespace etude::nn::metric_test
