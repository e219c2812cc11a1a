// SPDX-License-Identifier: Apache-2.0
// Tables of rows: of words, of bags of words, of positions. The gradient of a table is sparse: it
// has only the rows that were read (Tensor::slices), until it is combined with a dense tensor.
#pragma once

#include <string>

#include "etude/base/fields.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct EmbeddingOptions {
  Initializer init = random_uniform(-0.05, 0.05);
};

// Looks up rows of a table. shapes: ids [..] of any integer dtype, table [vocabulary, size], result
// [.., size]. Negative ids count from the end.
//
// throws (construction): kInvalidArgument for a size below 1. throws (call): kInvalidArgument for
// ids that are not integers, kOutOfRange for an id without a row.
class Embedding {
 public:
  Embedding(std::int64_t vocabulary, std::int64_t size, const EmbeddingOptions& options = {},
            CallSite where = CallSite::here());
  Tensor operator()(const Tensor& ids, CallSite where = CallSite::here()) const;

  Tensor table;
  ETUDE_FIELDS(Embedding, table);
};

// The sum, the mean or the elementwise maximum of the rows of each bag. shapes: ids [.., bag],
// result [.., size]. throws: as Embedding; kInvalidArgument for another mode, and for ids without
// an axis.
class EmbeddingBag {
 public:
  EmbeddingBag(std::int64_t vocabulary, std::int64_t size, std::string mode = "mean",
               const EmbeddingOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& ids, CallSite where = CallSite::here()) const;

  Tensor table;
  ETUDE_FIELDS(EmbeddingBag, table);
  ETUDE_HOST_VALUES(mode_);

 private:
  std::string mode_;
};

// Adds to x [.., time, size] the row of each position. The rows are learned, or, if `learned` is
// false, the sines and cosines of A. Vaswani et al., "Attention is all you need" (2017), section
// 3.5, which are not parameters.
//
// throws (construction): kInvalidArgument for sizes below 1, and for an odd one without learning.
// throws (call): kInvalidArgument for a longer input, or for another size of its last axis.
class PositionalEmbedding {
 public:
  PositionalEmbedding(std::int64_t length, std::int64_t size, bool learned = true,
                      CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor table;  // absent unless learned
  ETUDE_FIELDS(PositionalEmbedding, table);
  ETUDE_HOST_VALUES(length_, size_);

 private:
  std::int64_t length_, size_;
};

// Rotates pairs of x [.., time, size] by angles that grow with the position, as the op
// rotary_embedding: for queries and keys of attention. `first` is the position of the first row.
//
// throws (construction): kInvalidArgument for an odd size. throws (call): kInvalidArgument for an
// input of another size.
class RotaryEmbedding {
 public:
  explicit RotaryEmbedding(std::int64_t size, double base = 10000,
                           CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  Tensor from(const Tensor& x, std::int64_t first, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(RotaryEmbedding);
  ETUDE_HOST_VALUES(size_, base_);

 private:
  std::int64_t size_;
  double base_;
};

}  // namespace nn
}  // namespace etude
