// SPDX-License-Identifier: Apache-2.0
// Attention with several heads and the layers of transformers, after A. Vaswani et al., "Attention
// is all you need" (2017).
#pragma once

#include <cstdint>
#include <optional>

#include "etude/base/fields.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct AttentionOptions {
  double dropout = 0;   // of the weights, in the training phase
  bool causal = false;  // a query sees keys up to its own position
  bool bias = true;
  bool rotary = false;  // queries and keys are rotated by their positions
  Initializer weight_init = glorot_uniform;

  static constexpr void ranges(const auto& option) {
    option("dropout", &AttentionOptions::dropout, up_to(0, 1));
  }
};

// The keys and values of the positions so far. A copy continues independently. shapes: [n, heads,
// time, dim / heads], absent before the first position.
struct AttentionCache {
  Tensor keys, values;
  int64_t length() const { return keys.has_value() ? keys.shape()[2] : 0; }
};

// Each head computes softmax(q k^T / sqrt(size)) v from its part of the projections; then all heads
// are projected. The attention weights are never stored, with or without dropout, so memory is
// linear in time and keys. shapes: x [n, time, dim], and the same for the result.
//
// throws (construction): kInvalidArgument unless heads divide dim. throws (call): kInvalidArgument
// for an input of another size.
class MultiHeadAttention {
 public:
  MultiHeadAttention(int64_t dim, int64_t heads, const AttentionOptions& options = {},
                     CallSite where = CallSite::here());

  // Self-attention of x.
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const {
    return attend(x, x, {}, where);
  }
  // x [n, time, dim] attends to memory [n, keys, dim]. mask is bool, true where a query may see a
  // key, and broadcasts to [n, heads, time, keys]. Without a mask all queries see all keys. For a
  // query that sees no key, the heads return zeros.
  Tensor attend(const Tensor& x, const Tensor& memory, const Tensor& mask = {},
                CallSite where = CallSite::here()) const;
  // Attends from the next positions x of a sequence to themselves and to the earlier positions in
  // `cache`, then appends x to `cache`. It is always causal, regardless of the options. One call
  // for all positions and a call for each position return equal results, up to rounding.
  Tensor extend(const Tensor& x, AttentionCache& cache, CallSite where = CallSite::here()) const;

  Dense query, key, value, output;
  ETUDE_FIELDS(MultiHeadAttention, query, key, value, output);
  ETUDE_HOST_VALUES(heads_, dropout_, causal_, rotary_);

 private:
  Tensor heads_of(const Dense& projection, const Tensor& x, CallSite where) const;
  Tensor turned(const Tensor& heads, int64_t first) const;
  Tensor joined(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                CallSite where) const;

  int64_t heads_;
  double dropout_;
  bool causal_, rotary_;
};

struct TransformerOptions {
  int64_t hidden = 0;      // of the feed-forward part; 0: four times dim
  double dropout = 0;      // of weights, and of the output of each part
  bool causal = false;     // for the encoder; the decoder is always causal
  bool norm_first = true;  // normalises the input of each part; else each sum
  double epsilon = 1e-5;
  Activation activation = {};  // default: gelu
  bool rotary = false;

  static constexpr void ranges(const auto& option) {
    option("hidden", &TransformerOptions::hidden, at_least(0));
    option("dropout", &TransformerOptions::dropout, up_to(0, 1));
    option("epsilon", &TransformerOptions::epsilon, at_least(0));
  }
};

// Self-attention and two Dense layers, each added to its input. shapes: x and result [n, time,
// dim]. throws: as MultiHeadAttention.
class TransformerEncoderLayer {
 public:
  TransformerEncoderLayer(int64_t dim, int64_t heads, const TransformerOptions& options = {},
                          CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const {
    return encode(x, {}, where);
  }
  // mask: as in MultiHeadAttention::attend.
  Tensor encode(const Tensor& x, const Tensor& mask, CallSite where = CallSite::here()) const;
  // The next positions of a sequence: as MultiHeadAttention::extend.
  Tensor extend(const Tensor& x, AttentionCache& cache, CallSite where = CallSite::here()) const;

  MultiHeadAttention attention;
  LayerNorm attention_norm;
  Dense up, down;
  LayerNorm dense_norm;
  Dropout dropout;
  ETUDE_FIELDS(TransformerEncoderLayer, attention, attention_norm, up, down, dense_norm, dropout);
  ETUDE_HOST_VALUES(norm_first_);

 private:
  template <class Attend>
  Tensor with_attention(const Tensor& x, CallSite where, const Attend& attend) const;

  bool norm_first_;
};

// Causal self-attention, attention to `memory` [n, keys, dim], and two Dense layers, each added to
// its input. throws: as MultiHeadAttention.
class TransformerDecoderLayer {
 public:
  TransformerDecoderLayer(int64_t dim, int64_t heads, const TransformerOptions& options = {},
                          CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, const Tensor& memory, CallSite where = CallSite::here()) const;

  MultiHeadAttention attention;
  LayerNorm attention_norm;
  MultiHeadAttention cross;
  LayerNorm cross_norm;
  Dense up, down;
  LayerNorm dense_norm;
  Dropout dropout;
  ETUDE_FIELDS(TransformerDecoderLayer, attention, attention_norm, cross, cross_norm, up, down,
               dense_norm, dropout);
  ETUDE_HOST_VALUES(norm_first_);

 private:
  bool norm_first_;
};

}  // namespace nn
}  // namespace etude
