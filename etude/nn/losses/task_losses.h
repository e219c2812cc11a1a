// SPDX-License-Identifier: Apache-2.0
// Losses of pairs and triples of embeddings, of rankings, distributions, masks and sequences. As in
// losses.h, the terms may be weighted and are then reduced, by default to their mean.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "etude/core/call/arg.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/nn/losses/losses.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// throws (all): as the functions of losses.h.

struct MarginOptions {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double margin = 1;

  static constexpr void ranges(const auto& option) {
    option("margin", &MarginOptions::margin, at_least(0));
  }
};
// Per row (along the last axis): max(0, |a - p| - |a - n| + margin).
Tensor triplet_margin_loss(const Arg& anchor, const Arg& positive, const Tensor& negative,
                           const MarginOptions& options = {});
// Per row, with d = |x - y|: d^2 / 2 where `same` is 1, max(0, margin - d)^2 / 2 where it is 0
// (Hadsell et al. 2006).
Tensor contrastive_loss(const Arg& x, const Arg& y, const Tensor& same,
                        const MarginOptions& options = {});

struct ZeroMarginOptions {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double margin = 0;

  static constexpr void ranges(const auto& option) {
    option("margin", &ZeroMarginOptions::margin, at_least(0));
  }
};
// Per row: 1 - cos(x, y) where `same` is 1, max(0, cos(x, y) - margin) where it is -1.
Tensor cosine_embedding_loss(const Arg& x, const Arg& y, const Tensor& same,
                             const ZeroMarginOptions& options = {});
// max(0, -order (x - y) + margin): order is 1 where x should be larger than y, else -1.
Tensor margin_ranking_loss(const Arg& x, const Arg& y, const Tensor& order,
                           const ZeroMarginOptions& options = {});
// The sum over the other classes of max(0, margin - score of the label + score), divided by the
// number of classes. Scores are [.., classes] and labels integers [..].
Tensor multi_margin_loss(const Arg& scores, const Arg& labels, const MarginOptions& options = {});

struct InfoNceOptions {
  std::optional<Reduction> reduction = {};
  double temperature = 0.1;

  static constexpr void ranges(const auto& option) {
    option("temperature", &InfoNceOptions::temperature, above(0));
  }
};
// The cross entropy of identifying the key of each query among all keys; logits are the cosines
// divided by the temperature (van den Oord et al. 2018). Queries and keys are [n, features].
Tensor info_nce_loss(const Arg& queries, const Arg& keys, const InfoNceOptions& options = {});

struct GaussianNllOptions {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double eps = 1e-6;  // least variance

  static constexpr void ranges(const auto& option) {
    option("eps", &GaussianNllOptions::eps, above(0));
  }
};
// (log(v) + (p - e)^2 / v) / 2 for predicted means and variances, without the constant.
Tensor gaussian_nll_loss(const Arg& predicted, const Arg& expected, const Tensor& variance,
                         const GaussianNllOptions& options = {});

struct QuantileOptions {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double quantile = 0.5;

  static constexpr void ranges(const auto& option) {
    option("quantile", &QuantileOptions::quantile, within(0, 1));
  }
};
// max(q (e - p), (q - 1) (e - p)): minimal where p is the q-quantile.
Tensor quantile_loss(const Arg& predicted, const Arg& expected,
                     const QuantileOptions& options = {});

struct SmoothL1Options {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double beta = 1;

  static constexpr void ranges(const auto& option) {
    option("beta", &SmoothL1Options::beta, above(0));
  }
};
// d^2 / (2 beta) where d = |p - e| is below beta, else d - beta / 2.
Tensor smooth_l1_loss(const Arg& predicted, const Arg& expected,
                      const SmoothL1Options& options = {});

struct OverlapOptions {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double smooth = 1;

  static constexpr void ranges(const auto& option) {
    option("smooth", &OverlapOptions::smooth, at_least(0));
  }
};
// For each sample of probabilities and masks [n, ..]: dice_loss is 1 - (2 |p e| + s) / (|p| + |e| +
// s), and iou_loss 1 - (|p e| + s) / (|p| + |e| - |p e| + s). | | is the sum of elements.
Tensor dice_loss(const Arg& predicted, const Arg& expected, const OverlapOptions& options = {});
Tensor iou_loss(const Arg& predicted, const Arg& expected, const OverlapOptions& options = {});

// -e p, for scores p of a critic on real (e = 1) or generated (e = -1) samples.
Tensor wasserstein_loss(const Arg& scores, const Arg& expected, const LossOptions& options = {});

// Returns features of an image, such as the results of some layers of a trained model.
using Features = std::function<std::vector<Tensor>(const Tensor&)>;
// The sum of the mean squared errors of all features. throws: also kInvalidArgument if there are no
// features.
Tensor perceptual_loss(const Arg& predicted, const Arg& expected, const Features& features);

struct CtcLossOptions {
  std::optional<Reduction> reduction = {};
  Tensor logit_lengths = {};  // integers [n]; absent: all steps
  Tensor label_lengths = {};  // integers [n]; absent: all labels
  int64_t blank = 0;          // the class that means "no label"

  static constexpr void ranges(const auto& option) {
    option("blank", &CtcLossOptions::blank, at_least(0));
  }
};
// Connectionist temporal classification (Graves et al. 2006): -log of the probability that the
// steps spell the labels, as a mean over sequences. A label may span several steps, and there may
// be blanks between labels. shapes: logits [n, steps, classes] or [steps, classes], integer labels
// [n, labels] or [labels]. With too few steps the loss is infinite and has no gradient.
// throws: kOutOfRange for labels out of range.
// cost:   steps * labels per sequence, a few calls per step.
Tensor ctc_loss(const Arg& logits, const Arg& labels, const CtcLossOptions& options = {});

// Class weights with which all classes have the same total weight: n / (classes * samples of the
// class), and 0 for a class without samples. For SoftmaxCrossEntropyOptions::class_weights.
// throws: kOutOfRange for labels outside of [0, classes).
Tensor balanced_class_weights(const Tensor& labels, int64_t classes,
                              CallSite where = CallSite::here());

}  // namespace nn
}  // namespace etude
