// SPDX-License-Identifier: Apache-2.0
// Attention without the matrix of scores: over blocks of keys with a running maximum and sum, after
// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, and Dao et al.,
// "FlashAttention", 2022. Work memory is linear in the number of keys. Used by
// ops/network/attention.cc.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

struct AttentionOptions {
  double scale = 1;
  WordOf<bool> causal = false;         // query i sees keys up to i
  WordOf<bool> bias_gradient = false;  // dbias is [.., queries, keys], else empty
  double dropout = 0;                  // of the weights, drawn with the key; 0: no key
};

// Operands: q [.., tq, d], k [.., tk, d], v [.., tk, e]; optionally mask (bool) and bias, which
// broadcast to [.., tq, tk], and a random key (attention_dropout.h). Results: y [.., tq, e], and
// the logsumexp of the scores [.., tq]. For a query that sees no key these are zeros and -infinity.
// dtypes: float32 and float64.
void prepare_attention(const PrepareCall& call, const AttentionOptions& options);
// Operands: q, k, v, mask and bias as above, y, logsumexp, the cotangents of these two (the second
// may be absent), and the key. Results: dq, dk, dv, dbias.
void prepare_attention_gradient(const PrepareCall& call, const AttentionOptions& options);

}  // namespace etude::kernels::cpu
