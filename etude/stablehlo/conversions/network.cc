// SPDX-License-Identifier: Apache-2.0
// Softmax, normalisation by own statistics, gates and losses, with their gradients.
#include <cstddef>
#include <cstdint>

#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

Term exponential(const Term& x) { return apply("exponential", x); }

Terms softmax(Call& call) {
  const Term x = call.in(0);
  const Sizes axes = {call.axis()};
  const Term weights = exponential(x - max_keeping(x, axes));
  return {weights / sum_keeping(weights, axes)};
}
Term log_softmax(const Term& x, int64_t axis) {
  const Term shifted = x - max_keeping(x, {axis});
  return shifted - apply("log", sum_keeping(exponential(shifted), {axis}));
}
Terms log_softmax(Call& call) { return {log_softmax(call.in(0), call.axis())}; }
Terms softmax_gradient(Call& call) {
  const Term y = call.in(0), ct = call.in(1);
  return {y * (ct - sum_keeping(y * ct, {call.axis()}))};
}

Term mean_keeping(const Term& x, const Sizes& axes) {
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x.shape()[static_cast<int>(axis)]);
  return sum_keeping(x, axes) / count;
}

// x less its mean, divided by its standard deviation, along some axes.
struct Standard {
  Standard(const Term& x, Sizes along, double epsilon) : axes(std::move(along)) {
    mean = mean_keeping(x, axes);
    const Term away = x - mean;
    variance = mean_keeping(away * away, axes);
    inverse = apply("rsqrt", variance + epsilon);
    h = away * inverse;
  }
  // The cotangent of x for the cotangent of h.
  Term back(const Term& ct) const {
    return inverse * (ct - mean_keeping(ct, axes) - h * mean_keeping(ct * h, axes));
  }

  Sizes axes;
  Term mean, variance, inverse, h;
};

// Absent factors and terms leave x as it is.
Term scaled(const Term& x, const Term& scale, const Term& offset) {
  Term out = x;
  if (!scale.is_absent()) out = out * scale;
  if (!offset.is_absent()) out = out + offset;
  return out;
}

Sizes statistics_axes(const Call& call) { return {call.attrs.flag("columns") ? 0 : 1}; }

Terms standardize(Call& call) {
  const Standard s(call.in(0), statistics_axes(call), call.attrs.real("epsilon"));
  const Shape& kept = call.result(1).shape();
  return {scaled(s.h, call.in(1), call.in(2)), reshape(s.mean, kept), reshape(s.variance, kept)};
}
Terms standardize_by(Call& call) {
  const Term x = call.in(0);
  const Sizes axes = {call.attrs.flag("columns") ? 1 : 0};  // of the statistics
  const Term mean = broadcast(call.in(3), x.shape(), axes);
  const Term variance = broadcast(call.in(4), x.shape(), axes);
  const Term h = (x - mean) * apply("rsqrt", variance + call.attrs.real("epsilon"));
  return {scaled(h, call.in(1), call.in(2))};
}
Terms standardize_gradient(Call& call) {
  const Standard s(call.in(0), statistics_axes(call), call.attrs.real("epsilon"));
  const Term ct = call.in(2);
  return {s.back(scaled(ct, call.in(1), {})), sum(ct * s.h, {0}), sum(ct, {0})};
}

// Groups of adjacent features of [examples, rows, features].
struct Groups {
  explicit Groups(const Call& call) {
    const Shape& x = call.shape(0);
    const int64_t count = call.attrs.integer("groups");
    wide = Shape{x[0], x[1], count, x[2] / count};
    narrow = Shape{count, x[2] / count};
  }
  Term split(const Term& x) const {
    return x.is_absent() ? x : reshape(x, x.rank() == 3 ? wide : narrow);
  }
  Shape wide, narrow;
};
Terms standardize_groups(Call& call) {
  const Groups groups(call);
  const Standard s(groups.split(call.in(0)), {1, 3}, call.attrs.real("epsilon"));
  const Term y = scaled(s.h, groups.split(call.in(1)), groups.split(call.in(2)));
  return {reshape(y, call.shape(0))};
}
Terms standardize_groups_gradient(Call& call) {
  const Groups groups(call);
  const Standard s(groups.split(call.in(0)), {1, 3}, call.attrs.real("epsilon"));
  const Term ct = groups.split(call.in(2));
  const Term dx = s.back(scaled(ct, groups.split(call.in(1)), {}));
  const Shape features{call.shape(0)[2]};
  return {reshape(dx, call.shape(0)), reshape(sum(ct * s.h, {0, 1}), features),
          reshape(sum(ct, {0, 1}), features)};
}

// Four blocks of the last axis.
Terms blocks(const Term& x) {
  const int64_t size = x.shape()[x.rank() - 1] / 4;
  Sizes starts(static_cast<std::size_t>(x.rank()), 0), stops = x.shape().to_vector();
  Terms out;
  for (int64_t i = 0; i < 4; ++i) {
    starts.back() = i * size;
    stops.back() = (i + 1) * size;
    out.push_back(slice(x, starts, stops, Sizes(starts.size(), 1)));
  }
  return out;
}
Terms lstm_gates(Call& call) {
  const Terms sums = blocks(call.in(0));
  const Term in = apply("logistic", sums[0]), given = apply("tanh", sums[1]);
  const Term forget = apply("logistic", sums[2] + call.attrs.real("forget_bias"));
  const Term out = apply("logistic", sums[3]);
  const Term next = forget * call.in(1) + in * given;
  return {out * apply("tanh", next), next, concatenate({in, given, forget, out}, call.rank(0) - 1)};
}
Term of_sigmoid(const Term& y) { return y * (1.0 - y); }
Terms lstm_gates_gradient(Call& call) {
  const Terms gates = blocks(call.in(0));
  const Term state = call.in(1), t = apply("tanh", call.in(2));
  const Term by_output = call.in(3), by_next = call.in(4);
  const Term r = by_next + by_output * gates[3] * (1.0 - t * t);
  const Terms sums = {r * gates[1] * of_sigmoid(gates[0]),
                      r * gates[0] * (1.0 - gates[1] * gates[1]), r * state * of_sigmoid(gates[2]),
                      by_output * t * of_sigmoid(gates[3])};
  return {concatenate(sums, call.rank(0) - 1), r * gates[2]};
}

// The weighted and smoothed probabilities of the labels, for rows of logits.
Term targets(const Call& call) {
  const Term logits = call.in(0), labels = call.in(1);
  const Shape column{call.shape(0)[0], 1};
  const auto classes = static_cast<double>(call.shape(0)[1]);
  const bool are_numbers = is_integer(labels.dtype());
  const Term number = are_numbers ? reshape(convert(labels, kInt64), column) : Term{};
  Term p = labels;
  if (are_numbers) p = number == counted(call.writer, call.shape(0), 1, kInt64);
  p = convert(p, logits.dtype());
  const double smoothing = call.attrs.real("label_smoothing");
  if (smoothing != 0) p = p * (1 - smoothing) + smoothing / classes;
  if (call.has(2)) p = p * convert(call.in(2), logits.dtype());
  if (are_numbers && call.attrs.has("ignore_index")) {
    const auto ignored = static_cast<double>(call.attrs.integer("ignore_index"));
    p = where(number == ignored, call.number(0), p);
  }
  return p;
}
Terms cross_entropy_rows(Call& call) {
  return {-sum(targets(call) * log_softmax(call.in(0), 1), {1})};
}
Terms cross_entropy_gradient(Call& call) {
  const Term q = targets(call), y = exponential(log_softmax(call.in(0), 1));
  const Term ct = reshape(call.in(3), Shape{call.shape(0)[0], 1});
  return {ct * (sum_keeping(q, {1}) * y - q)};
}

}  // namespace

void add_network_conversions(Conversions& to) {
  to.insert(
      to.end(),
      {{.op = "nn.softmax", .dtypes = kFull, .write = softmax},
       {.op = "nn.log_softmax", .dtypes = kFull, .write = log_softmax},
       {.op = "internal.softmax_gradient", .dtypes = kFull, .write = softmax_gradient},
       {.op = "internal.standardize", .dtypes = kFull, .write = standardize},
       {.op = "internal.standardize_by", .dtypes = kFull, .write = standardize_by},
       {.op = "internal.standardize_gradient", .dtypes = kFull, .write = standardize_gradient},
       {.op = "internal.standardize_groups", .dtypes = kFull, .write = standardize_groups},
       {.op = "internal.standardize_groups_gradient",
        .dtypes = kFull,
        .write = standardize_groups_gradient},
       {.op = "internal.lstm_gates", .dtypes = kFull, .write = lstm_gates},
       {.op = "internal.lstm_gates_gradient", .dtypes = kFull, .write = lstm_gates_gradient},
       {.op = "internal.cross_entropy_rows", .dtypes = kFull, .write = cross_entropy_rows},
       {.op = "internal.cross_entropy_grad", .dtypes = kFull, .write = cross_entropy_gradient}});
}

}  // namespace etude::stablehlo::internal
