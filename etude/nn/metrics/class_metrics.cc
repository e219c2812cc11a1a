// SPDX-License-Identifier: Apache-2.0
// Metrics of classes and of rankings.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/metrics/class_counts.h"
#include "etude/nn/metrics/metric_kinds.h"
#include "etude/ops.h"

namespace etude::nn::metrics {
namespace {

using internal::part;
using Numbers = std::vector<double>;

// Labels may be integers.
Tensor above(const Tensor& x, double threshold) { return astype(x, kFloat64) > threshold; }

std::vector<Tensor> confusion(const Tensor& predicted, const Tensor& expected) {
  return {internal::confusion_counts(predicted, expected)};
}

// Of a class: how many were right, were predicted, had the label.
struct Counts {
  double right = 0, predicted = 0, labelled = 0;
};

std::vector<Counts> counts_of_confusion(const Tensor& counts) {
  const std::vector<int64_t> all = internal::read_confusion(counts);
  const auto classes = static_cast<std::size_t>(internal::classes_of(counts));
  std::vector<Counts> out(classes);
  for (std::size_t label = 0; label < classes; ++label) {
    for (std::size_t k = 0; k < classes; ++k) {
      const auto n = static_cast<double>(all[label * classes + k]);
      out[label].labelled += n;
      out[k].predicted += n;
      if (k == label) out[k].right += n;
    }
  }
  return out;
}

std::vector<Tensor> threshold_counts(const Tensor& predicted, const Tensor& expected,
                                     double threshold) {
  ETUDE_REQUIRE(predicted.rank() == 2 && predicted.shape() == expected.shape(),
                "predictions have shape {} and labels {}, but both need [n, classes]",
                predicted.shape().to_string(), expected.shape().to_string());
  const Tensor chosen = above(predicted, threshold), meant = above(expected, 0.5);
  const auto count = [](const Tensor& x) { return etude::sum(astype(x, kInt64), {.axis = 0}); };
  return {stack({count(logical_and(chosen, meant)), count(chosen), count(meant)})};
}

std::vector<Counts> counts_of_threshold(const Tensor& counts) {
  const std::vector<int64_t> all = counts.to_vector<int64_t>();
  const std::size_t classes = all.size() / 3;
  std::vector<Counts> out;
  for (std::size_t k = 0; k < classes; ++k) {
    out.push_back({static_cast<double>(all[k]), static_cast<double>(all[classes + k]),
                   static_cast<double>(all[2 * classes + k])});
  }
  return out;
}

using Score = double (*)(const Counts&);

Numbers averaged(const std::vector<Counts>& classes, const std::string& average, Score score) {
  Counts all;
  Numbers each;
  for (const Counts& c : classes) {
    each.push_back(score(c));
    all.right += c.right;
    all.predicted += c.predicted;
    all.labelled += c.labelled;
  }
  if (average == "none") return each;
  if (average == "micro") return {score(all)};
  if (average == "binary") {
    ETUDE_REQUIRE(each.size() == 2, "the average \"binary\" is of 2 classes, but there are {}",
                  each.size());
    return {each[1]};
  }
  return {std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size())};
}

Metric score_metric(const char* name, const ScoreOptions& options, Score score, CallSite where) {
  constexpr std::array kAverages{"macro", "micro", "binary", "none"};
  etude::internal::located(name, where, [&] {
    ETUDE_REQUIRE(std::find(kAverages.begin(), kAverages.end(), options.average) != kAverages.end(),
                  "average is \"{}\", but must be \"macro\", \"micro\", \"binary\" or \"none\"",
                  options.average);
  });
  const std::string average = options.average;
  if (!options.threshold) {
    return {name, Joined::kSum, confusion, [=](std::span<const Tensor> parts) {
              return averaged(counts_of_confusion(parts[0]), average, score);
            }};
  }
  return {name, Joined::kSum,
          [threshold = *options.threshold](const Tensor& predicted, const Tensor& expected) {
            return threshold_counts(predicted, expected, threshold);
          },
          [=](std::span<const Tensor> parts) {
            return averaged(counts_of_threshold(parts[0]), average, score);
          }};
}

// Parts are how many were right, and how many there were.
Numbers right_part(std::span<const Tensor> parts) {
  return {part(parts[0].item<double>(), parts[1].item<double>())};
}
std::vector<Tensor> right_parts(const Tensor& is_right) {
  return {etude::sum(astype(is_right, kInt64)), internal::count_tensor(is_right.size())};
}

}  // namespace

Metric accuracy() {
  return {"accuracy", Joined::kSum, confusion, [](std::span<const Tensor> parts) -> Numbers {
            Counts all;
            for (const Counts& c : counts_of_confusion(parts[0])) {
              all.right += c.right;
              all.labelled += c.labelled;
            }
            return {part(all.right, all.labelled)};
          }};
}

Metric top_k(int64_t k) {
  return {"top_k", Joined::kSum,
          [k](const Tensor& predicted, const Tensor& expected) {
            ETUDE_REQUIRE(predicted.rank() == 2 && k >= 1 && k <= predicted.shape()[1],
                          "k is {}, but predictions have shape {} and need [n, classes] with k "
                          "classes or more",
                          k, predicted.shape().to_string());
            ETUDE_REQUIRE(expected.rank() == 1 && expected.shape()[0] == predicted.shape()[0],
                          "labels have shape {}, but need [{}]", expected.shape().to_string(),
                          predicted.shape()[0]);
            const Tensor best = etude::top_k(predicted, k).indices;
            const Tensor labels = expand_dims(astype(expected, kInt64), {1});
            return right_parts(any(best == labels, {.axis = 1}));
          },
          right_part};
}

Metric binary_accuracy(double threshold) {
  return {"binary_accuracy", Joined::kSum,
          [threshold](const Tensor& predicted, const Tensor& expected) {
            return right_parts(above(predicted, threshold) == above(expected, 0.5));
          },
          right_part};
}

Metric matthews() {
  return {"matthews", Joined::kSum, confusion, [](std::span<const Tensor> parts) -> Numbers {
            double all = 0, right = 0, both = 0, predicted = 0, labelled = 0;
            for (const Counts& c : counts_of_confusion(parts[0])) {
              all += c.labelled;
              right += c.right;
              both += c.predicted * c.labelled;
              predicted += c.predicted * c.predicted;
              labelled += c.labelled * c.labelled;
            }
            const double scale = std::sqrt(all * all - predicted) * std::sqrt(all * all - labelled);
            return {part(1, scale) * (right * all - both)};
          }};
}

Metric precision(const ScoreOptions& options, CallSite where) {
  return score_metric(
      "precision", options, [](const Counts& c) { return part(c.right, c.predicted); }, where);
}
Metric recall(const ScoreOptions& options, CallSite where) {
  return score_metric(
      "recall", options, [](const Counts& c) { return part(c.right, c.labelled); }, where);
}
Metric f1(const ScoreOptions& options, CallSite where) {
  return score_metric(
      "f1", options, [](const Counts& c) { return part(2 * c.right, c.predicted + c.labelled); },
      where);
}
Metric intersection_over_union(const ScoreOptions& options, CallSite where) {
  return score_metric(
      "intersection_over_union", options,
      [](const Counts& c) { return part(c.right, c.predicted + c.labelled - c.right); }, where);
}

namespace {

// Scores [n, k] and whether rows have the class, [n, k]; of two classes the second alone.
std::vector<Tensor> ranking_parts(const Tensor& predicted, const Tensor& expected) {
  ETUDE_REQUIRE(predicted.rank() == 1 || predicted.rank() == 2,
                "scores have shape {}, but need [n] or [n, classes]",
                predicted.shape().to_string());
  Tensor scores = predicted.rank() == 1 ? expand_dims(predicted, {1}) : predicted;
  const int64_t classes = scores.shape()[1];
  Tensor labels = expected;
  if (labels.rank() == 1) {
    labels = classes > 1 ? one_hot(astype(labels, kInt64), classes) : expand_dims(labels, {1});
  }
  ETUDE_REQUIRE(labels.shape() == scores.shape(), "{} scores, but labels have shape {}",
                scores.shape().to_string(), expected.shape().to_string());
  if (classes == 2) {
    scores = slice(scores, {0, 1}, {scores.shape()[0], 2});
    labels = slice(labels, {0, 1}, {labels.shape()[0], 2});
  }
  return {astype(scores, kFloat64), above(labels, 0.5)};
}

// Among the highest scores, down to one whose successor differs: right and wrong ones.
struct Cut {
  double right = 0, wrong = 0;
};
std::vector<Cut> cuts_of(std::vector<std::pair<double, bool>> ranked) {
  std::sort(ranked.begin(), ranked.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Cut> cuts;
  Cut now;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    (ranked[i].second ? now.right : now.wrong) += 1;
    if (i + 1 == ranked.size() || ranked[i + 1].first != ranked[i].first) cuts.push_back(now);
  }
  return cuts;
}

using Area = double (*)(const std::vector<Cut>& cuts);

// The mean over the classes that have rows with and without them.
Numbers ranking_result(std::span<const Tensor> parts, Area area) {
  std::vector<std::vector<std::pair<double, bool>>> ranked;
  for (std::size_t i = 0; i < parts.size(); i += 2) {
    const auto classes = static_cast<std::size_t>(parts[i].shape()[1]);
    const std::vector<double> scores = parts[i].to_vector<double>();
    const std::vector<bool> labels = parts[i + 1].to_vector<bool>();
    ranked.resize(classes);
    for (std::size_t k = 0; k < scores.size(); ++k) {
      ranked[k % classes].emplace_back(scores[k], labels[k]);
    }
  }
  double sum = 0, count = 0;
  for (auto& one : ranked) {
    const std::vector<Cut> cuts = cuts_of(std::move(one));
    if (cuts.empty() || cuts.back().right == 0 || cuts.back().wrong == 0) continue;
    sum += area(cuts);
    count += 1;
  }
  return {count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN()};
}

double roc_area(const std::vector<Cut>& cuts) {
  double area = 0;
  Cut last;
  for (const Cut& cut : cuts) {
    area += (cut.wrong - last.wrong) * (cut.right + last.right) / 2;
    last = cut;
  }
  return area / (last.right * last.wrong);
}

// By trapezoids, from precision 1 at recall 0, or by steps.
template <bool by_steps>
double precision_recall_area(const std::vector<Cut>& cuts) {
  double area = 0, precision = 1, recall = 0;
  for (const Cut& cut : cuts) {
    const double p = cut.right / (cut.right + cut.wrong), r = cut.right / cuts.back().right;
    area += (r - recall) * (by_steps ? p : (p + precision) / 2);
    precision = p;
    recall = r;
  }
  return area;
}

Metric ranking(const char* name, Area area) {
  return {name, Joined::kAll, ranking_parts,
          [area](std::span<const Tensor> parts) { return ranking_result(parts, area); }};
}

}  // namespace

Metric roc_auc() { return ranking("roc_auc", roc_area); }
Metric pr_auc() { return ranking("pr_auc", precision_recall_area<false>); }
Metric average_precision() { return ranking("average_precision", precision_recall_area<true>); }

// Parts: by bin how many there are, how many are right, and the sum of confidences.
Metric calibration_error(int64_t bins, CallSite where) {
  etude::internal::check_range("calibration_error", "bins", static_cast<double>(bins), at_least(1),
                               where);
  const auto parts = [bins](const Tensor& predicted, const Tensor& expected) {
    const Tensor labels = astype(expected, kInt64);
    ETUDE_REQUIRE(labels.rank() == 1 && (predicted.rank() == 1 || predicted.rank() == 2) &&
                      predicted.shape()[0] == labels.shape()[0],
                  "predictions have shape {} and labels {}, but need [n, classes] or [n], and [n]",
                  predicted.shape().to_string(), expected.shape().to_string());
    Tensor confidence = predicted, right = labels == 1;
    if (predicted.rank() == 2) {
      confidence = etude::max(predicted, {.axis = 1});
      right = argmax(predicted, {.axis = 1}) == labels;
    }
    confidence = astype(confidence, kFloat64);
    // Bin k holds confidences in (k / bins, (k + 1) / bins].
    const Tensor bin =
        clip(astype(ceil(confidence * bins), kInt64) - 1, {.min = int64_t{0}, .max = bins - 1});
    const auto sum_of = [&](const Tensor& x) { return segment_sum(x, bin, bins); };
    return std::vector<Tensor>{sum_of(ones_like(confidence)), sum_of(astype(right, kFloat64)),
                               sum_of(confidence)};
  };
  return {"calibration_error", Joined::kSum, parts, [](std::span<const Tensor> sums) -> Numbers {
            const Numbers n = sums[0].to_vector<double>(), right = sums[1].to_vector<double>(),
                          confidence = sums[2].to_vector<double>();
            double off = 0;
            for (std::size_t i = 0; i < n.size(); ++i) off += std::abs(right[i] - confidence[i]);
            return {part(off, std::accumulate(n.begin(), n.end(), 0.0))};
          }};
}

}  // namespace etude::nn::metrics
