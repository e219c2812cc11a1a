// SPDX-License-Identifier: Apache-2.0
// Blocks of layers that many published models share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "etude/base/fields.h"
#include "etude/nn/layer.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct ResidualOptions {
  int64_t stride = 1;
  // The shortcut if the shape changes. "projection": a convolution of 1 by 1 with normalisation.
  // "padding": x, read with the stride, with zeros as additional channels; it has no parameters.
  std::string shortcut = "projection";

  static constexpr void ranges(const auto& option) {
    option("stride", &ResidualOptions::stride, at_least(1));
  }
};

// Two convolutions of 3 by 3 with normalisation, added to x, then relu: K. He et al., "Deep
// residual learning for image recognition" (2015). shapes: [n, h, w, in] to [n, h / stride, w /
// stride, out].
//
// throws (construction): kInvalidArgument for channels below 1, for another shortcut, and for
// padding to fewer channels. throws (call): as Conv2D.
class ResidualBlock {
 public:
  ResidualBlock(int64_t in, int64_t out, const ResidualOptions& options = {},
                CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Conv2D conv1;
  BatchNorm norm1;
  Conv2D conv2;
  BatchNorm norm2;
  std::optional<Conv2D> shortcut;  // where the shape changes, unless by padding
  std::optional<BatchNorm> shortcut_norm;
  ETUDE_FIELDS(ResidualBlock, conv1, norm1, conv2, norm2, shortcut, shortcut_norm);
  ETUDE_HOST_VALUES(stride_);

 private:
  int64_t stride_;
};

struct MLPOptions {
  Activation activation = {};  // between the layers; default: relu
  Activation last = {};        // after the last layer
  double dropout = 0;          // after each activation between layers

  static constexpr void ranges(const auto& option) {
    option("dropout", &MLPOptions::dropout, up_to(0, 1));
  }
};

// A chain of Dense layers: MLP({784, 256, 10}).
//
// throws (construction): kInvalidArgument for fewer than two sizes, and for a size below 1.
class MLP {
 public:
  explicit MLP(const IntList& sizes, const MLPOptions& options = {},
               CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  std::vector<Dense> layers;
  Dropout dropout;
  ETUDE_FIELDS(MLP, layers, dropout);
};

struct SqueezeExciteOptions {
  Activation activation = {};  // of the squeezed numbers; default: relu
  Activation gate = {};        // makes the factors; default: sigmoid
};

// Multiplies each channel by a factor in (0, 1) that is computed from all channels: J. Hu et al.,
// "Squeeze-and-excitation networks" (2017). shapes: x and result [n, .., channels].
class SqueezeExcite {
 public:
  SqueezeExcite(int64_t channels, int64_t squeezed, const SqueezeExciteOptions& options = {},
                CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Dense squeeze, excite;
  ETUDE_FIELDS(SqueezeExcite, squeeze, excite);
};

struct InvertedResidualOptions {
  int64_t stride = 1;
  int64_t expansion = 6;
  int64_t squeezed = 0;  // channels of a SqueezeExcite; 0: none

  static constexpr void ranges(const auto& option) {
    option("stride", &InvertedResidualOptions::stride, at_least(1));
    option("expansion", &InvertedResidualOptions::expansion, at_least(1));
    option("squeezed", &InvertedResidualOptions::squeezed, at_least(0));
  }
};

// Three convolutions: an expansion of 1 by 1, a depthwise convolution of 3 by 3, and a projection
// of 1 by 1. Normalisation follows each of them, and relu6 follows the first two. The result is
// added to x if the shapes are equal: M. Sandler et al., "MobileNetV2" (2018).
class InvertedResidual {
 public:
  InvertedResidual(int64_t in, int64_t out, const InvertedResidualOptions& options = {},
                   CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  std::optional<Conv2D> expand;  // unless expansion is 1
  std::optional<BatchNorm> expand_norm;
  DepthwiseConv2D depthwise;
  BatchNorm depthwise_norm;
  std::optional<SqueezeExcite> squeeze;
  Conv2D project;
  BatchNorm project_norm;
  ETUDE_FIELDS(InvertedResidual, expand, expand_norm, depthwise, depthwise_norm, squeeze, project,
               project_norm);
  ETUDE_HOST_VALUES(adds_);

 private:
  bool adds_;
};

// Projects squares of patch * patch pixels to vectors: A. Dosovitskiy et al., "An image is worth
// 16x16 words" (2020). shapes: [n, h, w, in] to [n, (h / patch) (w / patch), dim].
//
// throws (call): kInvalidArgument for an image whose sides are not multiples of the patch.
class PatchEmbedding {
 public:
  PatchEmbedding(int64_t patch, int64_t in, int64_t dim, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Conv2D projection;
  ETUDE_FIELDS(PatchEmbedding, projection);
};

}  // namespace nn
}  // namespace etude
