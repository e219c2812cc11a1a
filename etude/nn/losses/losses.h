// SPDX-License-Identifier: Apache-2.0
// Losses of predictions and expected values. A loss computes terms, which may be weighted, and
// reduces them. Softmax cross entropy is an op of this namespace: ops.h. For fit and for
// hand-written loops.
//
//   nn::fit(model, optimizer, data, nn::mean_squared_error);
//   nn::huber_loss(y, t, {.reduction = "mean", .delta = 0.5});
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "etude/core/call/arg.h"
#include "etude/core/internal/owned_result.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// The reduction of the terms of a loss: "mean", "sum", "none" (the terms are the result), or any
// function of tensors.
class Reduction {
 public:
  // throws: kInvalidArgument for another word.
  Reduction(const char* name);
  Reduction(const std::string& name);
  template <class F>
  requires(std::is_invocable_r_v<Tensor, const F&, const Tensor&> && !std::same_as<F, Reduction>)
      Reduction(F function)
      : function_(std::move(function)) {
    etude::internal::require_owned<const F&, const Tensor&>();
  }

  // Returns terms times weights, reduced; a mean is divided by the sum of the weights. Weights are
  // absent or broadcast to the terms.
  Tensor operator()(const Tensor& terms, const Tensor& weights) const;

 private:
  std::string name_;
  std::function<Tensor(const Tensor&)> function_;
};

struct LossOptions {
  std::optional<Reduction> reduction = {};  // default: stated by each loss
  Tensor weights = {};
};

// throws (all): kInvalidArgument, with the loss, both shapes and the caller's line, for two shapes
//               that do not broadcast to one of them, such as [n, 1] and [n], for weights that do
//               not broadcast to the terms, and for predictions that are not floating.
// Derivatives pass to predictions and expected values.

// The sum of |p - e|, and the sum of (p - e)^2.
Tensor l1_loss(const Arg& predicted, const Arg& expected, const LossOptions& options = {});
Tensor l2_loss(const Arg& predicted, const Arg& expected, const LossOptions& options = {});
// The means of |p - e|, (p - e)^2, (log(1 + p) - log(1 + e))^2 and 100 |p - e| / |e|, in this
// order.
Tensor mean_absolute_error(const Arg& predicted, const Arg& expected,
                           const LossOptions& options = {});
Tensor mean_squared_error(const Arg& predicted, const Arg& expected,
                          const LossOptions& options = {});
Tensor mean_squared_log_error(const Arg& predicted, const Arg& expected,
                              const LossOptions& options = {});
Tensor mean_absolute_percentage_error(const Arg& predicted, const Arg& expected,
                                      const LossOptions& options = {});
// The mean of log(cosh(p - e)), without overflow.
Tensor log_cosh_loss(const Arg& predicted, const Arg& expected, const LossOptions& options = {});

struct HuberLossOptions {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double delta = 1;

  static constexpr void ranges(const auto& option) {
    option("delta", &HuberLossOptions::delta, above(0));
  }
};
// The sum of terms in d = |p - e|: d^2 / 2 where d is below delta, else delta (d - delta / 2).
Tensor huber_loss(const Arg& predicted, const Arg& expected, const HuberLossOptions& options = {});

// The mean of max(0, 1 - e p), and of its square; e is -1 or 1.
Tensor hinge_loss(const Arg& predicted, const Arg& expected, const LossOptions& options = {});
Tensor squared_hinge_loss(const Arg& predicted, const Arg& expected,
                          const LossOptions& options = {});
// The mean over rows (of the last axis) of max(0, 1 + max((1 - e) p) - sum(e p)); e is one-hot.
Tensor categorical_hinge_loss(const Arg& predicted, const Arg& expected,
                              const LossOptions& options = {});
// The mean over rows (of the last axis) of 1 - cos of the angle between p and e.
Tensor cosine_similarity_loss(const Arg& predicted, const Arg& expected,
                              const LossOptions& options = {});

// The mean of p - e log(p).
Tensor poisson_loss(const Arg& predicted, const Arg& expected, const LossOptions& options = {});
// The sum of e log(e / p), where 0 log 0 is 0.
Tensor kl_divergence(const Arg& predicted, const Arg& expected, const LossOptions& options = {});
// The mean of -(e log(p) + (1 - e) log(1 - p)) for probabilities, where 0 log 0 is 0.
Tensor binary_cross_entropy(const Arg& predicted, const Arg& expected,
                            const LossOptions& options = {});
// The mean of -log_p[label]. Labels are integers [..] for log probabilities [.., classes].
Tensor nll_loss(const Arg& log_probabilities, const Arg& labels, const LossOptions& options = {});

struct SigmoidCrossEntropyOptions {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double pos_weight = 1;  // weight of the terms with expected value 1

  static constexpr void ranges(const auto& option) {
    option("pos_weight", &SigmoidCrossEntropyOptions::pos_weight, at_least(0));
  }
};
// binary_cross_entropy of sigmoid(logits), without overflow or cancellation.
Tensor sigmoid_cross_entropy(const Arg& logits, const Arg& expected,
                             const SigmoidCrossEntropyOptions& options = {});

struct FocalLossOptions {
  std::optional<Reduction> reduction = {};
  Tensor weights = {};
  double gamma = 2;
  double alpha = 0.25;  // weight of terms with expected value 1; others have 1 - alpha

  static constexpr void ranges(const auto& option) {
    option("gamma", &FocalLossOptions::gamma, at_least(0));
    option("alpha", &FocalLossOptions::alpha, within(0, 1));
  }
};
// sigmoid_cross_entropy with each term multiplied by (1 - q)^gamma, where q is the probability of
// the expected value.
Tensor focal_loss(const Arg& logits, const Arg& expected, const FocalLossOptions& options = {});

}  // namespace nn
}  // namespace etude
