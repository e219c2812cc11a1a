// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/losses/losses.h"

#include <algorithm>
#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/nn/layer.h"
#include "etude/nn/losses/run_loss.h"
#include "etude/ops.h"

namespace etude::nn {

using internal::last_sum;
using internal::run_loss;

namespace {

// The error of an op that a loss calls, with the operands of the loss.
Error with_operands(const Error& error, const Tensor& predicted, const Tensor& expected) {
  const bool tells = !error.op().empty() && error.code() == ErrorCode::kInvalidArgument &&
                     predicted.has_value() && expected.has_value();
  if (!tells) return error;
  return Error(
      error.code(),
      fmt::format("operand 'predicted' is {} and operand 'expected' is {}; in its call of {}",
                  predicted.type()->to_string(), expected.type()->to_string(), error.text()));
}

// Whether `from` broadcasts to `to` itself. Sizes that are not known do.
bool broadcasts_to(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (int back = 1; fits && back <= from.rank(); ++back) {
    const int64_t size = from[from.rank() - back], wanted = to[to.rank() - back];
    fits = size == wanted || size == 1 || size < 0 || wanted < 0;
  }
  return fits;
}

// Predictions [n, 1] and expectations [n] would make n^2 terms, each of another pair. Shapes that
// do not broadcast at all are reported by the op.
void require_pairs(const Tensor& predicted, const Tensor& expected) {
  const Shape &p = predicted.shape(), &e = expected.shape();
  bool spreads_p = p.rank() < e.rank(), spreads_e = e.rank() < p.rank();
  for (int back = 1; back <= std::min(p.rank(), e.rank()); ++back) {
    const int64_t in_p = p[p.rank() - back], in_e = e[e.rank() - back];
    if (in_p == in_e || in_p < 0 || in_e < 0) continue;
    if (in_p != 1 && in_e != 1) return;
    (in_p == 1 ? spreads_p : spreads_e) = true;
  }
  ETUDE_REQUIRE(!spreads_p || !spreads_e,
                "operand 'predicted' has shape {} and operand 'expected' has shape {}, which would "
                "make terms of shape {}: neither broadcasts to the other. Reshape one of them to "
                "the shape of the other",
                p.to_string(), e.to_string(), broadcast(p, e).to_string());
}

// a log(b), and 0 where a is 0, whatever b is.
Tensor times_log(const Tensor& a, const Tensor& b) { return a * log(where(a == 0.0, 1.0, b)); }

// log cosh d = |d| + log(1 + exp(-2 |d|)) - log 2 = d + softplus(-2 d) - log 2.
Tensor log_cosh(const Tensor& d) { return d + softplus(-2.0 * d) - M_LN2; }

Tensor margin(const Tensor& p, const Tensor& e) { return maximum(1.0 - e * p, 0.0); }

}  // namespace

void internal::require_for_terms(const char* operand, const Tensor& x, const Tensor& terms) {
  ETUDE_REQUIRE(broadcasts_to(x.shape(), terms.shape()),
                "operand '{}' has shape {}, which does not broadcast to the shape {} of the terms. "
                "Reshape it",
                operand, x.shape().to_string(), terms.shape().to_string());
}

Tensor internal::run_loss(const char* name, const Arg& predicted, const Arg& expected,
                          const std::optional<Reduction>& reduction, const char* otherwise,
                          const Tensor& weights, LossTerms terms, Expects expects) {
  const CallScope scope(predicted.where());
  Tensor p, e;
  try {
    p = etude::internal::materialize(predicted);
    ETUDE_REQUIRE(is_floating(p.dtype()),
                  "operand 'predicted' is {}, but must be floating. Cast it with astype",
                  etude::name(p.dtype()));
    e = expected.tensor() != nullptr ? *expected.tensor()
                                     : etude::internal::adapt(expected, p.dtype());
    if (expects == Expects::kPairs) require_pairs(p, e);
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
  if (weights.has_value()) internal::require_for_terms("weights", weights, terms);
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
  return run_loss(
      "nll_loss", log_probabilities, labels, options.reduction, "mean", options.weights,
      [](const Tensor& p, const Tensor& e) {
        const Tensor column = expand_dims(e, {-1});
        return -squeeze(take_along_axis(p, column, {.axis = -1}), {-1});
      },
      internal::Expects::kLabels);
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
