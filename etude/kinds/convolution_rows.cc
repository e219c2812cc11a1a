// SPDX-License-Identifier: Apache-2.0
// Layers over images: convolutions, pooling, padding, morphology.
#include <vector>

#include "etude/kinds/table.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/morphology.h"
#include "etude/nn/layers/pooling.h"

namespace etude::kinds {
namespace {

template <class T, class O>
void windowed(Rows& layers, const char* name) {
  layers.add<T, O, IntList, int64_t, int64_t>(name, {"window", "in", "out"}, {2, 2, 2});
}

void add_convolved(Rows layers) {
  windowed<nn::Conv1D, nn::ConvOptions>(layers, "nn.Conv1D");
  windowed<nn::Conv2D, nn::ConvOptions>(layers, "nn.Conv2D");
  windowed<nn::Conv3D, nn::ConvOptions>(layers, "nn.Conv3D");
  windowed<nn::TransposedConv1D, nn::TransposedConvOptions>(layers, "nn.TransposedConv1D");
  windowed<nn::TransposedConv2D, nn::TransposedConvOptions>(layers, "nn.TransposedConv2D");
  windowed<nn::TransposedConv3D, nn::TransposedConvOptions>(layers, "nn.TransposedConv3D");
  windowed<nn::SeparableConv1D, nn::SeparableConvOptions>(layers, "nn.SeparableConv1D");
  windowed<nn::SeparableConv2D, nn::SeparableConvOptions>(layers, "nn.SeparableConv2D");
  layers.add<nn::DepthwiseConv2D, nn::ConvOptions, IntList, int64_t, int64_t>(
      "nn.DepthwiseConv2D", {"window", "in", {"multiplier", 1}}, {2, 2});
  layers.add<nn::LocallyConnected1D, nn::LocalOptions, IntList, IntList, int64_t, int64_t>(
      "nn.LocallyConnected1D", {"image", "window", "in", "out"}, {4, 2, 2, 2});
  layers.add<nn::LocallyConnected2D, nn::LocalOptions, IntList, IntList, int64_t, int64_t>(
      "nn.LocallyConnected2D", {"image", "window", "in", "out"}, {4, 2, 2, 2});
}

template <class T>
void pool(Rows& layers, const char* name) {
  layers.add<T, nn::PoolOptions, IntList>(name, {"window"}, {2});
}

template <class T>
void sized(Rows& layers, const char* name, const char* parameter) {
  layers.add<T, NoOptions, IntList>(name, {parameter}, {1});
}

void add_pools(Rows layers) {
  pool<nn::MaxPool1D>(layers, "nn.MaxPool1D");
  pool<nn::MaxPool2D>(layers, "nn.MaxPool2D");
  pool<nn::MaxPool3D>(layers, "nn.MaxPool3D");
  pool<nn::AvgPool1D>(layers, "nn.AvgPool1D");
  pool<nn::AvgPool2D>(layers, "nn.AvgPool2D");
  pool<nn::AvgPool3D>(layers, "nn.AvgPool3D");
  layers.add<nn::GlobalMaxPool1D>("nn.GlobalMaxPool1D");
  layers.add<nn::GlobalMaxPool2D>("nn.GlobalMaxPool2D");
  layers.add<nn::GlobalMaxPool3D>("nn.GlobalMaxPool3D");
  layers.add<nn::GlobalAvgPool1D>("nn.GlobalAvgPool1D");
  layers.add<nn::GlobalAvgPool2D>("nn.GlobalAvgPool2D");
  layers.add<nn::GlobalAvgPool3D>("nn.GlobalAvgPool3D");
  layers.add<nn::FractionalMaxPool2D, nn::FractionalMaxPoolOptions, std::vector<double>>(
      "nn.FractionalMaxPool2D", {"ratio"}, {std::vector<double>{1, 1.5, 1.4, 1}});
  sized<nn::UpSampling1D>(layers, "nn.UpSampling1D", "size");
  sized<nn::UpSampling2D>(layers, "nn.UpSampling2D", "size");
  sized<nn::UpSampling3D>(layers, "nn.UpSampling3D", "size");
  sized<nn::ZeroPadding1D>(layers, "nn.ZeroPadding1D", "widths");
  sized<nn::ZeroPadding2D>(layers, "nn.ZeroPadding2D", "widths");
  sized<nn::ZeroPadding3D>(layers, "nn.ZeroPadding3D", "widths");
  sized<nn::Cropping1D>(layers, "nn.Cropping1D", "widths");
  sized<nn::Cropping2D>(layers, "nn.Cropping2D", "widths");
  sized<nn::Cropping3D>(layers, "nn.Cropping3D", "widths");
  layers.add<nn::PixelShuffle, NoOptions, int64_t>("nn.PixelShuffle", {"block"}, {2});
}

}  // namespace

void add_convolutions(Table& table) {
  Rows layers(table, Group::kLayer);
  add_convolved(layers);
  add_pools(layers);
  // Host data and no call of an op: the table may be made inside of a traced function.
  const Tensor filter(std::vector<float>(4), Shape({2, 2, 1}));
  layers.add<nn::Dilation2D, nn::MorphologyOptions, Tensor>("nn.Dilation2D", {"filter"}, {filter});
  layers.add<nn::Erosion2D, nn::MorphologyOptions, Tensor>("nn.Erosion2D", {"filter"}, {filter});
}

}  // namespace etude::kinds
