// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/models/transformers.h"

#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/core/call/call_scope.h"
#include "etude/nn/layers/activations.h"
#include "etude/nn/models/block_makers.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

const etude::internal::Permanent<EmbeddingOptions> kSmallRows{{.init = random_normal(0, 0.02)}};

int64_t embedding_of(const TextEncoderOptions& options) {
  return options.embedding > 0 ? options.embedding : options.dim;
}

const TextEncoderOptions& checked(const TextEncoderOptions& options, CallSite where) {
  etude::internal::check_options("TextEncoder", options, where);
  return options;
}
const TextDecoderOptions& checked(const TextDecoderOptions& options, CallSite where) {
  etude::internal::check_options("TextDecoder", options, where);
  return options;
}

// Rows [first, first + time) of a table of positions.
Tensor rows_at(const Embedding& places, const Tensor& ids, int64_t first, const char* model) {
  ETUDE_REQUIRE(ids.rank() == 2, "{}: ids have the shape {}; needed is [n, time]", model,
                ids.shape().to_string());
  const Shape& s = places.table.shape();
  const int64_t end = first + ids.shape()[1];
  ETUDE_REQUIRE(end <= s[0], "{}: the text has {} tokens, but there are {} positions", model, end,
                s[0]);
  return slice(places.table, {first, 0}, {end, s[1]});
}

Tensor gelu_by_tanh(const Tensor& x) { return gelu(x, {.approximate = "tanh"}); }

}  // namespace

TextEncoder::TextEncoder(const TextEncoderOptions& options, CallSite where)
    : words(checked(options, where).vocabulary, embedding_of(options), *kSmallRows, where),
      places(options.positions, embedding_of(options), *kSmallRows, where),
      kinds(options.types, embedding_of(options), *kSmallRows, where),
      norm(embedding_of(options), {.epsilon = 1e-12}, where),
      dropout(options.dropout, where),
      repeats_(options.shared ? options.layers : 1) {
  if (options.embedding > 0)
    projection.emplace(options.embedding, options.dim, DenseOptions{}, where);
  for (int64_t k = 0; k < (options.shared ? 1 : options.layers); ++k) {
    layers.emplace_back(options.dim, options.heads,
                        TransformerOptions{.hidden = options.hidden,
                                           .dropout = options.dropout,
                                           .norm_first = false,
                                           .epsilon = 1e-12},
                        where);
  }
  if (options.pooler)
    pooler.emplace(options.dim, options.dim, DenseOptions{.activation = nn::tanh}, where);
}

Tensor TextEncoder::encode(const TokenBatch& tokens, CallSite where) const {
  return internal::run_layer(this, "TextEncoder", where, 0, [&] {
    const Tensor at = rows_at(places, tokens.ids, 0, "TextEncoder");
    Tensor x = words(tokens.ids, where) + at;
    x = x + (tokens.types.has_value() ? kinds(tokens.types, where)
                                      : slice(kinds.table, {0, 0}, {1, kinds.table.shape()[1]}));
    x = dropout(norm(x, where), where);
    if (projection) x = (*projection)(x, where);
    // Of shape [n, heads, time, keys]: the same for all heads and all that look.
    const Tensor seen = tokens.mask.has_value() ? expand_dims(tokens.mask, {1, 2}) : Tensor();
    for (const TransformerEncoderLayer& layer : layers) {
      for (int64_t k = 0; k < repeats_; ++k) x = layer.encode(x, seen, where);
    }
    return x;
  });
}

Tensor TextEncoder::pooled(const TokenBatch& tokens, CallSite where) const {
  const Tensor all = encode(tokens, where);
  return internal::run_layer(this, "TextEncoder", where, 0, [&] {
    ETUDE_REQUIRE(pooler.has_value(), "this encoder was made without a pooler; needed is .pooler");
    const Shape& s = all.shape();
    return (*pooler)(reshape(slice(all, {0, 0, 0}, {s[0], 1, s[2]}), {s[0], s[2]}), where);
  });
}

TextDecoder::TextDecoder(const TextDecoderOptions& options, CallSite where)
    : words(checked(options, where).vocabulary, options.dim, *kSmallRows, where),
      places(options.positions, options.dim, *kSmallRows, where),
      norm(options.dim, {.epsilon = 1e-5}, where),
      dropout(options.dropout, where) {
  for (int64_t k = 0; k < options.layers; ++k) {
    layers.emplace_back(
        options.dim, options.heads,
        TransformerOptions{.dropout = options.dropout, .causal = true, .activation = gelu_by_tanh},
        where);
  }
}

Tensor TextDecoder::embedded(const Tensor& ids, int64_t first, CallSite where) const {
  const Tensor at = rows_at(places, ids, first, "TextDecoder");
  return dropout(words(ids, where) + at, where);
}

Tensor TextDecoder::logits(const Tensor& x, CallSite where) const {
  return matmul(norm(x, where), words.table, {.transpose_y = true});
}

Tensor TextDecoder::operator()(const Tensor& ids, CallSite where) const {
  return internal::run_layer(this, "TextDecoder", where, 0, [&] {
    Tensor x = embedded(ids, 0, where);
    for (const TransformerEncoderLayer& layer : layers) x = layer(x, where);
    return logits(x, where);
  });
}

Tensor TextDecoder::extend(const Tensor& ids, std::vector<AttentionCache>& caches,
                           CallSite where) const {
  return internal::run_layer(this, "TextDecoder", where, 0, [&] {
    ETUDE_REQUIRE(caches.empty() || caches.size() == layers.size(),
                  "{} caches for {} layers; needed is one for each, or none at first",
                  caches.size(), layers.size());
    std::vector<AttentionCache> next = caches;
    next.resize(layers.size());
    Tensor x = embedded(ids, next.front().length(), where);
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i].extend(x, next[i], where);
    Tensor y = logits(x, where);
    caches = std::move(next);
    return y;
  });
}

namespace models {
namespace {

template <class Options>
Options published_text(const char* model, const std::string& size,
                       std::initializer_list<std::pair<std::string, Options>> known,
                       CallSite where) {
  return etude::internal::located(
      model, where, [&] { return published<std::string, Options>("size", size, known); });
}

}  // namespace

TextEncoder bert(const std::string& size, CallSite where) {
  const TextEncoderOptions base, large{.dim = 1024, .layers = 24, .heads = 16};
  return TextEncoder(
      published_text<TextEncoderOptions>("bert", size, {{"base", base}, {"large", large}}, where),
      where);
}

TextEncoder roberta(const std::string& size, CallSite where) {
  // Two of the 514 positions are for no token.
  const TextEncoderOptions base{.vocabulary = 50265, .positions = 514, .types = 1};
  TextEncoderOptions large = base;
  large.dim = 1024, large.layers = 24, large.heads = 16;
  return TextEncoder(published_text<TextEncoderOptions>("roberta", size,
                                                        {{"base", base}, {"large", large}}, where),
                     where);
}

TextEncoder albert(const std::string& size, CallSite where) {
  const TextEncoderOptions base{
      .vocabulary = 30000, .embedding = 128, .shared = true, .dropout = 0};
  TextEncoderOptions large = base;
  large.dim = 1024, large.layers = 24, large.heads = 16;
  TextEncoderOptions xlarge = large;
  xlarge.dim = 2048;
  return TextEncoder(
      published_text<TextEncoderOptions>(
          "albert", size, {{"base", base}, {"large", large}, {"xlarge", xlarge}}, where),
      where);
}

TextEncoder electra(const std::string& size, CallSite where) {
  const TextEncoderOptions small{.dim = 256, .embedding = 128, .heads = 4, .pooler = false};
  const TextEncoderOptions base{.pooler = false};
  const TextEncoderOptions large{.dim = 1024, .layers = 24, .heads = 16, .pooler = false};
  return TextEncoder(
      published_text<TextEncoderOptions>(
          "electra", size, {{"small", small}, {"base", base}, {"large", large}}, where),
      where);
}

TextDecoder gpt2(const std::string& size, CallSite where) {
  const TextDecoderOptions small, medium{.dim = 1024, .layers = 24, .heads = 16},
      large{.dim = 1280, .layers = 36, .heads = 20}, xl{.dim = 1600, .layers = 48, .heads = 25};
  return TextDecoder(
      published_text<TextDecoderOptions>(
          "gpt2", size, {{"small", small}, {"medium", medium}, {"large", large}, {"xl", xl}},
          where),
      where);
}

}  // namespace models
}  // namespace etude::nn
