// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/embedding.h"

#include <cmath>
#include <vector>

#include "etude/base/check.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

Tensor table_of(int64_t rows, int64_t size, const Initializer& init) {
  ETUDE_REQUIRE(rows >= 1 && size >= 1, "{} rows of size {}; both must be at least 1", rows, size);
  return init({rows, size});
}

// Row p: sin(p r_i) and cos(p r_i) in turn, r_i = 10000^(-2 i / size).
Tensor waves(int64_t length, int64_t size) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(length * size));
  for (int64_t p = 0; p < length; ++p) {
    for (int64_t i = 0; i < size; ++i) {
      const double rate =
          std::pow(1e4, -static_cast<double>(i / 2 * 2) / static_cast<double>(size));
      const double angle = static_cast<double>(p) * rate;
      values.push_back(static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  }
  return {values, {length, size}};
}

}  // namespace

Embedding::Embedding(int64_t vocabulary, int64_t size, const EmbeddingOptions& options,
                     CallSite where) {
  etude::internal::located("Embedding", where,
                           [&] { table = table_of(vocabulary, size, options.init); });
}
Tensor Embedding::operator()(const Tensor& ids, CallSite where) const {
  return internal::run_layer(this, "Embedding", where, 0, [&] {
    return embedding_lookup({table, where}, ids);
  });
}

EmbeddingBag::EmbeddingBag(int64_t vocabulary, int64_t size, std::string mode,
                           const EmbeddingOptions& options, CallSite where)
    : mode_(std::move(mode)) {
  etude::internal::located("EmbeddingBag", where, [&] {
    ETUDE_REQUIRE(mode_ == "sum" || mode_ == "mean" || mode_ == "max",
                  "mode is '{}', but must be 'sum', 'mean' or 'max'", mode_);
    table = table_of(vocabulary, size, options.init);
  });
}
Tensor EmbeddingBag::operator()(const Tensor& ids, CallSite where) const {
  return internal::run_layer(this, "EmbeddingBag", where, 1, [&] {
    internal::require_input(ids, -1, -1, table, "table");
    const Tensor rows = embedding_lookup({table, where}, ids);
    if (mode_ == "max") return max(rows, {.axis = -2});
    return mode_ == "sum" ? sum(rows, {.axis = -2}) : mean(rows, {.axis = -2});
  });
}

PositionalEmbedding::PositionalEmbedding(int64_t length, int64_t size, bool learned, CallSite where)
    : length_(length), size_(size) {
  etude::internal::located("PositionalEmbedding", where, [&] {
    ETUDE_REQUIRE(length >= 1 && size >= 1, "length {} and size {}; both must be at least 1",
                  length, size);
    ETUDE_REQUIRE(learned || size % 2 == 0, "the size {} is odd, but waves come in pairs", size);
    if (learned) table = random_uniform()({length, size});
  });
}
Tensor PositionalEmbedding::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "PositionalEmbedding", where, 1, [&] {
    internal::require_input(x, -2, size_, table, "table");
    const int64_t time = x.shape()[x.rank() - 2];
    ETUDE_REQUIRE(time <= length_, "the input has shape {} with {} positions, but the layer has {}",
                  x.shape().to_string(), time, length_);
    if (!table.has_value()) return Arg(x, where) + astype(waves(time, size_), x.dtype());
    return Arg(x, where) + slice(table, {0}, {time});
  });
}

RotaryEmbedding::RotaryEmbedding(int64_t size, double base, CallSite where)
    : size_(size), base_(base) {
  etude::internal::located("RotaryEmbedding", where, [&] {
    ETUDE_REQUIRE(size >= 2 && size % 2 == 0, "the size {}; needed is an even one", size);
    ETUDE_REQUIRE(base > 0, "base is {}, but must be above 0", base);
  });
}
Tensor RotaryEmbedding::operator()(const Tensor& x, CallSite where) const {
  return from(x, 0, where);
}
Tensor RotaryEmbedding::from(const Tensor& x, int64_t first, CallSite where) const {
  return internal::run_layer(this, "RotaryEmbedding", where, 3, [&] {
    internal::require_input(x, -2, size_, {}, "");
    const int64_t time = x.shape()[x.rank() - 2];
    const Tensor positions = arange(static_cast<double>(first),
                                    {.stop = static_cast<double>(first + time), .dtype = kInt64});
    return rotary_embedding({x, where}, positions, {.base = base_});
  });
}

}  // namespace etude::nn
