// SPDX-License-Identifier: Apache-2.0
// The usual metrics, for fit, evaluate and loops by hand: of classes, of numbers, of sequences and
// of images. Which predictions and labels they take stands above each group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "etude/nn/metric.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {
namespace metrics {

// Of classes. shapes: predicted [n, classes], scores of any kind, or [n] or [n, 1], where a score
// above 0.5 means class 1; expected integers [n], or one-hot [n, classes].
// throws: kInvalidArgument for shapes that do not fit; at the result kOutOfRange for labels outside
//         of [0, classes).

// The part of rows whose highest score is that of the label.
Metric accuracy();
// The part of rows whose label is among the k highest scores; needs [n, classes] with k of them.
Metric top_k(std::int64_t k);
// Matthews' correlation of labels and predictions, for any number of classes (Gorodkin 2004).
Metric matthews();

struct ScoreOptions {
  // Over classes: "macro", the mean of theirs; "micro", of all counts together; "binary", that of
  // class 1; "none", one result for each.
  std::string average = "macro";
  // With a threshold classes do not exclude each other: predicted and expected are [n, classes],
  // and a score above it, or a label above 0.5, says that a row has the class.
  std::optional<double> threshold = {};
};
// What of a class was found rightly, what of it was found, and 2 p r / (p + r); 0 where nothing is.
// throws: kInvalidArgument for another word.
Metric precision(const ScoreOptions& options = {}, CallSite where = CallSite::here());
Metric recall(const ScoreOptions& options = {}, CallSite where = CallSite::here());
Metric f1(const ScoreOptions& options = {}, CallSite where = CallSite::here());
// What prediction and label of a class have in common, by what either has.
Metric intersection_over_union(const ScoreOptions& options = {}, CallSite where = CallSite::here());
// The part of numbers on the right side of a threshold, for labels that do not exclude each other.
// shapes: predicted and expected [..].
Metric binary_accuracy(double threshold = 0.5);

// Of rankings: all scores are kept until the result. shapes: predicted [n] with expected [n] of 0
// and 1, or [n, 2] or [n, classes] with labels or one-hot rows: then the mean over the classes that
// have both kinds; of two classes that of class 1.
// The area below the rate of true positives by that of false ones; ties count half.
Metric roc_auc();
// The area below precision by recall: by trapezoids, and as the sum of steps.
Metric pr_auc();
Metric average_precision();
// The mean distance of confidence and accuracy over bins of equal width (Guo et al. 2017).
// shapes: probabilities [n, classes], or [n] of class 1; integer labels [n].
Metric calibration_error(std::int64_t bins = 15, CallSite where = CallSite::here());

// Of numbers. shapes: predicted and expected are equal, or broadcast.
Metric mean_squared_error();
Metric mean_absolute_error();
Metric root_mean_squared_error();
// 1 - the squared errors by those of the mean of what was expected.
Metric r2();
// 10 log10(range^2 / mean squared error), in decibels.
Metric psnr(double range = 1);
// Of `predicted` alone, whatever was expected.
Metric mean();
Metric sum();
Metric max();

// Of sequences. exp of the mean cross entropy of logits [.., classes] with integer labels [..], and
// that mean in bits. Labels equal to ignore_index count nothing.
Metric perplexity(std::optional<std::int64_t> ignore_index = {});
Metric bits_per_character(std::optional<std::int64_t> ignore_index = {});
// shapes of both: integers [n, length]; lengths may differ. What follows the first `end` of a row
// counts nothing.
// The edits that turn predicted rows into the expected ones, by the length of the expected ones.
Metric edit_distance(std::int64_t end = 0);
// Papineni et al. 2002, over the corpus, of 1 to `order` words.
Metric bleu(std::int64_t order = 4, std::int64_t end = 0, CallSite where = CallSite::here());

// Of images [n, height, width, channels]: the mean of local similarity by a Gauss window of 11 with
// deviation 1.5, without borders (Wang et al. 2004).
Metric ssim(double range = 1);

// Of features of two sets of images [n, features], which need not have as many: how far normal
// distributions with their means and covariances lie from each other (Heusel et al. 2017). With the
// features of an Inception network it is the FID.
// throws: at the result kInvalidArgument for fewer than two rows of either.
Metric frechet_distance();

}  // namespace metrics
}  // namespace nn
}  // namespace etude
