// SPDX-License-Identifier: Apache-2.0
// Flattening of the usual layers as arguments of staged functions, compiled into the library so
// that programs need not compile it. Other layers work as well; the program then compiles their
// flattening.
#pragma once

#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/blocks.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/layers/pooling.h"
#include "etude/nn/layers/recurrent.h"
#include "etude/stage/internal/arguments.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

ETUDE_INTERNAL_FLATTEN(extern, nn::AvgPool2D);
ETUDE_INTERNAL_FLATTEN(extern, nn::BatchNorm);
ETUDE_INTERNAL_FLATTEN(extern, nn::Conv1D);
ETUDE_INTERNAL_FLATTEN(extern, nn::Conv2D);
ETUDE_INTERNAL_FLATTEN(extern, nn::Dense);
ETUDE_INTERNAL_FLATTEN(extern, nn::DepthwiseConv2D);
ETUDE_INTERNAL_FLATTEN(extern, nn::Dropout);
ETUDE_INTERNAL_FLATTEN(extern, nn::Embedding);
ETUDE_INTERNAL_FLATTEN(extern, nn::GlobalAvgPool2D);
ETUDE_INTERNAL_FLATTEN(extern, nn::GroupNorm);
ETUDE_INTERNAL_FLATTEN(extern, nn::LayerNorm);
ETUDE_INTERNAL_FLATTEN(extern, nn::MaxPool2D);
ETUDE_INTERNAL_FLATTEN(extern, nn::MultiHeadAttention);
ETUDE_INTERNAL_FLATTEN(extern, nn::PositionalEmbedding);
ETUDE_INTERNAL_FLATTEN(extern, nn::Recurrent<nn::GRUCell>);
ETUDE_INTERNAL_FLATTEN(extern, nn::Recurrent<nn::LSTMCell>);
ETUDE_INTERNAL_FLATTEN(extern, nn::ResidualBlock);
ETUDE_INTERNAL_FLATTEN(extern, nn::RMSNorm);
ETUDE_INTERNAL_FLATTEN(extern, nn::TransformerEncoderLayer);

}  // namespace internal
}  // namespace etude
