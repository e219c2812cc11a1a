// SPDX-License-Identifier: Apache-2.0
// Transformers for text, with random parameters: encoders like BERT, which see the whole text, and
// decoders like GPT-2, which continue a text. Their layers are in attention.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "etude/base/fields.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct TextEncoderOptions {
  int64_t vocabulary = 30522;
  int64_t positions = 512;  // maximum length of a text
  int64_t types = 2;        // kinds of tokens, such as question and answer
  int64_t dim = 768;
  int64_t embedding = 0;  // size of token vectors before a projection to dim; 0: no projection
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t hidden = 0;   // of the feed-forward parts; 0: four times dim
  bool shared = false;  // all layers share one set of parameters
  bool pooler = true;
  double dropout = 0.1;

  static constexpr void ranges(const auto& option) {
    option("vocabulary", &TextEncoderOptions::vocabulary, at_least(1));
    option("positions", &TextEncoderOptions::positions, at_least(1));
    option("types", &TextEncoderOptions::types, at_least(1));
    option("dim", &TextEncoderOptions::dim, at_least(1));
    option("embedding", &TextEncoderOptions::embedding, at_least(0));
    option("layers", &TextEncoderOptions::layers, at_least(1));
    option("heads", &TextEncoderOptions::heads, at_least(1));
    option("hidden", &TextEncoderOptions::hidden, at_least(0));
    option("dropout", &TextEncoderOptions::dropout, up_to(0, 1));
  }
};

// The tokens of texts, padded to one length. shapes: all [n, time].
struct TokenBatch {
  Tensor ids;         // integers
  Tensor types = {};  // integers; absent: all 0
  Tensor mask = {};   // bool, true for tokens; absent: all
};

// J. Devlin et al., "BERT" (2018). shapes: ids [n, time] to [n, time, dim].
//
// throws (construction): as TransformerEncoderLayer. throws (call): kInvalidArgument for ids that
// are not integers [n, time] and for texts longer than `positions`; kOutOfRange for an id out of
// range.
class TextEncoder {
 public:
  explicit TextEncoder(const TextEncoderOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& ids, CallSite where = CallSite::here()) const {
    return encode({.ids = ids}, where);
  }
  Tensor encode(const TokenBatch& tokens, CallSite where = CallSite::here()) const;
  // Returns a vector for each text, computed from its first token: [n, dim].
  // throws: kInvalidArgument without a pooler.
  Tensor pooled(const TokenBatch& tokens, CallSite where = CallSite::here()) const;

  Embedding words, places, kinds;
  LayerNorm norm;
  std::optional<Dense> projection;
  std::vector<TransformerEncoderLayer> layers;
  std::optional<Dense> pooler;
  Dropout dropout;
  ETUDE_FIELDS(TextEncoder, words, places, kinds, norm, projection, layers, pooler, dropout);
  ETUDE_HOST_VALUES(repeats_);

 private:
  int64_t repeats_;  // of each layer
};

struct TextDecoderOptions {
  int64_t vocabulary = 50257;
  int64_t positions = 1024;
  int64_t dim = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  double dropout = 0.1;

  static constexpr void ranges(const auto& option) {
    option("vocabulary", &TextDecoderOptions::vocabulary, at_least(1));
    option("positions", &TextDecoderOptions::positions, at_least(1));
    option("dim", &TextDecoderOptions::dim, at_least(1));
    option("layers", &TextDecoderOptions::layers, at_least(1));
    option("heads", &TextDecoderOptions::heads, at_least(1));
    option("dropout", &TextDecoderOptions::dropout, up_to(0, 1));
  }
};

// A. Radford et al., "Language models are unsupervised multitask learners" (2019): GPT-2. Returns
// logits of the next token at each position: products with the word table. shapes: ids [n, time] to
// [n, time, vocabulary].
//
// throws: as TextEncoder.
class TextDecoder {
 public:
  explicit TextDecoder(const TextDecoderOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& ids, CallSite where = CallSite::here()) const;
  // Processes the next tokens of texts. `caches` holds the earlier tokens, with a cache for each
  // layer; it is initially empty. One call for all tokens and a call for each token return equal
  // logits, up to rounding.
  Tensor extend(const Tensor& ids, std::vector<AttentionCache>& caches,
                CallSite where = CallSite::here()) const;

  Embedding words, places;
  std::vector<TransformerEncoderLayer> layers;
  LayerNorm norm;
  Dropout dropout;
  ETUDE_FIELDS(TextDecoder, words, places, layers, norm, dropout);

 private:
  Tensor embedded(const Tensor& ids, int64_t first, CallSite where) const;
  Tensor logits(const Tensor& x, CallSite where) const;
};

namespace models {

// The published sizes. BERT and RoBERTa: "base" and "large". The discriminator of ELECTRA, which
// has no pooler: also "small". ALBERT: "base", "large" and "xlarge". GPT-2: "small", "medium",
// "large" and "xl".
//
// throws: kInvalidArgument, with the published sizes, for another size.
TextEncoder bert(const std::string& size, CallSite where = CallSite::here());
TextEncoder roberta(const std::string& size, CallSite where = CallSite::here());
TextEncoder albert(const std::string& size, CallSite where = CallSite::here());
TextEncoder electra(const std::string& size, CallSite where = CallSite::here());
TextDecoder gpt2(const std::string& size, CallSite where = CallSite::here());

}  // namespace models
}  // namespace nn
}  // namespace etude
