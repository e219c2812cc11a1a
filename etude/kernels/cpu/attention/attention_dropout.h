// SPDX-License-Identifier: Apache-2.0
// Dropout of attention weights: the factor of a weight is a function of a key and of the place of
// the weight, so that blocks make it anew, forward and backward, and none is stored. Used by
// attention.cc and ops/network/attention.cc. Other dropout draws by random.h.
#pragma once

#include <cstdint>

#include "etude/base/philox.h"
#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Of the weights under one key. thread-safe.
class DropFactors {
 public:
  // `dropout`: the probability of 0, in [0, 1).
  DropFactors(PhiloxKey key, double dropout);
  // Of n weights whose row-major places begin at `place`: 0, or 1 / (1 - dropout) where
  // random::bernoulli(1 - dropout) in float32 is true at that place. T: float, double.
  //
  // cost: a block of Philox for four weights.
  template <class T>
  void write(T* factors, int64_t place, int64_t n) const;

 private:
  PhiloxKey key_;
  uint32_t kept_below_;  // of the high 24 bits of the word of a weight
  double factor_;
};

// Where the keys of an operand `key` [k.., 2] lie for weights [leading.., queries, keys]: k are
// sizes of the first leading axes, or 1, and each key covers the weights behind these axes.
struct DropKeys {
  DropKeys() = default;
  DropKeys(const Shape& key, const Shape& leading);

  // The key of an index of the leading axes in row-major order.
  PhiloxKey at(const void* keys, int64_t item) const;
  // Which of the matrices under its key that index is.
  int64_t matrix(int64_t item) const { return item % matrices; }

  Shape sizes = {};      // of the leading axes that the keys have
  Shape steps = {};      // between keys, by axis
  int64_t matrices = 1;  // under one key
};

// Operand key; attributes shape [.., queries, keys], dropout and dtype, float32 or float64 -> the
// factors of all weights.
void prepare_attention_dropout(const PrepareCall& call);

}  // namespace etude::kernels::cpu
