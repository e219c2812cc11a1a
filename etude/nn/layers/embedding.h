// SPDX-License-Identifier: Apache-2.0
// Layers with a table of rows: embeddings of words, of bags of words, and of positions. The
// gradient of a table is sparse: it stores only the rows that were read (Tensor::slices). It
// becomes dense when it is combined with a dense tensor.
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
  Embedding(int64_t vocabulary, int64_t size, const EmbeddingOptions& options = {},
            CallSite where = CallSite::here());
  Tensor operator()(const Tensor& ids, CallSite where = CallSite::here()) const;

  Tensor table;
  ETUDE_FIELDS(Embedding, table);
};

// Returns the sum, the mean or the elementwise maximum of the rows of each bag. `mode` is "sum",
// "mean" or "max". shapes: ids [.., bag], result [.., size].
//
// throws (construction): as Embedding; kInvalidArgument for an unknown mode. throws (call): as
// Embedding; kInvalidArgument for ids of rank 0.
class EmbeddingBag {
 public:
  EmbeddingBag(int64_t vocabulary, int64_t size, std::string mode = "mean",
               const EmbeddingOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& ids, CallSite where = CallSite::here()) const;

  Tensor table;
  ETUDE_FIELDS(EmbeddingBag, table);
  ETUDE_HOST_VALUES(mode_);

 private:
  std::string mode_;
};

// Adds a row for each position to x [.., time, size]. If `learned` is true, the rows are
// parameters. Otherwise they are the fixed sines and cosines of A. Vaswani et al., "Attention is
// all you need" (2017), section 3.5.
//
// throws (construction): kInvalidArgument for a length or size below 1, and for an odd size if
// `learned` is false. throws (call): kInvalidArgument if time exceeds the length, or if the last
// axis of x has another size than the layer.
class PositionalEmbedding {
 public:
  PositionalEmbedding(int64_t length, int64_t size, bool learned = true,
                      CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor table;  // absent unless learned
  ETUDE_FIELDS(PositionalEmbedding, table);
  ETUDE_HOST_VALUES(length_, size_);

 private:
  int64_t length_, size_;
};

// Rotates pairs of elements of x [.., time, size] by angles that grow with the position, as the op
// rotary_embedding does. Apply it to the queries and keys of attention. `first` is the position of
// the first row.
//
// throws (construction): kInvalidArgument for a size that is odd or below 2, and for a base that is
// not above 0. throws (call): kInvalidArgument if the last axis of x has another size than the
// layer.
class RotaryEmbedding {
 public:
  explicit RotaryEmbedding(int64_t size, double base = 10000, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  Tensor from(const Tensor& x, int64_t first, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(RotaryEmbedding);
  ETUDE_HOST_VALUES(size_, base_);

 private:
  int64_t size_;
  double base_;
};

}  // namespace nn
}  // namespace etude
