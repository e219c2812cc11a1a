// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/losses/task_losses.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/nn/losses/run_loss.h"
#include "etude/ops.h"
#include "etude/stage/control_flow.h"

namespace etude::nn {
namespace {

using etude::internal::check_options;
using internal::last_sum;
using internal::run_loss;

// The small number keeps the root differentiable where both are equal.
Tensor distance(const Tensor& x, const Tensor& y) { return sqrt(last_sum(square(x - y + 1e-6))); }
Tensor cosine(const Tensor& x, const Tensor& y) {
  return last_sum(x * y) * rsqrt(last_sum(x * x) * last_sum(y * y) + 1e-12);
}
Tensor positive_part(const Tensor& x) { return maximum(x, 0.0); }

// The sum over all axes but the first.
Tensor sample_sum(const Tensor& x) { return sum(reshape(x, {x.shape()[0], -1}), {.axis = 1}); }

}  // namespace

Tensor triplet_margin_loss(const Arg& anchor, const Arg& positive, const Tensor& negative,
                           const MarginOptions& options) {
  check_options("triplet_margin_loss", options, anchor.where());
  return run_loss("triplet_margin_loss", anchor, positive, options.reduction, "mean",
                  options.weights, [&](const Tensor& a, const Tensor& p) {
                    const Tensor near = distance(a, p), far = distance(a, negative);
                    internal::require_for_terms("negative", far, near);
                    return positive_part(near - far + options.margin);
                  });
}
Tensor contrastive_loss(const Arg& x, const Arg& y, const Tensor& same,
                        const MarginOptions& options) {
  check_options("contrastive_loss", options, x.where());
  return run_loss("contrastive_loss", x, y, options.reduction, "mean", options.weights,
                  [&](const Tensor& a, const Tensor& b) {
                    const Tensor d = distance(a, b), is_same = astype(same, d.dtype());
                    internal::require_for_terms("same", same, d);
                    const Tensor near = square(d), far = square(positive_part(options.margin - d));
                    return 0.5 * (is_same * near + (1.0 - is_same) * far);
                  });
}
Tensor cosine_embedding_loss(const Arg& x, const Arg& y, const Tensor& same,
                             const ZeroMarginOptions& options) {
  check_options("cosine_embedding_loss", options, x.where());
  return run_loss("cosine_embedding_loss", x, y, options.reduction, "mean", options.weights,
                  [&](const Tensor& a, const Tensor& b) {
                    const Tensor c = cosine(a, b);
                    internal::require_for_terms("same", same, c);
                    return where(same > 0, 1.0 - c, positive_part(c - options.margin));
                  });
}
Tensor margin_ranking_loss(const Arg& x, const Arg& y, const Tensor& order,
                           const ZeroMarginOptions& options) {
  check_options("margin_ranking_loss", options, x.where());
  return run_loss("margin_ranking_loss", x, y, options.reduction, "mean", options.weights,
                  [&](const Tensor& a, const Tensor& b) {
                    const Tensor d = a - b;
                    internal::require_for_terms("order", order, d);
                    return positive_part(options.margin - astype(order, a.dtype()) * d);
                  });
}
Tensor multi_margin_loss(const Arg& scores, const Arg& labels, const MarginOptions& options) {
  check_options("multi_margin_loss", options, scores.where());
  return run_loss(
      "multi_margin_loss", scores, labels, options.reduction, "mean", options.weights,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor right = take_along_axis(x, expand_dims(y, {-1}), {.axis = -1});
        const int64_t classes = x.shape()[x.rank() - 1];
        const Tensor others = 1.0 - one_hot(y, classes, {.dtype = x.dtype()});
        return mean(others * positive_part(options.margin - right + x), {.axis = -1});
      },
      internal::Expects::kLabels);
}

Tensor info_nce_loss(const Arg& queries, const Arg& keys, const InfoNceOptions& options) {
  check_options("info_nce_loss", options, queries.where());
  return run_loss(
      "info_nce_loss", queries, keys, options.reduction, "mean", {},
      [&](const Tensor& q, const Tensor& k) {
        ETUDE_REQUIRE(q.rank() == 2 && q.shape() == k.shape(),
                      "queries and keys need one shape [n, features]");
        const auto unit = [](const Tensor& x) {
          return x * rsqrt(sum(x * x, {.axis = 1, .keepdims = true}) + 1e-12);
        };
        const Tensor logits = matmul(unit(q), unit(k), {.transpose_y = true}) / options.temperature;
        const Tensor own = arange(static_cast<double>(q.shape()[0]));
        return softmax_cross_entropy(logits, astype(own, kInt64), {.reduction = "none"});
      });
}

Tensor gaussian_nll_loss(const Arg& predicted, const Arg& expected, const Tensor& variance,
                         const GaussianNllOptions& options) {
  check_options("gaussian_nll_loss", options, predicted.where());
  return run_loss("gaussian_nll_loss", predicted, expected, options.reduction, "mean",
                  options.weights, [&](const Tensor& p, const Tensor& e) {
                    const Tensor v = maximum(variance, options.eps), squares = square(p - e);
                    internal::require_for_terms("variance", variance, squares);
                    return 0.5 * (log(v) + squares / v);
                  });
}
Tensor quantile_loss(const Arg& predicted, const Arg& expected, const QuantileOptions& options) {
  check_options("quantile_loss", options, predicted.where());
  return run_loss("quantile_loss", predicted, expected, options.reduction, "mean", options.weights,
                  [&](const Tensor& p, const Tensor& e) {
                    const Tensor d = e - p;
                    return maximum(options.quantile * d, (options.quantile - 1) * d);
                  });
}
Tensor smooth_l1_loss(const Arg& predicted, const Arg& expected, const SmoothL1Options& options) {
  check_options("smooth_l1_loss", options, predicted.where());
  return run_loss("smooth_l1_loss", predicted, expected, options.reduction, "mean", options.weights,
                  [&](const Tensor& p, const Tensor& e) {
                    const Tensor d = abs(p - e), bent = minimum(d, options.beta);
                    return bent * (d - 0.5 * bent) / options.beta;
                  });
}

Tensor dice_loss(const Arg& predicted, const Arg& expected, const OverlapOptions& options) {
  check_options("dice_loss", options, predicted.where());
  return run_loss("dice_loss", predicted, expected, options.reduction, "mean", options.weights,
                  [&](const Tensor& p, const Tensor& e) {
                    const Tensor both = sample_sum(p * e), all = sample_sum(p) + sample_sum(e);
                    return 1.0 - (2.0 * both + options.smooth) / (all + options.smooth);
                  });
}
Tensor iou_loss(const Arg& predicted, const Arg& expected, const OverlapOptions& options) {
  check_options("iou_loss", options, predicted.where());
  return run_loss("iou_loss", predicted, expected, options.reduction, "mean", options.weights,
                  [&](const Tensor& p, const Tensor& e) {
                    const Tensor both = sample_sum(p * e), all = sample_sum(p) + sample_sum(e);
                    return 1.0 - (both + options.smooth) / (all - both + options.smooth);
                  });
}

Tensor wasserstein_loss(const Arg& scores, const Arg& expected, const LossOptions& options) {
  return run_loss("wasserstein_loss", scores, expected, options.reduction, "mean", options.weights,
                  [](const Tensor& p, const Tensor& e) { return -(p * e); });
}

Tensor perceptual_loss(const Arg& predicted, const Arg& expected, const Features& features) {
  return run_loss("perceptual_loss", predicted, expected, {}, "sum", {},
                  [&](const Tensor& p, const Tensor& e) {
                    const std::vector<Tensor> of_p = features(p), of_e = features(e);
                    ETUDE_REQUIRE(!of_p.empty() && of_p.size() == of_e.size(),
                                  "there are {} features of the predicted and {} of the expected "
                                  "values, but both must have the same number, at least 1",
                                  of_p.size(), of_e.size());
                    std::vector<Tensor> terms;
                    for (std::size_t i = 0; i < of_p.size(); ++i) {
                      terms.push_back(mean(squared_difference(of_p[i], of_e[i])));
                    }
                    return stack(terms);
                  });
}

namespace {

// In place of log 0: its sums stay finite, and so do derivatives.
constexpr double kNever = -1e30;

Tensor filled(const Shape& shape, double value, DType dtype) {
  return etude::internal::full(intern_type(dtype, shape), value);
}

// x with its columns moved to the right; the new columns are kNever.
Tensor shifted(const Tensor& x, int64_t by) {
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  if (by >= columns) return full_like(x, kNever);
  const Tensor edge = filled({rows, by}, kNever, x.dtype());
  return concat({edge, slice(x, {0, 0}, {rows, columns - by})}, {.axis = 1});
}

// Lengths as int64 [n, 1], all `most` where absent.
Tensor lengths_of(const char* name, const Tensor& given, int64_t n, int64_t most) {
  if (!given.has_value()) return filled({n, 1}, static_cast<double>(most), kInt64);
  ETUDE_REQUIRE(is_integer(given.dtype()) && given.shape() == Shape({n}),
                "{} are {}, but need integers [{}]", name, given.type()->to_string(), n);
  return expand_dims(astype(given, kInt64), {1});
}

struct CtcStep {
  Tensor emitted;  // [n, places]: log probabilities of the classes of the places
  Tensor number;   // of the step
};

// Log probabilities by place: 2 u + 1 for label u, even ones for the blanks around.
Tensor ctc_terms(const Tensor& logits, const Tensor& labels, const CtcLossOptions& options) {
  const int64_t n = logits.shape()[0], steps = logits.shape()[1];
  const int64_t most = labels.shape()[1], places = 2 * most + 1;
  const Tensor until = lengths_of("logit_lengths", options.logit_lengths, n, steps);
  const Tensor length = lengths_of("label_lengths", options.label_lengths, n, most);
  const Tensor place = expand_dims(astype(arange(static_cast<double>(places)), kInt64), {0});
  // Places beyond the labels of a row are never reached.
  const Tensor index = expand_dims(astype(arange(static_cast<double>(most)), kInt64), {0});
  const Tensor known = where(index < length, astype(labels, kInt64), options.blank);
  const Tensor blanks = full_like(known, options.blank);
  Tensor spelled = reshape(stack({blanks, known}, {.axis = 2}), {n, 2 * most});
  spelled =
      concat({spelled, filled({n, 1}, static_cast<double>(options.blank), kInt64)}, {.axis = 1});
  // A label may follow the label before it, unless the two are the same.
  const Tensor before = concat({filled({n, 2}, -1, kInt64), spelled}, {.axis = 1});
  const Tensor may_skip =
      logical_and(spelled != options.blank, spelled != slice(before, {0, 0}, {n, places}));
  const Tensor log_p = permute_dims(log_softmax(logits), {1, 0, 2});
  const Tensor emitted = take_along_axis(log_p, expand_dims(spelled, {0}), {.axis = 2});
  const Tensor start = where(broadcast_to(place, {n, places}) == 0, 0.0,
                             filled({n, places}, kNever, logits.dtype()));
  const CtcStep all{emitted, astype(arange(static_cast<double>(steps)), kInt64)};
  const Tensor last = fold(
      [&](const Tensor& reached, const CtcStep& step) {
        // At the first step nothing has been left yet: both first places are reached from 0.
        const Tensor skipped = where(may_skip, shifted(reached, 2), kNever);
        const Tensor ways = logaddexp(logaddexp(reached, shifted(reached, 1)), skipped);
        return where(step.number < until, ways + step.emitted, reached);
      },
      start, all);
  const Tensor end = take_along_axis(last, 2 * length, {.axis = 1});
  const Tensor label_end = take_along_axis(last, maximum(2 * length - 1, 0), {.axis = 1});
  const Tensor both = logaddexp(end, where(length > 0, label_end, kNever));
  const Tensor loss = -squeeze(both, {1});
  return where(loss > -0.1 * kNever, INFINITY, loss);
}

}  // namespace

Tensor ctc_loss(const Arg& logits, const Arg& labels, const CtcLossOptions& options) {
  check_options("ctc_loss", options, logits.where());
  return run_loss("ctc_loss", logits, labels, options.reduction, "mean", {},
                  [&](const Tensor& x, const Tensor& y) {
                    const bool is_one = x.rank() == 2 && y.rank() == 1;
                    ETUDE_REQUIRE(
                        is_integer(y.dtype()) && (is_one || (x.rank() == 3 && y.rank() == 2 &&
                                                             x.shape()[0] == y.shape()[0])),
                        "logits have shape {} and labels are {}, but need [n, steps, "
                        "classes] and integers [n, labels], or both without n",
                        x.shape().to_string(), y.type()->to_string());
                    const int64_t classes = x.shape()[x.rank() - 1];
                    ETUDE_REQUIRE(options.blank < classes, "blank is {}, but there are {} classes",
                                  options.blank, classes);
                    return is_one ? ctc_terms(expand_dims(x, {0}), expand_dims(y, {0}), options)
                                  : ctc_terms(x, y, options);
                  });
}

Tensor balanced_class_weights(const Tensor& labels, int64_t classes, CallSite where) {
  return etude::internal::located("balanced_class_weights", where, [&] {
    const Tensor ids = astype(reshape(labels, {-1}), kInt64);
    for (const int64_t id : ids.to_vector<int64_t>()) {
      ETUDE_REQUIRE_CODE(kOutOfRange, id >= 0 && id < classes, "label {} is outside [0, {})", id,
                         classes);
    }
    const Tensor counts = segment_sum(ones_like(astype(ids, kFloat32)), ids, classes);
    const double n = static_cast<double>(ids.size()) / static_cast<double>(classes);
    return etude::where(counts > 0.0, n / maximum(counts, 1.0), 0.0);
  });
}

}  // namespace etude::nn
