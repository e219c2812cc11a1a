// SPDX-License-Identifier: Apache-2.0
// Layers over features: dense, normalisation, embeddings, noise, attention, blocks.
#include "etude/kinds/table.h"
#include "etude/nn/layers/adapters.h"
#include "etude/nn/layers/adaptive_softmax.h"
#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/blocks.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/noise.h"
#include "etude/nn/layers/norm.h"

namespace etude::kinds {
namespace {

using nn::Activation;
using std::vector;

Description dense(int64_t in, int64_t out) { return {"nn.Dense", {{"in", in}, {"out", out}}}; }

void add_simple(Rows layers) {
  layers.add<nn::Dense, nn::DenseOptions, int64_t, int64_t>("nn.Dense", {"in", "out"}, {3, 4});
  layers.add<nn::Bilinear, nn::DenseOptions, int64_t, int64_t, int64_t>(
      "nn.Bilinear", {"left", "right", "out"}, {3, 2, 4});
  layers.add<nn::Lambda, NoOptions, Activation>("nn.Lambda", {"function"}, {"relu"});
  layers.add<nn::Flatten>("nn.Flatten");
  layers.add<nn::Reshape, NoOptions, vector<int64_t>>("nn.Reshape", {"shape"}, {{2, -1}});
  layers.add<nn::Permute, NoOptions, vector<int64_t>>("nn.Permute", {"axes"}, {{2, 1}});
  layers.add<nn::RepeatVector, NoOptions, int64_t>("nn.RepeatVector", {"times"}, {2});
  layers.add<nn::Masking, NoOptions, double>("nn.Masking", {{"value", 0}});
  layers.add<nn::PReLU, NoOptions, int64_t, nn::Initializer>(
      "nn.PReLU", {{"features", 1}, {"slope_init", Description{"nn.constant", {{"value", 0.25}}}}});
  layers.add<nn::Dropout, NoOptions, double>("nn.Dropout", {"p"}, {0.5});
  layers.add<nn::GaussianNoise, NoOptions, double>("nn.GaussianNoise", {"stddev"}, {0.5});
  layers.add<nn::GaussianDropout, NoOptions, double>("nn.GaussianDropout", {"p"}, {0.5});
  layers.add<nn::AlphaDropout, NoOptions, double>("nn.AlphaDropout", {"p"}, {0.5});
  layers.add<nn::SpatialDropout, NoOptions, double>("nn.SpatialDropout", {"p"}, {0.5});
  layers.add<nn::StochasticDepth, NoOptions, double>("nn.StochasticDepth", {"p"}, {0.5});
}

void add_norms(Rows layers) {
  layers.add<nn::BatchNorm, nn::BatchNormOptions, int64_t>("nn.BatchNorm", {"features"}, {3});
  layers.add<nn::LayerNorm, nn::LayerNormOptions, IntList>("nn.LayerNorm", {"shape"}, {3});
  layers.add<nn::RMSNorm, NoOptions, int64_t, double>("nn.RMSNorm", {"size", {"epsilon", 0.001}},
                                                      {3});
  layers.add<nn::GroupNorm, nn::GroupNormOptions, int64_t, int64_t>("nn.GroupNorm",
                                                                    {"features", "groups"}, {4, 2});
  layers.add<nn::InstanceNorm, nn::GroupNormOptions, int64_t>("nn.InstanceNorm", {"features"}, {3});
}

void add_embeddings(Rows layers) {
  layers.add<nn::Embedding, nn::EmbeddingOptions, int64_t, int64_t>("nn.Embedding",
                                                                    {"vocabulary", "size"}, {5, 3});
  layers.add<nn::EmbeddingBag, nn::EmbeddingOptions, int64_t, int64_t, std::string>(
      "nn.EmbeddingBag", {"vocabulary", "size", {"mode", "mean"}}, {5, 3});
  layers.add<nn::PositionalEmbedding, NoOptions, int64_t, int64_t, bool>(
      "nn.PositionalEmbedding", {"length", "size", {"learned", true}}, {5, 4});
  layers.add<nn::RotaryEmbedding, NoOptions, int64_t, double>("nn.RotaryEmbedding",
                                                              {"size", {"base", 10000}}, {4});
  layers.add<nn::AdaptiveSoftmax, nn::AdaptiveSoftmaxOptions, int64_t, int64_t, vector<int64_t>>(
      "nn.AdaptiveSoftmax", {"features", "classes", "cutoffs"}, {4, 6, {3}});
}

void add_blocks(Rows layers) {
  layers.add<nn::MultiHeadAttention, nn::AttentionOptions, int64_t, int64_t>(
      "nn.MultiHeadAttention", {"dim", "heads"}, {4, 2});
  layers.add<nn::TransformerEncoderLayer, nn::TransformerOptions, int64_t, int64_t>(
      "nn.TransformerEncoderLayer", {"dim", "heads"}, {4, 2});
  layers.add<nn::TransformerDecoderLayer, nn::TransformerOptions, int64_t, int64_t>(
      "nn.TransformerDecoderLayer", {"dim", "heads"}, {4, 2});
  layers.add<nn::MLP, nn::MLPOptions, IntList>("nn.MLP", {"sizes"}, {{3, 5, 2}});
  layers.add<nn::SqueezeExcite, nn::SqueezeExciteOptions, int64_t, int64_t>(
      "nn.SqueezeExcite", {"channels", "squeezed"}, {4, 2});
  layers.add<nn::ResidualBlock, nn::ResidualOptions, int64_t, int64_t>("nn.ResidualBlock",
                                                                       {"in", "out"}, {2, 2});
  layers.add<nn::InvertedResidual, nn::InvertedResidualOptions, int64_t, int64_t>(
      "nn.InvertedResidual", {"in", "out"}, {2, 2});
  layers.add<nn::PatchEmbedding, NoOptions, int64_t, int64_t, int64_t>(
      "nn.PatchEmbedding", {"patch", "in", "dim"}, {2, 3, 4});
  layers.add<nn::LoRA, NoOptions, nn::Dense, int64_t, double>(
      "nn.LoRA", {"base_layer", "rank", {"alpha", 1}}, {dense(3, 4), 2});
  layers.add<nn::QuantizedDense, NoOptions, nn::Dense>("nn.QuantizedDense", {"layer"},
                                                       {dense(3, 4)});
}

}  // namespace

void add_layers(Table& table) {
  const Rows layers(table, Group::kLayer);
  add_simple(layers);
  add_norms(layers);
  add_embeddings(layers);
  add_blocks(layers);
  Rows(table, Group::kRecord)
      .add<nn::SqueezeExciteOptions, nn::SqueezeExciteOptions>("nn.SqueezeExciteOptions");
  Rows(table, Group::kRecord).add<nn::PrecisionPolicy, nn::PrecisionPolicy>("nn.PrecisionPolicy");
}

}  // namespace etude::kinds
