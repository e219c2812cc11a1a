// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/flatten.h"

namespace etude::internal {

ETUDE_INTERNAL_WALKS(, nn::AvgPool2D);
ETUDE_INTERNAL_WALKS(, nn::BatchNorm);
ETUDE_INTERNAL_WALKS(, nn::Conv1D);
ETUDE_INTERNAL_WALKS(, nn::Conv2D);
ETUDE_INTERNAL_WALKS(, nn::Dense);
ETUDE_INTERNAL_WALKS(, nn::DepthwiseConv2D);
ETUDE_INTERNAL_WALKS(, nn::Dropout);
ETUDE_INTERNAL_WALKS(, nn::Embedding);
ETUDE_INTERNAL_WALKS(, nn::GlobalAvgPool2D);
ETUDE_INTERNAL_WALKS(, nn::GroupNorm);
ETUDE_INTERNAL_WALKS(, nn::LayerNorm);
ETUDE_INTERNAL_WALKS(, nn::MaxPool2D);
ETUDE_INTERNAL_WALKS(, nn::MultiHeadAttention);
ETUDE_INTERNAL_WALKS(, nn::PositionalEmbedding);
ETUDE_INTERNAL_WALKS(, nn::Recurrent<nn::GRUCell>);
ETUDE_INTERNAL_WALKS(, nn::Recurrent<nn::LSTMCell>);
ETUDE_INTERNAL_WALKS(, nn::ResidualBlock);
ETUDE_INTERNAL_WALKS(, nn::RMSNorm);
ETUDE_INTERNAL_WALKS(, nn::TransformerEncoderLayer);

}  // namespace etude::internal
