// SPDX-License-Identifier: Apache-2.0
// Attention. The forward kernel also returns the sums that its gradient needs; both use work memory
// linear in the length of the sequences. The derivative of the gradient is made of public ops on
// whole matrices of scores. Dropout is a function of a key, so that all of them have the same
// weights without a stored mask.
#include "etude/kernels/cpu/attention/attention.h"

#include <cmath>
#include <limits>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/attention/attention_dropout.h"
#include "etude/ops.h"
#include "etude/ops/families.h"
#include "etude/ops/linalg/matrices.h"
#include "etude/ops/random_keys.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using kernels::cpu::AttentionOptions;
using Ints = std::vector<int64_t>;

// 1 / sqrt(d) unless it is given.
double scale_of(const Attrs& attrs, const Shape& q) {
  const int64_t d = q[q.rank() - 1];
  if (attrs.has("scale")) return attrs.real("scale");
  return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(d, 1)));
}

AttentionOptions attention_options(const PrepareCall& call) {
  return {.scale = scale_of(call.attrs, call.shape(0)),
          .causal = call.attrs.flag("causal"),
          .dropout = call.attrs.real("dropout")};
}

void require_scores(const TypeCall& call, std::size_t i, const Shape& scores) {
  if (!call.has(i)) return;
  bool fits = call.rank(i) <= scores.rank();
  for (int axis = 0; fits && axis < call.rank(i); ++axis) {
    const int64_t size = call.shape(i)[axis];
    fits = size == 1 || size == scores[axis + scores.rank() - call.rank(i)];
  }
  ETUDE_REQUIRE(fits, "operand '{}' has shape {}, which does not broadcast to the scores {}",
                call.op.operand(i).name, call.shape(i).to_string(), scores.to_string());
}

double dropout_of(const Attrs& attrs) {
  const double dropout = attrs.real("dropout");
  ETUDE_REQUIRE(dropout >= 0 && dropout < 1, "dropout is {}, but a probability below 1 is needed",
                dropout);
  return dropout;
}

// A key [k.., 2] for scores: k are sizes of their first leading axes, or 1.
void require_key(const Shape& key, const Shape& scores) {
  const int axes = key.rank() - 1;
  bool fits = axes >= 0 && axes <= scores.rank() - 2 && key[axes] == 2;
  for (int axis = 0; fits && axis < axes; ++axis) {
    fits = key[axis] == 1 || key[axis] == scores[axis];
  }
  ETUDE_REQUIRE(fits,
                "operand 'key' has shape {}, but must be [2], or keys for the first axes of the "
                "scores {}. Use random::key(seed)",
                key.to_string(), scores.to_string());
}

void require_dropout(const TypeCall& call, std::size_t key, const Shape& scores) {
  const double dropout = dropout_of(call.attrs);
  if (call.has(key)) return require_key(call.shape(key), scores);
  ETUDE_REQUIRE(dropout == 0,
                "dropout is {}, but operand 'key' is absent. Pass key = random::key(seed)",
                dropout);
}

Types dropout_type(const TypeCall& call) {
  const Shape shape(call.attrs.ints("shape"));
  const DType dtype = call.attrs.dtype("dtype");
  ETUDE_REQUIRE(shape.rank() >= 2, "shape {} must be [.., queries, keys]", shape.to_string());
  ETUDE_REQUIRE(kRealMatrixDTypes.contains(dtype), "dtype {} is not one of {}", name(dtype),
                describe(kRealMatrixDTypes));
  dropout_of(call.attrs);
  require_key(call.shape(0), shape);
  return {call.make(dtype, shape)};
}

// All but `key`, which is at another place in each record.
void require_operands(const TypeCall& call) {
  const Shape &q = call.shape(0), &k = call.shape(1), &v = call.shape(2);
  for (std::size_t i = 0; i < 3; ++i) {
    ETUDE_REQUIRE(call.rank(i) >= 2, "operand '{}' has shape {}, but must be [.., time, dim]",
                  call.op.operand(i).name, call.shape(i).to_string());
  }
  const int64_t d = q[q.rank() - 1], keys = k[k.rank() - 2];
  ETUDE_REQUIRE(k[k.rank() - 1] == d && leading(q, 2) == leading(k, 2),
                "operand 'q' has shape {} and operand 'k' has shape {}: they must agree on all "
                "axes but the time",
                q.to_string(), k.to_string());
  ETUDE_REQUIRE(leading(v, 1) == leading(k, 1),
                "operand 'k' has shape {} and operand 'v' has shape {}: they must agree on all "
                "axes but the last",
                k.to_string(), v.to_string());
  require_scores(call, 3, with_last(q, 1, {keys}));
  require_scores(call, 4, with_last(q, 1, {keys}));
}

Shape scores_shape(const Shape& q, const Shape& k) { return with_last(q, 1, {k[k.rank() - 2]}); }

Types forward_types(const TypeCall& call, std::size_t key) {
  require_operands(call);
  const Shape &q = call.shape(0), &v = call.shape(2);
  require_dropout(call, key, scores_shape(q, call.shape(1)));
  return {call.make(call.dtype(0), with_last(q, 1, {v[v.rank() - 1]})),
          call.make(call.dtype(0), leading(q, 1))};
}

Types attention_type(const TypeCall& call) { return forward_types(call, 5); }

Types attention_gradient_type(const TypeCall& call) {
  const Types forward = forward_types(call, 9);
  for (const std::size_t i : {5, 6, 7}) {
    const Shape& wanted = forward[i == 6 ? 1 : 0]->shape();
    ETUDE_REQUIRE(call.shape(i) == wanted, "operand '{}' has shape {}, but must be {}",
                  call.op.operand(i).name, call.shape(i).to_string(), wanted.to_string());
  }
  ETUDE_REQUIRE(!call.has(8) || call.shape(8) == forward[1]->shape(),
                "operand 'ct_logsumexp' has shape {}, but must be {}",
                call.has(8) ? call.shape(8).to_string() : "", forward[1]->shape().to_string());
  const Shape scores = scores_shape(call.shape(0), call.shape(1));
  const bool whole = call.attrs.flag("bias_gradient");
  return {call.types[0], call.types[1], call.types[2],
          call.make(call.dtype(0), whole ? scores : Shape{0})};
}

Values attention_vjp(const VjpCall& call) {
  Values out(call.in.size());
  const bool by_bias = call.in.has(4) && call.wants(4);
  std::vector<Tensor> in;
  for (std::size_t i = 0; i < 5; ++i) in.push_back(call.in.has(i) ? call.in[i] : Tensor());
  in.insert(in.end(), {call.out[0], call.out[1]});
  const bool by_y = call.cotangents.has(0), by_log = call.cotangents.has(1);
  in.push_back(by_y ? call.cotangents[0] : internal::full(call.out[0].type(), 0));
  in.push_back(by_log ? call.cotangents[1] : Tensor());
  in.push_back(call.in.has(5) ? call.in[5] : Tensor());
  const Values found = run_all(op<"attention_gradient">(), OperandList(std::span<const Tensor>(in)),
                               {call.attrs.value("scale"), call.attrs.value("causal"),
                                call.attrs.value("dropout"), by_bias});
  for (std::size_t i = 0; i < 3; ++i) {
    if (call.wants(i)) out[i] = found[i];
  }
  if (by_bias) out[4] = internal::sum_to(found[3], call.in[4].shape());
  return out;
}

// Whether each row holds numbers alone.
Tensor finite_rows(const Tensor& x) { return all(isfinite(x), {.axis = -1}); }
Tensor finite_part(const Tensor& x) { return where(isfinite(x), x, 0.0); }

// The matrices of the formulas below, [.., queries, keys]. Where keys may be hidden, products have
// the finite parts of q and k, so that no zero of a hidden pair meets a NaN: it is in the scores of
// the pairs that are seen.
struct Whole {
  Whole(Operands in, const Tensor& ct, const Attrs& attrs)
      : scale(scale_of(attrs, in[0].shape())), q(in[0]), k(in[1]) {
    if (in.has(3)) seen = in[3];
    if (attrs.flag("causal")) {
      const Tensor order = tril(broadcast_to(
          Tensor(true), with_last(q.shape(), 1, {k.shape()[k.rank() - 2]}).to_vector()));
      seen = seen.has_value() ? logical_and(seen, order) : order;
    }
    if (seen.has_value()) q = finite_part(q), k = finite_part(k);
    Tensor scores = scale * matmul(q, k, {.transpose_y = true});
    if (in.has(4)) scores = scores + in[4];
    if (seen.has_value()) {
      const Tensor are_numbers =
          logical_and(expand_dims(finite_rows(in[0]), -1), expand_dims(finite_rows(in[1]), -2));
      scores = where(are_numbers, scores, std::numeric_limits<double>::quiet_NaN());
      // A finite number in the place of -infinity, so that queries that see nothing have no NaN.
      scores = where(seen, scores, -1e30);
    }
    shares = hidden_as_zeros(nn::softmax(scores));
    const double dropout = attrs.real("dropout");
    if (dropout > 0) {
      factors = run(op<"attention_dropout">(), {&in[9]},
                    {IntList(shares.shape()), dropout, shares.dtype()});
    }
    moves = thinned(matmul(ct, in[2], {.transpose_y = true}));
    along = total(shares * moves);
    if (in.has(8)) along = along - expand_dims(in[8], -1);
    slope = shares * (moves - along);
  }
  static Tensor total(const Tensor& x) { return sum(x, {.axis = -1, .keepdims = true}); }
  // Applies dropout to weights, or to their cotangents.
  Tensor thinned(const Tensor& x) const { return factors.has_value() ? factors * x : x; }
  Tensor hidden_as_zeros(const Tensor& x) const {
    return seen.has_value() ? where(seen, x, 0.0) : x;
  }

  double scale;
  Tensor q, k;
  Tensor seen;     // absent where all is
  Tensor factors;  // of dropout; absent without it
  Tensor shares, moves, along, slope;
};

// With shares p, factors z of dropout, m = z ct v^T and s = p (m - sum(p m) + ct of the logarithm),
// the cotangent of the scores, the gradient is dq = scale s k, dk = scale s^T q, dv = (z p)^T ct,
// dbias = s. For cotangents a, b, c, e of these, s has the cotangent w = scale (a k^T + q b^T) + e.
Values attention_gradient_vjp(const VjpCall& call) {
  Values out(call.in.size());
  const Tensor &v = call.in[2], &ct = call.in[7];
  const Whole f(call.in, ct, call.attrs);
  const Tensor &q = f.q, &k = f.k;
  const auto given = [&](std::size_t i) { return call.cotangents.has(i); };
  const auto& cts = call.cotangents;
  Tensor w, to_m, to_p;
  if (given(0)) add_to(w, f.scale * matmul(cts[0], k, {.transpose_y = true}));
  if (given(1)) add_to(w, f.scale * matmul(q, cts[1], {.transpose_y = true}));
  if (given(3) && call.attrs.flag("bias_gradient")) add_to(w, cts[3]);
  if (w.has_value()) {
    const Tensor mean = Whole::total(f.shares * w), away = w - mean;
    if (call.in.has(8) && call.wants(8)) out[8] = squeeze(mean, -1);
    to_m = f.thinned(f.shares * away);
    to_p = away * f.moves - w * f.along;
  }
  if (given(2)) add_to(to_p, f.thinned(matmul(ct, cts[2], {.transpose_y = true})));
  if (!to_p.has_value()) return out;
  const Tensor to_s = f.shares * (to_p - Whole::total(f.shares * to_p));
  if (call.wants(0)) {
    out[0] = f.scale * matmul(to_s, k);
    if (given(1)) add_to(out[0], f.scale * matmul(f.slope, cts[1]));
  }
  if (call.wants(1)) {
    out[1] = f.scale * matmul(to_s, q, {.transpose_x = true});
    if (given(0)) add_to(out[1], f.scale * matmul(f.slope, cts[0], {.transpose_x = true}));
  }
  if (call.wants(2) && to_m.has_value()) out[2] = matmul(to_m, ct, {.transpose_x = true});
  if (call.wants(4) && call.in.has(4)) out[4] = internal::sum_to(to_s, call.in[4].shape());
  if (call.wants(7)) {
    if (to_m.has_value()) add_to(out[7], matmul(to_m, v));
    if (given(2)) add_to(out[7], matmul(f.thinned(f.shares), cts[2]));
  }
  return out;
}

// Operands that are not batched, or have fewer axes than q, are spread or get axes of size 1. So
// does a key: without a batch of its own, all examples have the same weights.
Values attention_batch(const BatchCall& call) {
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    Tensor x = call.in[i];
    if (x.has_value() && call.op.operand(i).name == "key") {
      operands.push_back(call.is_batched(i) ? x : expand_dims(x, 0));
      continue;
    }
    const bool broadcasts = i == 3 || i == 4;
    if (x.has_value() && !broadcasts) x = batching::leading(call, i);
    if (x.has_value() && broadcasts && call.is_batched(i)) {
      x = batching::with_example_shape(x, batching::with_rank(call.shape(i), call.rank(0)));
    }
    operands.push_back(x);
  }
  return batching::call_again(call, operands);
}

// No batched form if dbias, which may be empty, is a result.
Values gradient_batch(const BatchCall& call) {
  if (call.attrs.flag("bias_gradient")) return attention_batch(call);
  Values out = attention_batch(call);
  out[3] = reshape(internal::full(intern_type(out[0].dtype(), Shape{0}), 0), {call.size, 0});
  return out;
}

Tensor widened(Operands in, std::size_t i, const Shape& ahead) {
  const Tensor x = internal::cast(in[i], in[i].dtype() == kFloat64 ? kFloat64 : kFloat32);
  return broadcasted(x, [&] {
    Shape shape = ahead;
    shape.push_back(x.shape()[x.rank() - 2]);
    shape.push_back(x.shape()[x.rank() - 1]);
    return shape;
  }());
}

Values lower_attention(Operands in, const Attrs& attrs) {
  for (std::size_t i = 0; i < 3; ++i) {
    ETUDE_REQUIRE(in[i].rank() >= 2, "operand '{}' has shape {}, but must be [.., time, dim]",
                  i == 0   ? "q"
                  : i == 1 ? "k"
                           : "v",
                  in[i].shape().to_string());
  }
  Shape ahead;
  for (std::size_t i = 0; i < 5; ++i) {
    if (in.has(i) && in[i].rank() > 2) ahead = broadcast(ahead, leading(in[i].shape(), 2));
  }
  const Tensor q = widened(in, 0, ahead), k = widened(in, 1, ahead), v = widened(in, 2, ahead);
  const Tensor mask = in.has(3) ? in[3] : Tensor();
  const Tensor bias = in.has(4) ? internal::cast(in[4], q.dtype()) : Tensor();
  const double dropout = attrs.real("dropout");
  const Tensor key = in.has(5) && dropout != 0 ? in[5] : Tensor();
  const Tensor y = run_all(op<"attention">(), {&q, &k, &v, &mask, &bias, &key},
                           {attrs.value("scale"), attrs.value("causal"), dropout})[0];
  return {internal::cast(y, in[0].dtype())};
}

// A function, since a global object may be initialised after the ops are registered.
std::vector<AttrDef> attention_attrs() {
  return {{"scale", AttrKind::kReal, none}, {"causal", false}, {"dropout", 0.0}};
}

std::vector<std::pair<std::string_view, AttrValue>> sample_attrs(bool causal, double dropout = 0) {
  return {{"scale", 0.5}, {"causal", causal}, {"dropout", dropout}};
}

void define_dropout(Registry& r) {
  const auto attrs = [](const Ints& shape, double dropout) {
    return std::vector<std::pair<std::string_view, AttrValue>>{{"shape", shape},
                                                               {"dropout", dropout}};
  };
  r.define({
      .name = "attention_dropout",
      .space = "internal",
      .doc = "What dropout multiplies attention weights of `shape` [.., queries, keys] by: 0, or 1 "
             "/ (1 - dropout) where random::bernoulli(1 - dropout) of the key is true. Keys [.., "
             "2] are for the first leading axes.",
      .operands = {{"key@host", kUInt64}},
      .attrs = {{"shape", AttrKind::kInts}, {"dropout", AttrKind::kReal}, {"dtype", kFloat32}},
      .type = dropout_type,
      .kernels = {.cpu = kernels::cpu::prepare_attention_dropout},
      .batch = draw_batch,
      .no_derivative = "random numbers are a function of the key alone",
      .samples = {.calls = {{{"uint64[2]"}, attrs({2, 3, 5}, 0.25)},
                            {{"uint64[2,2]"}, attrs({2, 2, 3, 5}, 0.5)},
                            {{"uint64[1,2]"}, attrs({3, 70, 66}, 0.1)}}},
      .errors = {{{"uint64[3]"}, "operand 'key' has shape [3], but must be [2]", attrs({2, 3}, 0)},
                 {{"uint64[2]"}, "shape [3] must be [.., queries, keys]", attrs({3}, 0)},
                 {{"uint64[2]"}, "dropout is -0.5, but a probability", attrs({2, 3}, -0.5)},
                 {{"uint64[2]"},
                  "dtype int32 is not one of",
                  {{"shape", Ints{2, 3}}, {"dropout", 0.5}, {"dtype", kInt32}}}},
  });
}

void define_forward(Registry& r) {
  r.define({
      .name = "attention",
      .space = "internal",
      .doc = "softmax(scale q k^T + bias, where mask is true and, with `causal`, up to the query) "
             "v, and the logarithm of the sum of exponentials of the scores of each query. The "
             "softmax is multiplied by the factors of attention_dropout.",
      .operands = {"q", "k", "v", {"mask?", kBool}, "bias?", {"key?@host", kUInt64}},
      .attrs = attention_attrs(),
      .results = {"y", "logsumexp"},
      .dtypes = kRealMatrixDTypes,
      .type = attention_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_attention(call, attention_options(call));
                      }},
      .vjp = attention_vjp,
      .batch = attention_batch,
      .samples = {.calls = {{{"[3,2]", "[4,2]", "[4,3]", "-", "-", "-"}, sample_attrs(false)},
                            {{"[2,3,2]", "[2,3,2]", "[2,3,2]", "-", "[3]", "-"},
                             sample_attrs(true)},
                            {{"[2,1,2,2]", "[2,1,3,2]", "[2,1,3,2]", "bool[2,1,2,3]", "[1,2,3]",
                              "uint64[2]"},
                             sample_attrs(false, 0.4)},
                            {{"[2,3,2]", "[2,5,2]", "[2,5,2]", "-", "-", "uint64[2,2]"},
                             sample_attrs(false, 0.25)},
                            {{"[70,3]", "[130,3]", "[130,2]", "-", "-", "uint64[2]"},
                             sample_attrs(true, 0.5)}},
                  .ulp = 64},
      .errors = {{{"float32[3,2]", "float32[4,3]", "float32[4,3]", "-", "-", "-"},
                  "they must agree on all axes but the time",
                  sample_attrs(false)},
                 {{"float32[3,2]", "float32[4,2]", "float32[5,3]", "-", "-", "-"},
                  "they must agree on all axes but the last",
                  sample_attrs(false)},
                 {{"float32[3,2]", "float32[4,2]", "float32[4,3]", "bool[4]", "float32[2,4]", "-"},
                  "operand 'bias' has shape [2,4], which does not broadcast to the scores [3,4]",
                  sample_attrs(false)},
                 {{"float32[3,2]", "float32[4,2]", "float32[4,3]", "-", "-", "-"},
                  "dropout is 0.5, but operand 'key' is absent. Pass key = random::key(seed)",
                  sample_attrs(false, 0.5)},
                 {{"float32[3,2]", "float32[4,2]", "float32[4,3]", "-", "-", "uint64[2]"},
                  "dropout is 1, but a probability below 1 is needed",
                  sample_attrs(false, 1.0)},
                 {{"float32[3,2]", "float32[4,2]", "float32[4,3]", "-", "-", "uint64[3,2]"},
                  "operand 'key' has shape [3,2], but must be [2], or keys for the first axes of "
                  "the scores [3,4]. Use random::key(seed)",
                  sample_attrs(false, 0.5)}},
  });
}

void define_gradient(Registry& r) {
  std::vector<AttrDef> attrs = attention_attrs();
  attrs.push_back({"bias_gradient", false});
  auto with_bias = sample_attrs(true, 0.5);
  with_bias.emplace_back("bias_gradient", true);
  r.define({
      .name = "attention_gradient",
      .space = "internal",
      .doc = "The cotangents of q, k and v of attention, and of the scores if bias_gradient asks "
             "for them, from its results and the cotangent of the first. Derivatives take y and "
             "logsumexp for what attention gives.",
      .operands = {"q",
                   "k",
                   "v",
                   {"mask?", kBool},
                   "bias?",
                   "y",
                   "logsumexp",
                   "ct",
                   "ct_logsumexp?",
                   {"key?@host", kUInt64}},
      .attrs = attrs,
      .results = {"dq", "dk", "dv", "dbias"},
      .dtypes = kRealMatrixDTypes,
      .type = attention_gradient_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        AttentionOptions options = attention_options(call);
                        options.bias_gradient = call.attrs.flag("bias_gradient");
                        kernels::cpu::prepare_attention_gradient(call, options);
                      }},
      .vjp = attention_gradient_vjp,
      .batch = gradient_batch,
      .samples = {.calls = {{{"[3,2]", "[4,2]", "[4,3]", "-", "-", "[3,3]", "[3]", "[3,3]", "-",
                              "-"},
                             sample_attrs(false)},
                            {{"[2,3,2]", "[2,4,2]", "[2,4,2]", "bool[3,4]", "[4]", "[2,3,2]",
                              "[2,3]", "[2,3,2]", "[2,3]", "uint64[2]"},
                             with_bias}},
                  .ulp = 64,
                  .no_gradient_check = "y and logsumexp follow from the other operands"},
      .errors = {{{"float32[3,2]", "float32[4,2]", "float32[4,3]", "-", "-", "float32[3,2]",
                   "float32[3]", "float32[3,3]", "-", "-"},
                  "operand 'y' has shape [3,2], but must be [3,3]",
                  sample_attrs(false)}},
  });
}

}  // namespace

void define_attention(Registry& r) {
  define_dropout(r);
  define_forward(r);
  define_gradient(r);
  r.define({
      .name = "scaled_dot_product_attention",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc =
          "softmax(scale q k^T + bias) v for q [.., queries, dim], k [.., keys, dim] and v [.., "
          "keys, out]. Leading axes broadcast. `scale` is 1 / sqrt(dim) by default. Query i sees "
          "the keys where mask [.., queries, keys] is true, and with `causal` only keys up to i. A "
          "query that sees no key has the result 0. With the probability `dropout` a weight "
          "becomes 0; other weights are divided by 1 - dropout. The draws are random::bernoulli(1 "
          "- dropout) with `key`. An absent key is drawn from the generator of the thread. Keys "
          "[.., 2] belong to the first leading axes. The matrix of scores is not stored: memory is "
          "linear in queries and keys, forward and backward, except for the gradient of a bias and "
          "for second derivatives. Half types compute in float32.",
      .operands = {"q", "k", "v", {"mask?", kBool}, "bias?", {"key?@host", kUInt64}},
      .attrs = {{"causal", false}, {"scale", AttrKind::kReal, none}, {"dropout", 0.0}},
      .dtypes = kFloating,
      .lower = lower_attention,
      .samples = {.calls = {{{"[3,2]", "[4,2]", "[4,3]", "-", "-", "-"}},
                            {{"[2,3,2]", "[3,2]", "[2,3,2]", "bool[3,3]", "-", "-"},
                             {{"scale", 0.3}}},
                            {{"[2,2,3,2]", "[2,1,3,2]", "[2,1,3,2]", "-", "[3,3]", "uint64[2]"},
                             {{"causal", true}, {"dropout", 0.3}}}},
                  .ulp = 64},
      .errors = {{{"float32[2]", "float32[3,2]", "float32[3,2]", "-", "-", "-"},
                  "operand 'q' has shape [2], but must be [.., time, dim]"},
                 {{"float32[2,3]", "float32[3,2]", "float32[3,2]", "-", "-", "-"},
                  "they must agree on all axes but the time"},
                 {{"float32[3,2]", "float32[4,2]", "float32[4,3]", "-", "-", "-"},
                  "dropout is 0.5, but operand 'key' is absent",
                  {{"dropout", 0.5}}}},
  });
}

}  // namespace etude::ops
