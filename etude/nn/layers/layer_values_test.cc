// SPDX-License-Identifier: Apache-2.0
// Rotary positions, rows of tables, connectionist temporal classification, morphological layers and
// the adaptive softmax, with derivatives, compared with NumPy: the rows of layer_values.inc, which
// tools/generate/gen_layer_values.py writes, on operands that both make by one formula.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/leak_check.h"
#include "etude/nn/layers/adaptive_softmax.h"
#include "etude/nn/layers/morphology.h"
#include "etude/nn/losses/task_losses.h"
#include "etude/nn/metrics/metric_kinds.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/expect_error.h"

namespace etude::nn {
namespace {

struct LayerRow {
  const char* name;
  std::vector<double> want;
};
#include "etude/nn/layers/layer_values.inc"

using etude::tests::expect_error;
using Calls = std::vector<std::pair<std::string, std::function<Tensor()>>>;
using Ids = std::vector<int64_t>;

Tensor at(const Shape& shape, int64_t seed) {
  std::vector<double> values;
  for (int64_t k = 0; k < shape.count(); ++k) {
    values.push_back(static_cast<double>((k * 37 + seed * 29 + k * k % 11 * 5) % 97) / 48.5 - 1);
  }
  return reshape(Tensor(values), shape);
}

const Tensor& positions() {
  static const Tensor at(Ids{0, 3, 7, 1, 2});
  return at;
}
const Tensor& ids() {
  static const Tensor rows(Ids{5, 0, 2, 2, 2, 4}, {2, 3});
  return rows;
}
// By x, with the cotangent of a seed.
template <class Fn>
Tensor pulled_back(const Fn& fn, const Tensor& x, const Tensor& cotangent) {
  return to_dense(gradient([&](const Tensor& v) { return sum(fn(v) * cotangent); }, x));
}

// spec: T20
Calls sequence_calls() {
  const auto rotary = [](const Tensor& x) {
    return rotary_embedding(x, positions(), {.base = 100});
  };
  const auto lookup = [](const Tensor& table) { return embedding_lookup(table, ids()); };
  const auto ctc = [](const Tensor& logits) {
    return ctc_loss(logits, Tensor(Ids{1, 2, 1, 3, 3, 0, 0, 0, 0}, {3, 3}),
                    {.reduction = "none",
                     .logit_lengths = Tensor(Ids{5, 4, 2}),
                     .label_lengths = Tensor(Ids{3, 2, 0})});
  };
  const auto logits = [] { return at({3, 5, 4}, 3) * 2.0; };
  return {
      {"rotary",
       [=] {
         return rotary(at({2, 5, 6}, 1));
       }},
      {"rotary gradient",
       [=] {
         return pulled_back(rotary, at({2, 5, 6}, 1), at({2, 5, 6}, 2));
       }},
      {"lookup",
       [=] {
         return lookup(at({6, 3}, 1));
       }},
      {"lookup gradient",
       [=] {
         return pulled_back(lookup, at({6, 3}, 1), at({2, 3, 3}, 2));
       }},
      {"ctc", [=] { return ctc(logits()); }},
      {"ctc gradient",
       [=] { return pulled_back(ctc, logits(), etude::ones({3}, {.dtype = kFloat64})); }},
  };
}

Tensor image() { return at({2, 6, 5, 2}, 1); }
Tensor filter() { return at({2, 3, 2}, 2) * 0.777; }
const MorphologyOptions kWide{.strides = {2, 1}, .rates = {2, 1}};
const MorphologyOptions kSame{.padding = "same"};
const MorphologyOptions kWideSame{.strides = {2, 1}, .rates = {2, 1}, .padding = "same"};

template <class Layer>
Tensor to_x() {
  return gradient([](const Tensor& x) { return sum(Layer(filter())(x)); }, image());
}
template <class Layer>
Tensor to_filter() {
  return gradient([](const Layer& l) { return sum(l(image())); }, Layer(filter())).filter;
}

// spec: L24
Calls morphology_calls() {
  return {
      {"dilation", [] { return Dilation2D(filter())(image()); }},
      {"dilation to x", to_x<Dilation2D>},
      {"dilation to filter", to_filter<Dilation2D>},
      {"dilation wide", [] { return Dilation2D(filter(), kWide)(image()); }},
      {"dilation same", [] { return Dilation2D(filter(), kSame)(image()); }},
      {"erosion", [] { return Erosion2D(filter())(image()); }},
      {"erosion to x", to_x<Erosion2D>},
      {"erosion to filter", to_filter<Erosion2D>},
      {"erosion wide same", [] { return Erosion2D(filter(), kWideSame)(image()); }},
  };
}

AdaptiveSoftmax words() {
  AdaptiveSoftmax out(8, 10, {3, 6}, {.divisor = 2});
  out.head = at({8, 5}, 2);
  out.clusters = {{at({8, 4}, 3), at({4, 3}, 4)}, {at({8, 2}, 5), at({2, 4}, 6)}};
  return out;
}
const Tensor& labels() {
  static const Tensor of_rows(Ids{1, 9, 4, 0});
  return of_rows;
}

// spec: L30
Calls softmax_calls() {
  return {
      {"adaptive",
       [] {
         return words()(at({4, 8}, 1));
       }},
      {"adaptive loss",
       [] {
         return words().loss(at({4, 8}, 1), labels());
       }},
  };
}

// Batch by batch, with fewer expected rows.
// spec: M10
Tensor frechet() {
  Metric metric = metrics::frechet_distance();
  const Tensor x = at({9, 3}, 1) + 0.3 * square(at({9, 3}, 4));
  const Tensor y = at({7, 3}, 2) + 0.5 * square(at({7, 3}, 5));
  metric.update(slice(x, {0, 0}, {5, 3}), slice(y, {0, 0}, {2, 3}));
  Metric more = metrics::frechet_distance();
  more.update(slice(x, {5, 0}, {9, 3}), slice(y, {2, 0}, {7, 3}));
  metric.merge(more);
  return Tensor(metric.result());
}

TEST(LayerValues, AreThoseOfNumPy) {
  Calls calls;
  for (const Calls& more : {sequence_calls(), morphology_calls(), softmax_calls()}) {
    calls.insert(calls.end(), more.begin(), more.end());
  }
  calls.emplace_back("frechet", frechet);
  ASSERT_EQ(calls.size(), std::size(kLayerRows));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const LayerRow& row = kLayerRows[i];
    SCOPED_TRACE(row.name);
    ASSERT_EQ(calls[i].first, row.name);
    const Tensor y = calls[i].second();
    const std::vector<double> got = y.to_vector<double>();
    ASSERT_EQ(got.size(), row.want.size()) << y.shape().to_string();
    for (std::size_t e = 0; e < got.size(); ++e) {
      EXPECT_NEAR(got[e], row.want[e], 2e-9) << "element " << e;
    }
  }
}

// spec: M10
TEST(FrechetDistance, OfTheSameIsNothing) {
  Metric metric = metrics::frechet_distance();
  metric.update(at({6, 3}, 1), at({6, 3}, 1));
  EXPECT_NEAR(metric.result(), 0, 1e-7);
  expect_error(
      [&] {
        metric.update(at({6, 3}, 1), at({6, 2}, 1));
      },
      ErrorCode::kInvalidArgument,
      {"frechet_distance: features have shapes [6,3] and [6,2]", "layer_values_test.cc"});
  Metric few = metrics::frechet_distance();
  few.update(at({6, 3}, 1), at({1, 3}, 1));
  expect_error([&] { few.result(); }, ErrorCode::kInvalidArgument,
               {"frechet_distance: there are 1 rows of features, but a covariance needs two"});
}

// A filter of zeros is max pooling.
// spec: L24
TEST(Morphology, WithoutAFilterItPools) {
  const Tensor x = image();
  const Dilation2D flat(etude::zeros({2, 2, 2}, {.dtype = kFloat64}), {.strides = 2});
  EXPECT_TRUE(same_value(flat(x), max_pool2d(x, 2, {.strides = 2})));
}

// spec: L24
TEST(Morphology, MistakesAreNamed) {
  const auto refused = [](const auto& fn, std::string_view text) {
    expect_error(fn, ErrorCode::kInvalidArgument, {text, "layer_values_test.cc"});
  };
  refused(
      [] {
        Dilation2D(ones({2, 2}));
      },
      "Dilation2D: the filter is float32[2,2], but must be [height, width, channels]");
  refused([] { Erosion2D(Tensor{}); }, "Erosion2D: the filter is absent");
  refused(
      [] {
        Erosion2D(ones({2, 2, 1}), {.strides = {1, 2, 3}});
      },
      "Erosion2D: strides has 3 sizes, but needs one, or 2");
  refused(
      [] {
        Dilation2D(ones({2, 2, 1}), {.padding = "full"});
      },
      "Dilation2D: padding is \"full\", but must be \"valid\" or \"same\"");
  refused(
      [] {
        Dilation2D(ones({2, 2, 3}))(ones({1, 4, 4, 2}));
      },
      "Dilation2D: the input has shape [1,4,4,2], but the layer needs 4 axes, the last of size "
      "3 (its filter has shape [2,2,3])");
}

// The loss equals the loss by all log probabilities, and so do its gradients.
// spec: L30
TEST(AdaptiveSoftmax, LossLooksAtTheClustersOfItsLabels) {
  const Tensor x = at({4, 8}, 1);
  const auto slope_of = [&](const auto& loss) { return gradient(loss, words()); };
  const auto narrow = slope_of([&](const AdaptiveSoftmax& m) { return m.loss(x, labels()); });
  const auto full = slope_of([&](const AdaptiveSoftmax& m) { return nll_loss(m(x), labels()); });
  const auto expect_close = [](const Tensor& a, const Tensor& b) {
    EXPECT_LT(max(abs(to_dense(a) - to_dense(b))).item<double>(), 1e-12);
  };
  expect_close(narrow.head, full.head);
  for (std::size_t i = 0; i < 2; ++i) {
    expect_close(narrow.clusters[i].down, full.clusters[i].down);
    expect_close(narrow.clusters[i].up, full.clusters[i].up);
  }
  // 8 x 5, then 8 x 4 and 4 x 3, 8 x 2 and 2 x 4.
  EXPECT_EQ(summary(AdaptiveSoftmax(8, 10, {3, 6}, {.divisor = 2}), {4, 8}).parameters, 108);
}

// spec: L30
TEST(AdaptiveSoftmax, MistakesAreNamed) {
  const auto refused = [](const auto& fn, ErrorCode code, std::string_view text) {
    expect_error(fn, code, {"AdaptiveSoftmax", text, "layer_values_test.cc"});
  };
  const ErrorCode invalid = ErrorCode::kInvalidArgument;
  refused([] { AdaptiveSoftmax(8, 10, {}); }, invalid, "there are no cutoffs");
  refused(
      [] {
        AdaptiveSoftmax(8, 10, {3, 3});
      },
      invalid, "the cutoffs are [3,3], but must rise between 0 and the number of classes, 10");
  refused([] { AdaptiveSoftmax(0, 10, {3}); }, invalid, "0 features and 10 classes");
  const AdaptiveSoftmax layer(8, 10, {3});
  refused(
      [&] {
        layer(zeros({2, 7}));
      },
      invalid,
      "the input has shape [2,7], but the layer needs 2 axes, the last of size 8 (its head has "
      "shape [8,4])");
  refused(
      [&] {
        layer.loss(zeros({2, 8}), Tensor(Ids{1}));
      },
      invalid, "the labels are int64[1], but the input of shape [2,8] needs integers");
  refused(
      [&] {
        layer.loss(zeros({2, 8}), Tensor(Ids{1, 10}));
      },
      ErrorCode::kOutOfRange, "label 10 of row 1 is outside [0, 10)");
}

}  // namespace
}  // namespace etude::nn
