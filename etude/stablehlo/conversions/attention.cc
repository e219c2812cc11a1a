// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient, on whole matrices of scores.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

// x y over the last two axes of both, with these axes contracted, counted from the end.
Term product(const Term& x, const Term& y, int x_axis, int y_axis) {
  const Sizes batch = all_axes(x.rank() - 2);
  return dot(x, y,
             {.x_batch = batch,
              .y_batch = batch,
              .x_contracted = {x.rank() - x_axis},
              .y_contracted = {y.rank() - y_axis}});
}

// The scores [.., queries, keys], and the pairs that are seen.
struct Scores {
  explicit Scores(const Call& call) {
    const Term q = call.in(0), k = call.in(1);
    const auto size = static_cast<double>(q.shape()[q.rank() - 1]);
    scale = call.attrs.has("scale") ? call.attrs.real("scale") : 1 / std::sqrt(size);
    all = product(q * scale, k, 1, 1);
    if (call.has(4)) all = all + call.in(4);
    if (call.attrs.flag("causal")) {
      const Shape pairs{all.shape()[all.rank() - 2], all.shape()[all.rank() - 1]};
      seen = compare("GE", counted(call.writer, pairs, 0, kInt64),
                     counted(call.writer, pairs, 1, kInt64));
    }
    if (call.has(3)) seen = seen.is_absent() ? call.in(3) : seen & call.in(3);
  }
  // x where a pair is seen, else this number.
  Term only_seen(const Term& x, const Term& otherwise) const {
    return seen.is_absent() ? x : where(seen, x, otherwise);
  }

  double scale = 1;
  Term all, seen;
};

// A query that sees nothing gets zeros.
Terms attention(Call& call) {
  const Scores scores(call);
  const Term none = lowest(call.writer, scores.all.dtype());
  const Term shown = scores.only_seen(scores.all, none);
  const Sizes last = {shown.rank() - 1};
  const Term most = max_keeping(shown, last);
  const Term is_empty = most == none;
  const Term weights = apply("exponential", shown - where(is_empty, call.number(0), most));
  const Term sums = where(is_empty, call.number(1), sum_keeping(weights, last));
  const Term y = product(weights / sums, call.in(2), 1, 2);
  const Term logs = where(is_empty, none, apply("log", sums) + most);
  return {y, reshape(logs, call.result(1).shape())};
}

// With shares p, m = ct v^T and s = p (m - sum(p m) + ct of the logarithm): dq = scale s k,
// dk = scale s^T q, dv = p^T ct, dbias = s.
Terms attention_gradient(Call& call) {
  const Scores scores(call);
  const Term q = call.in(0), k = call.in(1), v = call.in(2), ct = call.in(7);
  Sizes column = call.shape(6).to_vector();
  column.push_back(1);
  const Term logs = reshape(call.in(6), Shape(column));
  const Term p = scores.only_seen(apply("exponential", scores.all - logs), call.number(0));
  const Term moves = product(ct, v, 1, 1);
  Term along = sum_keeping(p * moves, {p.rank() - 1});
  if (call.has(8)) along = along - reshape(call.in(8), Shape(column));
  const Term slope = p * (moves - along);
  const bool has_bias = call.attrs.flag("bias_gradient");
  return {product(slope, k, 1, 2) * scores.scale, product(slope, q, 2, 2) * scores.scale,
          product(p, ct, 2, 2), has_bias ? slope : filled(call.writer, 0, q.dtype(), Shape{0})};
}

bool has_no_dropout(const CallFacts& call) { return call.attrs.real("dropout") == 0; }

}  // namespace

void add_attention_conversions(Conversions& to) {
  to.insert(
      to.end(),
      {{.op = "internal.attention", .dtypes = kFull, .write = attention, .fits = has_no_dropout},
       {.op = "internal.attention_gradient",
        .dtypes = kFull,
        .write = attention_gradient,
        .fits = has_no_dropout}});
}

}  // namespace etude::stablehlo::internal
