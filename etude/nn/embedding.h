// SPDX-License-Identifier: Apache-2.0
// Tables of rows: of words, of bags of words, of positions. The gradient of a table that is read by
// numbers is sparse, the rows that were read (Tensor::slices), until something dense meets it.
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

// Rows of a table by their numbers. shapes: ids [..] of any integer dtype, table [vocabulary,
// size], result [.., size]. Negative numbers count from the end.
//
// throws (construction): kInvalidArgument for a size below 1. throws (call): kInvalidArgument for
// ids that are no integers, kOutOfRange for one that is no row.
class Embedding {
 public:
  Embedding(std::int64_t vocabulary, std::int64_t size, const EmbeddingOptions& options = {},
            CallSite where = CallSite::here());
  Tensor operator()(const Tensor& ids, CallSite where = CallSite::here()) const;

  Tensor table;
  ETUDE_FIELDS(Embedding, table);
};

// The sum, the mean or the largest elements of the rows of each bag. shapes: ids [.., bag], result
// [.., size]. throws: as Embedding; kInvalidArgument for another mode, and for ids without an axis.
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

// x [.., time, size] plus the row of each position: learned ones, or, if `learned` is false, the
// sines and cosines of A. Vaswani et al., "Attention is all you need" (2017), section 3.5, which
// are no parameters.
//
// throws (construction): kInvalidArgument for sizes below 1, and for an odd one without learning.
// throws (call): kInvalidArgument for a longer input, or one of another size.
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

// Turns pairs of x [.., time, size] by angles that grow with the position, as the op
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
