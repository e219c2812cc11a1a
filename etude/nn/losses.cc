// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/losses.h"

#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call_scope.h"
#include "etude/nn/layer.h"
#include "etude/nn/run_loss.h"
#include "etude/ops.h"

namespace etude::nn {

using detail::last_sum;
using detail::run_loss;

namespace {

// An error of an op that a loss calls, told beside the operands that the loss was given.
Error with_operands(const Error& error, const Tensor& predicted, const Tensor& expected) {
  const bool tells = !error.op().empty() && error.code() == ErrorCode::kInvalidArgument &&
                     predicted.has_value() && expected.has_value();
  if (!tells) return error;
  const std::string text = error.what();
  return Error(
      error.code(),
      fmt::format("operand 'predicted' is {} and operand 'expected' is {}; in its call of {}",
                  predicted.type()->to_string(), expected.type()->to_string(),
                  text.substr(0, text.find("\n  at "))));
}

// a log(b), and 0 where a is 0, whatever b is.
Tensor times_log(const Tensor& a, const Tensor& b) { return a * log(where(a == 0.0, 1.0, b)); }

// log cosh d = |d| + log(1 + exp(-2 |d|)) - log 2 = d + softplus(-2 d) - log 2.
Tensor log_cosh(const Tensor& d) { return d + softplus(-2.0 * d) - M_LN2; }

Tensor margin(const Tensor& p, const Tensor& e) { return maximum(1.0 - e * p, 0.0); }

}  // namespace

Tensor detail::run_loss(const char* name, const Arg& predicted, const Arg& expected,
                        const std::optional<Reduction>& reduction, const char* otherwise,
                        const Tensor& weights, LossTerms terms) {
  const CallScope scope(predicted.where());
  Tensor p, e;
  try {
    p = etude::internal::materialize(predicted);
    ETUDE_REQUIRE(is_floating(p.dtype()),
                  "operand 'predicted' is {}, but must be floating. Cast it with astype",
                  etude::name(p.dtype()));
    e = expected.tensor() != nullptr ? *expected.tensor()
                                     : etude::internal::adapt(expected, p.dtype());
    return (reduction ? *reduction : Reduction(otherwise))(terms(p, e), weights);
  } catch (const Error& error) {
    throw restated(with_operands(error, p, e), name, etude::internal::user_line(predicted.where()));
  }
}

Reduction::Reduction(const std::string& name) : name_(name) {
  ETUDE_REQUIRE(name_ == "mean" || name_ == "sum" || name_ == "none",
                "reduction is \"{}\", but must be \"mean\", \"sum\", \"none\" or a function",
                name_);
}
Reduction::Reduction(const char* name) : Reduction(std::string(name)) {}

Tensor Reduction::operator()(const Tensor& terms, const Tensor& weights) const {
  const Tensor weighted = weights.has_value() ? terms * weights : terms;
  if (function_) return function_(weighted);
  if (name_ == "none") return weighted;
  if (name_ == "sum") return sum(weighted);
  if (!weights.has_value()) return mean(weighted);
  return sum(weighted) / sum(broadcast_to(weights, weighted.shape().to_vector()));
}

Tensor l1_loss(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("l1_loss", predicted, expected, options.reduction, "sum", options.weights,
                  [](const Tensor& p, const Tensor& e) { return abs(p - e); });
}
Tensor l2_loss(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("l2_loss", predicted, expected, options.reduction, "sum", options.weights,
                  [](const Tensor& p, const Tensor& e) { return squared_difference(p, e); });
}
Tensor mean_absolute_error(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("mean_absolute_error", predicted, expected, options.reduction, "mean",
                  options.weights, [](const Tensor& p, const Tensor& e) { return abs(p - e); });
}
Tensor mean_squared_error(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("mean_squared_error", predicted, expected, options.reduction, "mean",
                  options.weights,
                  [](const Tensor& p, const Tensor& e) { return squared_difference(p, e); });
}
Tensor mean_squared_log_error(const Arg& predicted, const Arg& expected,
                              const LossOptions& options) {
  return run_loss(
      "mean_squared_log_error", predicted, expected, options.reduction, "mean", options.weights,
      [](const Tensor& p, const Tensor& e) { return squared_difference(log1p(p), log1p(e)); });
}
Tensor mean_absolute_percentage_error(const Arg& predicted, const Arg& expected,
                                      const LossOptions& options) {
  return run_loss("mean_absolute_percentage_error", predicted, expected, options.reduction, "mean",
                  options.weights,
                  [](const Tensor& p, const Tensor& e) { return 100.0 * abs((p - e) / e); });
}
Tensor log_cosh_loss(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("log_cosh_loss", predicted, expected, options.reduction, "mean", options.weights,
                  [](const Tensor& p, const Tensor& e) { return log_cosh(p - e); });
}

Tensor huber_loss(const Arg& predicted, const Arg& expected, const HuberLossOptions& options) {
  etude::internal::check_options("huber_loss", options, predicted.where());
  return run_loss("huber_loss", predicted, expected, options.reduction, "sum", options.weights,
                  [&](const Tensor& p, const Tensor& e) {
                    const Tensor d = abs(p - e), bent = minimum(d, options.delta);
                    return bent * (d - 0.5 * bent);
                  });
}

Tensor hinge_loss(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("hinge_loss", predicted, expected, options.reduction, "mean", options.weights,
                  [](const Tensor& p, const Tensor& e) { return margin(p, e); });
}
Tensor squared_hinge_loss(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("squared_hinge_loss", predicted, expected, options.reduction, "mean",
                  options.weights,
                  [](const Tensor& p, const Tensor& e) { return square(margin(p, e)); });
}
Tensor categorical_hinge_loss(const Arg& predicted, const Arg& expected,
                              const LossOptions& options) {
  return run_loss("categorical_hinge_loss", predicted, expected, options.reduction, "mean",
                  options.weights, [](const Tensor& p, const Tensor& e) {
                    const Tensor wrong = max((1.0 - e) * p, {.axis = -1});
                    return maximum(1.0 + wrong - last_sum(e * p), 0.0);
                  });
}
Tensor cosine_similarity_loss(const Arg& predicted, const Arg& expected,
                              const LossOptions& options) {
  return run_loss("cosine_similarity_loss", predicted, expected, options.reduction, "mean",
                  options.weights, [](const Tensor& p, const Tensor& e) {
                    return 1.0 - last_sum(p * e) * rsqrt(last_sum(p * p) * last_sum(e * e));
                  });
}

Tensor poisson_loss(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("poisson_loss", predicted, expected, options.reduction, "mean", options.weights,
                  [](const Tensor& p, const Tensor& e) { return p - times_log(e, p); });
}
Tensor kl_divergence(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss(
      "kl_divergence", predicted, expected, options.reduction, "sum", options.weights,
      [](const Tensor& p, const Tensor& e) { return times_log(e, e) - times_log(e, p); });
}
Tensor binary_cross_entropy(const Arg& predicted, const Arg& expected, const LossOptions& options) {
  return run_loss("binary_cross_entropy", predicted, expected, options.reduction, "mean",
                  options.weights, [](const Tensor& p, const Tensor& e) {
                    return -(times_log(e, p) + times_log(1.0 - e, 1.0 - p));
                  });
}
Tensor nll_loss(const Arg& log_probabilities, const Arg& labels, const LossOptions& options) {
  return run_loss("nll_loss", log_probabilities, labels, options.reduction, "mean", options.weights,
                  [](const Tensor& p, const Tensor& e) {
                    const Tensor column = expand_dims(e, {-1});
                    return -squeeze(take_along_axis(p, column, {.axis = -1}), {-1});
                  });
}

// Both terms apart: (1 - e) z + softplus(-z) would lose small results to cancellation.
Tensor sigmoid_cross_entropy(const Arg& logits, const Arg& expected,
                             const SigmoidCrossEntropyOptions& options) {
  etude::internal::check_options("sigmoid_cross_entropy", options, logits.where());
  return run_loss("sigmoid_cross_entropy", logits, expected, options.reduction, "mean",
                  options.weights, [&](const Tensor& z, const Tensor& e) {
                    return options.pos_weight * e * softplus(-z) + (1.0 - e) * softplus(z);
                  });
}
Tensor focal_loss(const Arg& logits, const Arg& expected, const FocalLossOptions& options) {
  etude::internal::check_options("focal_loss", options, logits.where());
  return run_loss("focal_loss", logits, expected, options.reduction, "mean", options.weights,
                  [&](const Tensor& z, const Tensor& e) {
                    const Tensor yes = e * pow(sigmoid(-z), options.gamma) * softplus(-z);
                    const Tensor no = (1.0 - e) * pow(sigmoid(z), options.gamma) * softplus(z);
                    return options.alpha * yes + (1 - options.alpha) * no;
                  });
}

}  // namespace etude::nn
