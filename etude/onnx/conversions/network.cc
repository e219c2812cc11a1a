// SPDX-License-Identifier: Apache-2.0
// Matrix products, softmax, attention, gates and losses.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "etude/onnx/conversions.h"

namespace etude::onnx::internal {
namespace {

Term swapped(Call& call, const Term& x, int rank) {
  std::vector<int64_t> axes = all_axes(rank);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return call.transpose(x, axes);
}

std::vector<Term> matmul(Call& call) {
  Term x = call.in(0), y = call.in(1);
  if (call.attrs.flag("transpose_x") && call.rank(0) > 1) x = swapped(call, x, call.rank(0));
  if (call.attrs.flag("transpose_y") && call.rank(1) > 1) y = swapped(call, y, call.rank(1));
  return {call.node("MatMul", {x, y})};
}

template <bool is_log>
std::vector<Term> softmax(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  return {call.node(is_log ? "LogSoftmax" : "Softmax", {call.in(0)}, {{"axis", axis}})};
}

std::vector<Term> lstm_gates(Call& call) {
  const Term sums = call.in(0), state = call.in(1);
  const int64_t last = call.rank(0) - 1, size = call.shape(1)[call.rank(1) - 1];
  const std::vector<Term> blocks = call.nodes("Split", {sums, call.ints({size, size, size, size})},
                                              {{"axis", last}}, std::vector<DType>(4, sums.dtype));
  const Term in = apply("Sigmoid", blocks[0]), given = apply("Tanh", blocks[1]);
  const Term forget = apply("Sigmoid", blocks[2] + call.attrs.real("forget_bias"));
  const Term out = apply("Sigmoid", blocks[3]);
  const Term next = forget * state + in * given;
  return {out * apply("Tanh", next), next,
          call.node("Concat", {in, given, forget, out}, {{"axis", last}})};
}

Term max_over(const Term& x, const std::vector<int64_t>& axes) {
  Call& call = *x.call;
  if (call.opset() >= 18) return call.node("ReduceMax", {x, call.ints(axes)});
  return call.node("ReduceMax", {x}, {{"axes", axes}});
}

// softmax(scale q k^T + bias) v and the logarithms of the sums of exponentials. Scores that cannot
// be minus infinity need no care, and Softmax is an operator that runtimes fuse.
std::vector<Term> attention_of_scores(Call& call, const Term& scores, const Term& v) {
  const std::vector<int64_t> axes = {call.rank(0) - 1};
  const Term most = max_over(scores, axes);
  const Term sums = call.node("ReduceSum", {apply("Exp", scores - most), call.ints(axes)});
  const Term logs = apply("Log", sums) + most;
  const Term weights = call.node("Softmax", {scores}, {{"axis", axes[0]}});
  return {call.node("MatMul", {weights, v}),
          call.reshape(logs, call.result(1).shape().to_vector())};
}
// The same for scores of minus infinity. A query without a key gets zeros.
std::vector<Term> attention_of_hidden(Call& call, const Term& scores, const Term& v) {
  const std::vector<int64_t> axes = {call.rank(0) - 1};
  const Term none = call.number(-std::numeric_limits<double>::infinity(), v.dtype);
  const Term most = max_over(scores, axes);
  const Term is_empty = most == none;
  const Term shifted = scores - where(is_empty, call.number(0, v.dtype), most);
  const Term weights = apply("Exp", shifted);
  const Term sums = call.node("ReduceSum", {weights, call.ints(axes)});
  const Term safe = where(is_empty, call.number(1, v.dtype), sums);
  const Term logs = where(is_empty, none, apply("Log", safe) + most);
  return {call.node("MatMul", {weights / safe, v}),
          call.reshape(logs, call.result(1).shape().to_vector())};
}
std::vector<Term> attention(Call& call) {
  const Term q = call.in(0), k = call.in(1), v = call.in(2);
  const int rank = call.rank(0);
  const int64_t queries = call.shape(0)[rank - 2], keys = call.shape(1)[rank - 2];
  const double scale = call.attrs.has("scale")
                           ? call.attrs.real("scale")
                           : 1 / std::sqrt(static_cast<double>(call.shape(0)[rank - 1]));
  Term scores = call.node("MatMul", {q * scale, swapped(call, k, rank)});
  const bool is_causal = call.attrs.flag("causal");
  if (!call.has(3) && !call.has(4) && !is_causal) return attention_of_scores(call, scores, v);
  if (call.has(4)) scores = scores + call.in(4);
  const Term none = call.number(-std::numeric_limits<double>::infinity(), q.dtype);
  if (is_causal) {
    const auto counted = [&](int64_t n, const std::vector<int64_t>& sizes) {
      const auto whole = [&](int64_t i) { return call.reshape(call.ints({i}), {}); };
      return call.reshape(call.node("Range", {whole(0), whole(n), whole(1)}), sizes);
    };
    const Term is_later = counted(queries, {queries, 1}) < counted(keys, {1, keys});
    scores = where(is_later, none, scores);
  }
  if (call.has(3)) scores = where(call.in(3), scores, none);
  return attention_of_hidden(call, scores, v);
}
bool has_no_dropout(const CallFacts& call) { return call.attrs.real("dropout") == 0; }

// The negative sum of p log softmax, for the weighted probabilities p of the labels.
std::vector<Term> cross_entropy_rows(Call& call) {
  const Term logits = call.in(0), labels = call.in(1);
  const int64_t rows = call.shape(0)[0], classes = call.shape(0)[1];
  const Term logs = call.node("LogSoftmax", {logits}, {{"axis", int64_t{1}}});
  const bool are_numbers = is_integer(labels.dtype);
  Term p = labels, whole;
  if (are_numbers) {
    whole = call.unsqueeze(call.cast(labels, kInt64), {1});
    const auto number = [&](int64_t n) { return call.reshape(call.ints({n}), {}); };
    const Term places = call.node("Range", {number(0), number(classes), number(1)});
    p = whole == places;
  }
  p = call.cast(p, logits.dtype);
  const double smoothing = call.attrs.real("label_smoothing");
  if (smoothing != 0) p = p * (1 - smoothing) + smoothing / static_cast<double>(classes);
  if (call.has(2)) p = p * call.cast(call.in(2), logits.dtype);
  Term loss = apply("Neg", call.node("ReduceSum", {p * logs, call.ints({1})}));
  if (are_numbers && call.attrs.has("ignore_index")) {
    const auto ignored = static_cast<double>(call.attrs.integer("ignore_index"));
    loss = where(whole == ignored, call.number(0, logits.dtype), loss);
  }
  return {call.reshape(loss, {rows})};
}

}  // namespace

void add_network_conversions(Conversions& to) {
  constexpr DTypeSet kFloats = kHalfToDouble, kFull = DTypeSet(kFloat32) | kFloat64;
  to.insert(
      to.end(),
      {{.op = "matmul", .dtypes = kNumbers, .write = matmul},
       {.op = "linalg.det", .node = "Det", .dtypes = kFull},
       {.op = "nn.softmax", .dtypes = kFloats, .write = softmax<false>},
       {.op = "nn.log_softmax", .dtypes = kFloats, .write = softmax<true>},
       {.op = "internal.lstm_gates", .dtypes = kFull, .write = lstm_gates, .is_formula = true},
       {.op = "internal.attention",
        .dtypes = kFull,
        .write = attention,
        .fits = has_no_dropout,
        .is_formula = true},
       {.op = "internal.cross_entropy_rows",
        .dtypes = kFull,
        .write = cross_entropy_rows,
        .is_formula = true}});
}

}  // namespace etude::onnx::internal
