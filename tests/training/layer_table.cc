// SPDX-License-Identifier: Apache-2.0
#include "tests/training/layer_table.h"

#include <gtest/gtest.h>

#include "etude/core/context/ambient.h"
#include "etude/io/safetensors.h"
#include "etude/nn/layers/activations.h"
#include "etude/nn/layers/adapters.h"
#include "etude/nn/layers/adaptive_softmax.h"
#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/blocks.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/morphology.h"
#include "etude/nn/layers/noise.h"
#include "etude/nn/layers/norm.h"
#include "etude/nn/layers/pooling.h"
#include "etude/nn/layers/recurrent.h"
#include "etude/nn/layers/sequential.h"
#include "etude/nn/models/conv_net.h"
#include "etude/nn/models/transformers.h"
#include "etude/nn/precision.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/stage/function.h"
#include "tests/same_numbers.h"
#include "tests/temp_folder.h"

namespace etude::tests {
namespace {

template <class Layer>
Tensors leaves(const Layer& layer) {
  Tensors out;
  if constexpr (HasLeaf<Layer, Tensor>::value) {
    for_each_leaf<Tensor>(layer, [&](const Tensor& t) {
      if (t.has_value()) out.push_back(t);
    });
  }
  return out;
}
template <class Layer>
Layer with_leaves(Layer layer, [[maybe_unused]] std::span<const Tensor> now) {
  if constexpr (HasLeaf<Layer, Tensor>::value) {
    std::size_t i = 0;
    for_each_leaf<Tensor>(layer, [&](Tensor& t) {
      if (t.has_value()) t = now[i++];
    });
  }
  return layer;
}

template <class Layer>
internal::Arguments flattened(Layer& layer) {
  internal::Arguments arguments;
  internal::ArgumentFlattener<internal::NoNames>(arguments, {}).argument("", layer);
  return arguments;
}

// Whether staged functions would take the same graph for two layers.
template <class Layer>
bool are_alike(const Layer& a, const Layer& b) {
  const internal::Arguments of_a = flattened(a), of_b = flattened(b);
  return internal::TraceKey(of_a).fits(of_b);
}

// The checks that need the type of the layer; `other` has other options or sizes, or is `layer` if
// it has none.
template <class Layer, class Call>
void check_value(const Layer& layer, const Layer& other, const Tensor& x, const Call& call) {
  EXPECT_TRUE(are_alike(layer, Layer(layer)));
  const bool has_none = &layer == &other;
  EXPECT_EQ(are_alike(layer, other), has_none);

  const Tensor before = call(layer, x);
  Layer copy = layer;
  const Tensors parameters = leaves(layer);
  Tensors changed;
  for (const Tensor& p : parameters) changed.push_back(p + 0.25F);
  copy = with_leaves(copy, changed);
  EXPECT_TRUE(same_numbers(call(layer, x), before)) << "a changed copy changes the original";

  if constexpr (HasLeaf<Layer, Tensor, Marked::kVisit>::value) {
    io::save(layer, file_of("layer.safetensors"));
    io::load(copy, file_of("layer.safetensors"));
    EXPECT_TRUE(same_numbers(call(copy, x), before)) << "what is loaded is not what was saved";
  }
}

template <class Layer, class Call>
CallOn in_16_bits(const Layer& layer, const Call& call) {
  return [=](std::span<const Tensor> now, const Tensor& v) {
    using nn::internal::in_precision;
    const PrecisionScope scope;
    const Layer narrow = nn::internal::model_in(with_leaves(layer, now), kBFloat16);
    return in_precision(call(narrow, in_precision(v, kBFloat16)), kFloat32);
  };
}

struct CallIt {
  template <class Layer>
  Tensor operator()(const Layer& layer, const Tensor& x) const {
    return layer(x);
  }
};

class Table {
 public:
  template <class Layer, class Call = CallIt>
  void add(const char* name, const Layer& layer, const Layer& other, const Tensor& x,
           Call call = {}) {
    SCOPED_TRACE(name);
    check_value(layer, other, x, call);
    cases.push_back({name, leaves(layer), x,
                     [=](std::span<const Tensor> now, const Tensor& v) {
                       return call(with_leaves(layer, now), v);
                     },
                     in_16_bits(layer, call)});
  }
  template <class Layer>
  void add(const char* name, const Layer& layer, const Tensor& x) {  // without options
    SCOPED_TRACE(name);
    check_value(layer, layer, x, CallIt());
    cases.push_back(
        {name, leaves(layer), x,
         [=](std::span<const Tensor> now, const Tensor& v) { return with_leaves(layer, now)(v); },
         in_16_bits(layer, CallIt())});
  }

  std::vector<LayerCase> cases;
};

void add_images(Table& t, const Tensor& lines, const Tensor& images, const Tensor& volumes) {
  using namespace nn;
  t.add("Conv1D", Conv1D(3, 3, 2, {.padding = "same"}), Conv1D(3, 3, 2), lines);
  t.add("Conv2D", Conv2D(3, 3, 4, {.padding = "same"}), Conv2D(3, 3, 4, {.strides = 2}), images);
  t.add("Conv3D", Conv3D({2, 2, 1}, 2, 2, {.strides = {1, 2, 1}}), Conv3D(2, 2, 2), volumes);
  t.add("TransposedConv1D", TransposedConv1D(3, 3, 2, {.strides = 2}), TransposedConv1D(3, 3, 2),
        lines);
  t.add("TransposedConv2D", TransposedConv2D(2, 3, 2, {.strides = 2, .output_padding = 1}),
        TransposedConv2D(2, 3, 2, {.strides = 2}), images);
  t.add("TransposedConv3D", TransposedConv3D(2, 2, 2, {.strides = 2, .padding = "same"}),
        TransposedConv3D(2, 2, 2, {.strides = 2}), volumes);
  t.add("DepthwiseConv2D", DepthwiseConv2D(3, 3, 2), DepthwiseConv2D(3, 3, 1), images);
  t.add("SeparableConv1D", SeparableConv1D(3, 3, 2), SeparableConv1D(3, 3, 2, {.strides = 2}),
        lines);
  t.add("SeparableConv2D", SeparableConv2D(3, 3, 2, {.multiplier = 2, .padding = "same"}),
        SeparableConv2D(3, 3, 2, {.multiplier = 2}), images);
  t.add("LocallyConnected1D", LocallyConnected1D(6, 3, 3, 2), LocallyConnected1D(6, 3, 3, 1),
        lines);
  t.add("LocallyConnected2D", LocallyConnected2D({6, 6}, 3, 3, 2, {.strides = 2}),
        LocallyConnected2D({6, 6}, 3, 3, 2, {.strides = 3}), images);
  t.add("MaxPool1D", MaxPool1D(2), MaxPool1D(3), lines);
  t.add("MaxPool2D", MaxPool2D(2), MaxPool2D(3), images);
  t.add("MaxPool3D", MaxPool3D(2, {.strides = 1}), MaxPool3D(2), volumes);
  t.add("AvgPool1D", AvgPool1D(2), AvgPool1D(3), lines);
  t.add("AvgPool2D", AvgPool2D(2), AvgPool2D(3), images);
  t.add("AvgPool3D", AvgPool3D(2, {.strides = 1, .padding = "same"}), AvgPool3D(2), volumes);
  t.add("GlobalMaxPool2D", GlobalMaxPool2D(), images);
  t.add("GlobalAvgPool3D", GlobalAvgPool3D(), volumes);
  t.add("FractionalMaxPool2D", FractionalMaxPool2D({1, 1.5, 1.4, 1}),
        FractionalMaxPool2D({1, 1.5, 1.4, 1}, {.overlapping = true}), images);
  t.add("UpSampling1D", UpSampling1D(2), UpSampling1D(3), lines);
  t.add("UpSampling2D", UpSampling2D({2, 1}), UpSampling2D(2), images);
  t.add("ZeroPadding2D", ZeroPadding2D({1, 0, 2, 1}), ZeroPadding2D(1), images);
  t.add("Cropping2D", Cropping2D({1, 0, 2, 1}), Cropping2D(1), images);
  const Tensor filter = random::normal({2, 2, 3}, {.dtype = kFloat32});
  t.add("Dilation2D", Dilation2D(filter, {.padding = "same"}), Dilation2D(filter), images);
  t.add("Erosion2D", Erosion2D(filter), Erosion2D(filter, {.rates = 2}), images);
  t.add("PixelShuffle", PixelShuffle(1), PixelShuffle(2), images);
}

void add_norms_and_shapes(Table& t, const Tensor& rows, const Tensor& images) {
  using namespace nn;
  t.add("BatchNorm", BatchNorm(3), BatchNorm(3, {.epsilon = .1}), images);
  t.add("LayerNorm", LayerNorm({6, 3}), LayerNorm({6, 3}, {.epsilon = .1}), images);
  t.add("RMSNorm", RMSNorm(3), RMSNorm(3, .1), images);
  t.add("GroupNorm", GroupNorm(6, 2), GroupNorm(6, 3), rows);
  t.add("InstanceNorm", InstanceNorm(3), InstanceNorm(3, {.epsilon = .1}), images);
  t.add("Dense", Dense(6, 3, {.activation = relu}), Dense(6, 3, {.activation = tanh}), rows);
  t.add("Bilinear", Bilinear(6, 6, 2), Bilinear(6, 6, 3), rows,
        [](const Bilinear& layer, const Tensor& x) { return layer(x, x * x); });
  t.add("PReLU", PReLU(6), PReLU(1), rows);
  t.add("AdaptiveSoftmax", AdaptiveSoftmax(6, 9, {3, 6}, {.divisor = 2}),
        AdaptiveSoftmax(6, 9, {3, 5}, {.divisor = 2}), rows);
  t.add("Flatten", Flatten(), images);
  t.add("Reshape", Reshape({36, 3}), Reshape({3, 36}), images);
  t.add("Permute", Permute({3, 1, 2}), Permute({2, 1, 3}), images);
  t.add("RepeatVector", RepeatVector(3), RepeatVector(2), rows);
  t.add("Lambda", nn::Lambda(relu), nn::Lambda(gelu), rows);
  t.add("Sequential", Sequential(Flatten(), Dropout(.5), Dense(108, 2)),
        Sequential(Flatten(), Dropout(.1), Dense(108, 2)), images);
  t.add("Dropout", Dropout(.5), Dropout(.25), rows);
  t.add("GaussianNoise", GaussianNoise(.5), GaussianNoise(.25), rows);
  t.add("GaussianDropout", GaussianDropout(.5), GaussianDropout(.25), rows);
  t.add("AlphaDropout", AlphaDropout(.5), AlphaDropout(.25), rows);
  t.add("SpatialDropout", SpatialDropout(.5), SpatialDropout(.25), images);
  t.add("StochasticDepth", StochasticDepth(.5), StochasticDepth(.25), rows);
  const Dense dense(6, 3);
  t.add("Precision",
        Precision(dense, {.compute = kFloat64, .parameter = kFloat64, .output = kFloat64}),
        Precision(dense), rows);
  t.add("WeightNorm", WeightNorm(dense), WeightNorm(Dense(6, 2)), rows);
  t.add("SpectralNorm", SpectralNorm(dense), SpectralNorm(Dense(6, 2)), rows);
  t.add("LoRA", LoRA(dense, 2), LoRA(dense, 2, 3), rows);
  t.add("QuantizedDense", QuantizedDense(dense), QuantizedDense(Dense(6, 2)), rows);
}

void add_sequences(Table& t, const Tensor& lines) {
  using namespace nn;
  const Tensor ids({{1, 0, 4}, {4, 4, 2}});
  t.add("Embedding", Embedding(5, 3), Embedding(6, 3), ids);
  t.add("EmbeddingBag", EmbeddingBag(5, 3), EmbeddingBag(5, 3, "sum"), ids);
  t.add("PositionalEmbedding", PositionalEmbedding(7, 3), PositionalEmbedding(8, 3), lines);
  const Tensor even = concat({lines, lines.at(kEllipsis, slice(0, 1)) * 2.0F}, {.axis = -1});
  t.add("RotaryEmbedding", RotaryEmbedding(4), RotaryEmbedding(4, 10), even);
  t.add("SimpleRNNCell", SimpleRNNCell(4, 4), SimpleRNNCell(4, 5), even.at(0),
        [](const SimpleRNNCell& cell, const Tensor& x) {
          return cell(x, cell.zero_state(6, x.dtype()));
        });
  t.add("LSTMCell", LSTMCell(4, 4), LSTMCell(4, 4, {.forget_bias = 1}), even.at(0),
        [](const LSTMCell& cell, const Tensor& x) {
          return cell(x, {x, x * x}).c;
        });
  t.add("GRUCell", GRUCell(4, 4), GRUCell(4, 5), even.at(0),
        [](const GRUCell& cell, const Tensor& x) {
          return cell(x, cell(x, cell.zero_state(6, x.dtype())));
        });
  t.add("Recurrent", Recurrent(LSTMCell(3, 4)), Recurrent(LSTMCell(3, 4), {.last_output = true}),
        lines);
  t.add("ConvLSTM2DCell", ConvLSTM2DCell(3, 3, 2), ConvLSTM2DCell(3, 3, 2, {.forget_bias = 1}),
        expand_dims(lines, {1}), [](const ConvLSTM2DCell& cell, const Tensor& x) {
          return cell(x, cell.zero_state(x.shape(), x.dtype())).h;
        });
  t.add("Bidirectional", Bidirectional(GRUCell(3, 2), GRUCell(3, 2)),
        Bidirectional(GRUCell(3, 2), GRUCell(3, 2), "average"), lines,
        [](const auto& layer, const Tensor& x) {
          return layer.run(x, Tensor({6, 3}));
        });
  t.add("TimeDistributed", TimeDistributed(Dense(3, 2)), TimeDistributed(Dense(3, 1)), lines);
  t.add("Masking", Masking(), Masking(1), lines);
  t.add("MultiHeadAttention", MultiHeadAttention(4, 2, {.dropout = .5, .rotary = true}),
        MultiHeadAttention(4, 2, {.dropout = .5, .causal = true, .rotary = true}), even);
  t.add("TransformerEncoderLayer",
        TransformerEncoderLayer(4, 2, {.hidden = 5, .dropout = .1, .norm_first = false}),
        TransformerEncoderLayer(4, 2, {.hidden = 5, .dropout = .1}), even);
  const TextEncoderOptions small{
      .vocabulary = 5, .positions = 4, .dim = 4, .layers = 2, .heads = 2};
  TextEncoderOptions shared = small;
  shared.shared = true;
  // Rows as large as 1: norms of small ones bend too much for differences.
  TextEncoder encoder(small);
  for (Embedding* rows : {&encoder.words, &encoder.places, &encoder.kinds})
    rows->table = rows->table * 50.0F;
  t.add("TextEncoder", encoder, TextEncoder(shared), ids);
  const auto decoder = [](int64_t layers) {
    TextDecoder made({.vocabulary = 5, .positions = 4, .dim = 4, .layers = layers, .heads = 2});
    for (Embedding* rows : {&made.words, &made.places}) rows->table = rows->table * 50.0F;
    return made;
  };
  t.add("TextDecoder", decoder(1), decoder(2), ids);
  t.add("TransformerDecoderLayer", TransformerDecoderLayer(4, 2, {.hidden = 5}),
        TransformerDecoderLayer(4, 2, {.hidden = 6}), even,
        [](const auto& layer, const Tensor& x) { return layer(x, x * 2.0F); });
}

void add_blocks(Table& t, const Tensor& rows, const Tensor& images) {
  using namespace nn;
  t.add("ResidualBlock", ResidualBlock(3, 4, {.stride = 2}),
        ResidualBlock(3, 4, {.stride = 2, .shortcut = "padding"}), images);
  t.add("MLP", MLP({6, 4, 2}, {.activation = tanh}), MLP({6, 4, 2}, {.activation = gelu}), rows);
  t.add("SqueezeExcite", SqueezeExcite(3, 2), SqueezeExcite(3, 1), images);
  InvertedResidual inverted(3, 3, {.expansion = 2, .squeezed = 2});
  inverted.depthwise_norm.offset = full({6}, 0.5F);  // so that no sum is at the kink of relu6
  t.add("InvertedResidual", inverted, InvertedResidual(3, 3, {.expansion = 2}), images);
  const ConvUnit unit(3, 3, {.activation = tanh});
  t.add("ConvUnit", unit, ConvUnit(3, 3, {.activation = gelu}), images);
  const ConvBlock block({{unit}}, {.keeps_input = true});
  t.add("ConvBlock", block, ConvBlock({{unit}}), images);
  t.add("ConvNet", ConvNet({block}, {Dense(3, 2)}),
        ConvNet({block}, {Dense(3, 2)}, {.flattens = true}), images);
  t.add("PatchEmbedding", PatchEmbedding(3, 3, 4), PatchEmbedding(2, 3, 4), images);
}

}  // namespace

const std::vector<LayerCase>& layer_cases() {
  static const std::vector<LayerCase> all = [] {
    set_seed(2);
    Table t;
    const Tensor rows = random::normal({4, 6}), lines = random::normal({2, 6, 3});
    const Tensor images = random::normal({2, 6, 6, 3}), volumes = random::normal({2, 3, 4, 3, 2});
    add_images(t, lines, images, volumes);
    add_norms_and_shapes(t, rows, images);
    add_sequences(t, lines);
    add_blocks(t, rows, images);
    return std::move(t.cases);
  }();
  return all;
}

std::string file_of(const std::string& what) {
  static const internal::TempFolder folder;
  return (folder.path() / what).string();
}

}  // namespace etude::tests
