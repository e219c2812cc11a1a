// SPDX-License-Identifier: Apache-2.0
// Dropout of attention weights. The factor of a weight is a function of a key and of the position
// of the weight. So forward and backward blocks recompute the factors and do not store them. Used
// by attention.cc and ops/network/attention.cc. Other dropout draws with random.h.
#pragma once

#include <cstdint>

#include "etude/base/philox.h"
#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// The factors of the weights under one key. threads: thread-safe.
class DropFactors {
 public:
  // `dropout`: the probability of 0, in [0, 1).
  DropFactors(PhiloxKey key, double dropout);
  // Computes the factors of n weights from row-major position `place` on. A factor is 1 / (1 -
  // dropout) if random::bernoulli(1 - dropout) in float32 is true at that position, else 0. T:
  // float, double.
  //
  // cost: a block of Philox for four weights.
  template <class T>
  void write(T* factors, int64_t place, int64_t n) const;

 private:
  PhiloxKey key_;
  uint32_t kept_below_;  // limit for the high 24 bits of the word of a weight
  double factor_;
};

// The layout of an operand `key` [k.., 2] for weights [leading.., queries, keys]: k are sizes of
// the first leading axes, or 1, and each key covers the weights of the remaining axes.
struct DropKeys {
  DropKeys() = default;
  DropKeys(const Shape& key, const Shape& leading);

  // The key for an index of the leading axes in row-major order.
  PhiloxKey at(const void* keys, int64_t item) const;
  // The index of that matrix among the matrices that share its key.
  int64_t matrix(int64_t item) const { return item % matrices; }

  Shape sizes = {};      // of the leading axes that the keys have
  Shape steps = {};      // strides between keys, by axis
  int64_t matrices = 1;  // under one key
};

// Operand: the key. Attributes: shape [.., queries, keys], dropout, dtype (float32 or float64).
// Result: the factors of all weights.
void prepare_attention_dropout(const PrepareCall& call);

}  // namespace etude::kernels::cpu
