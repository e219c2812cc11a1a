// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/internal/flatten.h"

namespace etude::internal {

ETUDE_INTERNAL_FLATTEN(, nn::AvgPool2D);
ETUDE_INTERNAL_FLATTEN(, nn::BatchNorm);
ETUDE_INTERNAL_FLATTEN(, nn::Conv1D);
ETUDE_INTERNAL_FLATTEN(, nn::Conv2D);
ETUDE_INTERNAL_FLATTEN(, nn::Dense);
ETUDE_INTERNAL_FLATTEN(, nn::DepthwiseConv2D);
ETUDE_INTERNAL_FLATTEN(, nn::Dropout);
ETUDE_INTERNAL_FLATTEN(, nn::Embedding);
ETUDE_INTERNAL_FLATTEN(, nn::GlobalAvgPool2D);
ETUDE_INTERNAL_FLATTEN(, nn::GroupNorm);
ETUDE_INTERNAL_FLATTEN(, nn::LayerNorm);
ETUDE_INTERNAL_FLATTEN(, nn::MaxPool2D);
ETUDE_INTERNAL_FLATTEN(, nn::MultiHeadAttention);
ETUDE_INTERNAL_FLATTEN(, nn::PositionalEmbedding);
ETUDE_INTERNAL_FLATTEN(, nn::Recurrent<nn::GRUCell>);
ETUDE_INTERNAL_FLATTEN(, nn::Recurrent<nn::LSTMCell>);
ETUDE_INTERNAL_FLATTEN(, nn::ResidualBlock);
ETUDE_INTERNAL_FLATTEN(, nn::RMSNorm);
ETUDE_INTERNAL_FLATTEN(, nn::TransformerEncoderLayer);

}  // namespace etude::internal
