// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/attention.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/nn/internal/phase.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

// bool[queries, keys], true where a query may see a key if the last query sees all of them.
Tensor up_to_query(int64_t queries, int64_t keys) {
  return tril(etude::internal::full(intern_type(kBool, {queries, keys}), 1), {.k = keys - queries});
}

int64_t checked_heads(int64_t dim, int64_t heads, const AttentionOptions& options, CallSite where) {
  etude::internal::check_options("MultiHeadAttention", options, where);
  return etude::internal::located("MultiHeadAttention", where, [&] {
    ETUDE_REQUIRE(dim >= 1 && heads >= 1 && dim % heads == 0,
                  "{} heads must divide the size {}; both must be at least 1", heads, dim);
    ETUDE_REQUIRE(!options.rotary || dim / heads % 2 == 0,
                  "rotary positions turn pairs, but each of {} heads of the size {} has {} numbers",
                  heads, dim, dim / heads);
    return heads;
  });
}

Dense projection(int64_t dim, const AttentionOptions& options, CallSite where) {
  return Dense(dim, dim, {.bias = options.bias, .weight_init = options.weight_init}, where);
}

AttentionOptions attention_options(const TransformerOptions& options, bool causal, bool rotary) {
  return {.dropout = options.dropout, .causal = causal, .rotary = rotary};
}

const TransformerOptions& checked(const char* layer, const TransformerOptions& options,
                                  CallSite where) {
  etude::internal::check_options(layer, options, where);
  return options;
}

Dense up_of(int64_t dim, const TransformerOptions& options, CallSite where) {
  const Activation activation =
      options.activation.is_empty() ? Activation(gelu) : options.activation;
  return Dense(dim, options.hidden > 0 ? options.hidden : 4 * dim, {.activation = activation},
               where);
}
Dense down_of(int64_t dim, const TransformerOptions& options, CallSite where) {
  return Dense(options.hidden > 0 ? options.hidden : 4 * dim, dim, {}, where);
}

// x plus the result of a part for x.
template <class Part>
Tensor with_part(const Tensor& x, const LayerNorm& norm, bool norm_first, const Dropout& dropout,
                 CallSite where, const Part& part) {
  if (norm_first) return x + dropout(part(norm(x, where)), where);
  return norm(x + dropout(part(x), where), where);
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t dim, int64_t heads, const AttentionOptions& options,
                                       CallSite where)
    : query((checked_heads(dim, heads, options, where), projection(dim, options, where))),
      key(projection(dim, options, where)),
      value(projection(dim, options, where)),
      output(projection(dim, options, where)),
      heads_(heads),
      dropout_(options.dropout),
      causal_(options.causal),
      rotary_(options.rotary) {}

// [n, time, dim] to [n, heads, time, size].
Tensor MultiHeadAttention::heads_of(const Dense& by, const Tensor& x, CallSite where) const {
  const Tensor y = by(x, where);
  const Shape& s = y.shape();
  return permute_dims(reshape(y, {s[0], s[1], heads_, s[2] / heads_}), {0, 2, 1, 3});
}

Tensor MultiHeadAttention::turned(const Tensor& heads, int64_t first) const {
  if (!rotary_) return heads;
  const Tensor positions =
      arange(static_cast<double>(first),
             {.stop = static_cast<double>(first + heads.shape()[2]), .dtype = kInt64});
  return rotary_embedding(heads, positions);
}

Tensor MultiHeadAttention::joined(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& mask, bool causal, CallSite where) const {
  const bool drops = dropout_ != 0 && internal::is_trained("MultiHeadAttention", where);
  const Tensor heads = scaled_dot_product_attention(
      {q, where}, k, v, {.causal = causal, .dropout = drops ? dropout_ : 0, .mask = mask});
  const Tensor rows = permute_dims(heads, {0, 2, 1, 3});
  const Shape& s = rows.shape();
  return output(reshape(rows, {s[0], s[1], s[2] * s[3]}), where);
}

Tensor MultiHeadAttention::attend(const Tensor& x, const Tensor& memory, const Tensor& mask,
                                  CallSite where) const {
  return internal::run_layer(this, "MultiHeadAttention", where, 0, [&] {
    internal::require_input(x, 3, query.weight.shape()[0], query.weight, "query weight");
    internal::require_input(memory, 3, key.weight.shape()[0], key.weight, "key weight");
    const bool is_self = &x == &memory;
    Tensor seen = mask;
    if (causal_ && !is_self) {
      const Tensor order = up_to_query(x.shape()[1], memory.shape()[1]);
      seen = seen.has_value() ? logical_and(seen, order) : order;
    }
    return joined(turned(heads_of(query, x, where), 0), turned(heads_of(key, memory, where), 0),
                  heads_of(value, memory, where), seen, causal_ && is_self, where);
  });
}

Tensor MultiHeadAttention::extend(const Tensor& x, AttentionCache& cache, CallSite where) const {
  return internal::run_layer(this, "MultiHeadAttention", where, 0, [&] {
    internal::require_input(x, 3, query.weight.shape()[0], query.weight, "query weight");
    const int64_t first = cache.length();
    AttentionCache now{turned(heads_of(key, x, where), first), heads_of(value, x, where)};
    if (first > 0) {
      now.keys = concat({cache.keys, now.keys}, {.axis = 2});
      now.values = concat({cache.values, now.values}, {.axis = 2});
    }
    const Tensor seen = first > 0 ? up_to_query(x.shape()[1], now.length()) : Tensor();
    Tensor y = joined(turned(heads_of(query, x, where), first), now.keys, now.values, seen,
                      first == 0, where);
    cache = std::move(now);
    return y;
  });
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t dim, int64_t heads,
                                                 const TransformerOptions& options, CallSite where)
    : attention(dim, heads,
                attention_options(checked("TransformerEncoderLayer", options, where),
                                  options.causal, options.rotary),
                where),
      attention_norm(dim, {.epsilon = options.epsilon}, where),
      up(up_of(dim, options, where)),
      down(down_of(dim, options, where)),
      dense_norm(dim, {.epsilon = options.epsilon}, where),
      dropout(options.dropout, where),
      norm_first_(options.norm_first) {}

template <class Attend>
Tensor TransformerEncoderLayer::with_attention(const Tensor& x, CallSite where,
                                               const Attend& attend) const {
  return internal::run_layer(this, "TransformerEncoderLayer", where, 0, [&] {
    internal::require_input(x, 3, attention_norm.scale.shape()[0], attention_norm.scale, "scale");
    const Tensor seen = with_part(x, attention_norm, norm_first_, dropout, where, attend);
    return with_part(seen, dense_norm, norm_first_, dropout, where,
                     [&](const Tensor& t) { return down(up(t, where), where); });
  });
}

Tensor TransformerEncoderLayer::encode(const Tensor& x, const Tensor& mask, CallSite where) const {
  return with_attention(x, where,
                        [&](const Tensor& t) { return attention.attend(t, t, mask, where); });
}

Tensor TransformerEncoderLayer::extend(const Tensor& x, AttentionCache& cache,
                                       CallSite where) const {
  return with_attention(x, where,
                        [&](const Tensor& t) { return attention.extend(t, cache, where); });
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t dim, int64_t heads,
                                                 const TransformerOptions& options, CallSite where)
    : attention(dim, heads,
                attention_options(checked("TransformerDecoderLayer", options, where), true,
                                  options.rotary),
                where),
      attention_norm(dim, {.epsilon = options.epsilon}, where),
      cross(dim, heads, attention_options(options, false, false), where),
      cross_norm(dim, {.epsilon = options.epsilon}, where),
      up(up_of(dim, options, where)),
      down(down_of(dim, options, where)),
      dense_norm(dim, {.epsilon = options.epsilon}, where),
      dropout(options.dropout, where),
      norm_first_(options.norm_first) {}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory,
                                           CallSite where) const {
  return internal::run_layer(this, "TransformerDecoderLayer", where, 0, [&] {
    internal::require_input(x, 3, attention_norm.scale.shape()[0], attention_norm.scale, "scale");
    Tensor y = with_part(x, attention_norm, norm_first_, dropout, where,
                         [&](const Tensor& t) { return attention.attend(t, t, {}, where); });
    y = with_part(y, cross_norm, norm_first_, dropout, where,
                  [&](const Tensor& t) { return cross.attend(t, memory, {}, where); });
    return with_part(y, dense_norm, norm_first_, dropout, where,
                     [&](const Tensor& t) { return down(up(t, where), where); });
  });
}

}  // namespace etude::nn
