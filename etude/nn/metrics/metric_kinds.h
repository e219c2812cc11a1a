// SPDX-License-Identifier: Apache-2.0
// The usual metrics, for fit, evaluate and hand-written loops: of classes, of numbers, of sequences
// and of images. A comment above each group states its predictions and labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "etude/nn/metrics/metric.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {
namespace metrics {

// Classes. shapes: predicted are scores of any kind, [n, classes], or [n] or [n, 1], where a score
// above 0.5 means class 1; expected are integers [n], or one-hot [n, classes].
// throws: kInvalidArgument for shapes that do not fit; at the result kOutOfRange for labels outside
//         of [0, classes).

// The fraction of rows in which the label has the highest score.
Metric accuracy();
// The fraction of rows whose label is among the k highest scores; needs [n, classes] with classes
// >= k.
Metric top_k(int64_t k);
// Matthews' correlation of labels and predictions, for any number of classes (Gorodkin 2004).
Metric matthews();

struct ScoreOptions {
  // How classes are averaged: "macro", the mean over classes; "micro", from the summed counts;
  // "binary", class 1 only; "none", one result per class.
  std::string average = "macro";
  // With a threshold a row may have several classes. predicted and expected are [n, classes]. A
  // class is predicted if its score exceeds the threshold, and expected if its label exceeds 0.5.
  std::optional<double> threshold = {};
};
// Precision: true positives divided by predicted positives. Recall: true positives divided by
// expected positives. F1: 2 p r / (p + r). Undefined results are 0.
// throws: kInvalidArgument for another word.
Metric precision(const ScoreOptions& options = {}, CallSite where = CallSite::here());
Metric recall(const ScoreOptions& options = {}, CallSite where = CallSite::here());
Metric f1(const ScoreOptions& options = {}, CallSite where = CallSite::here());
// Intersection over union of predicted and labelled rows of a class.
Metric intersection_over_union(const ScoreOptions& options = {}, CallSite where = CallSite::here());
// The fraction of numbers on the right side of a threshold, for labels that do not exclude each
// other.
// shapes: predicted and expected [..].
Metric binary_accuracy(double threshold = 0.5);

// Rankings; all scores are kept until the result. shapes: predicted [n] with expected [n] of 0 and
// 1; or [n, 2] or [n, classes] with labels or one-hot rows. For two classes the result is the
// result of class 1; for more, the mean over the classes that have rows with and without the class.
// The area under the curve of the true positive rate over the false positive rate; ties count half.
Metric roc_auc();
// The area under the curve of precision over recall, by trapezoids and as a sum of steps, in this
// order.
Metric pr_auc();
Metric average_precision();
// The mean difference of confidence and accuracy over bins of equal width (Guo et al. 2017).
// shapes: probabilities [n, classes], or [n] of class 1; integer labels [n].
Metric calibration_error(int64_t bins = 15, CallSite where = CallSite::here());

// Numbers. shapes: predicted and expected are equal, or broadcast.
Metric mean_squared_error();
Metric mean_absolute_error();
Metric root_mean_squared_error();
// 1 - squared errors / squared deviations of the expected values from their mean.
Metric r2();
// 10 log10(range^2 / mean squared error), in decibels.
Metric psnr(double range = 1);
// The mean, the sum and the maximum of `predicted`, in this order; expected values are ignored.
Metric mean();
Metric sum();
Metric max();

// Sequences. perplexity is exp of the mean cross entropy of logits [.., classes] with integer
// labels [..]; bits_per_character is that mean in bits. Labels equal to ignore_index are ignored.
Metric perplexity(std::optional<int64_t> ignore_index = {});
Metric bits_per_character(std::optional<int64_t> ignore_index = {});
// shapes of both: integers [n, length]; lengths may differ. Elements after the first `end` of a row
// are ignored.
// The number of edits from predicted to expected rows, divided by the length of the expected rows.
Metric edit_distance(int64_t end = 0);
// The score of Papineni et al. 2002 over the whole corpus, for n-grams of 1 to `order` words.
Metric bleu(int64_t order = 4, int64_t end = 0, CallSite where = CallSite::here());

// Images [n, height, width, channels]: the mean local similarity with a Gaussian window of 11 and
// standard deviation 1.5, without borders (Wang et al. 2004).
Metric ssim(double range = 1);

// The Fréchet distance of two normal distributions with the means and covariances of two sets of
// features (Heusel et al. 2017). Features of images are [n, features]; the sets may differ in size.
// With the features of an Inception network it is the FID.
// throws: at the result kInvalidArgument if a set has fewer than two rows.
Metric frechet_distance();

}  // namespace metrics
}  // namespace nn
}  // namespace etude
