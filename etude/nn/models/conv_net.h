// SPDX-License-Identifier: Apache-2.0
// Convolutional networks as lists of blocks. A block runs paths of convolutions in parallel and
// joins their results. One type covers the published image models; models.h makes them. For
// networks of your own use plain structs of layers.
//
// throws, all of them (construction): kInvalidArgument, as their layers. throws (call):
// kInvalidArgument for an input of another rank or other channels; the path names the layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "etude/base/fields.h"
#include "etude/nn/layers/blocks.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/norm.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct ConvUnitOptions {
  int64_t window = 3;
  int64_t stride = 1;
  int64_t groups = 1;
  std::string padding = "same";  // or "valid"
  bool bias = false;
  std::string norm = "batch";  // or "group", of 32 groups, or "none"
  bool norm_first = false;     // normalisation and activation precede the convolution
  bool standardize = false;    // filters have mean 0 and variance 1 per output
  double epsilon = 0.001;      // of the normalisation
  double momentum = 0.99;
  Activation activation = {};
  int64_t squeezed = 0;  // channels of a SqueezeExcite at the end; 0: none
  SqueezeExciteOptions squeeze = {};

  static constexpr void ranges(const auto& option) {
    option("window", &ConvUnitOptions::window, at_least(1));
    option("stride", &ConvUnitOptions::stride, at_least(1));
    option("groups", &ConvUnitOptions::groups, at_least(1));
    option("epsilon", &ConvUnitOptions::epsilon, at_least(0));
    option("momentum", &ConvUnitOptions::momentum, within(0, 1));
    option("squeezed", &ConvUnitOptions::squeezed, at_least(0));
  }
};

// A convolution, its normalisation and its activation, each of them optional; or a pooling.
// shapes: [n, h, w, in] to [n, h / stride, w / stride, out].
class ConvUnit {
 public:
  ConvUnit(int64_t in, int64_t out, const ConvUnitOptions& options = {},
           CallSite where = CallSite::here());
  // Normalisation and activation without a convolution; options of convolutions are ignored.
  static ConvUnit plain(int64_t channels, const ConvUnitOptions& options,
                        CallSite where = CallSite::here());
  // The maximum or the mean of windows.
  static ConvUnit max_pool(int64_t window, int64_t stride, CallSite where = CallSite::here());
  static ConvUnit avg_pool(int64_t window, int64_t stride, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  std::optional<Conv2D> conv;
  std::optional<BatchNorm> norm;
  std::optional<GroupNorm> group_norm;
  std::optional<SqueezeExcite> squeeze;
  ETUDE_FIELDS(ConvUnit, conv, norm, group_norm, squeeze);
  ETUDE_HOST_VALUES(pool_, window_, stride_, norm_first_, standardize_, activation_);

 private:
  ConvUnit() = default;
  void add_norm(int64_t channels, const ConvUnitOptions& options, CallSite where);
  Tensor normalized(const Tensor& x, CallSite where) const;
  Tensor convolved(const Tensor& x, CallSite where) const;

  std::string pool_;  // "max", "avg" or ""
  int64_t window_ = 1, stride_ = 1;
  bool norm_first_ = false, standardize_ = false;
  Activation activation_;
};

struct ConvBlockOptions {
  std::string join = "add";    // or "concat": how the results of the paths are joined
  bool keeps_input = false;    // x itself is a further path; added where the shape changes, it is
                               // taken with strides and zeros as further channels
  bool splits = false;         // each path gets its share of the channels of x
  bool shuffles = false;       // interleaves the channels of the paths in the result
  Activation activation = {};  // of the result
};

// Passes x through `before`, then through each path, and joins the results. An empty path is the
// identity.
class ConvBlock {
 public:
  using Path = std::vector<ConvUnit>;
  explicit ConvBlock(std::vector<Path> paths, ConvBlockOptions options = {}, Path before = {},
                     CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Path before;
  std::vector<Path> paths;
  ETUDE_FIELDS(ConvBlock, before, paths);
  ETUDE_HOST_VALUES(options_.join, options_.keeps_input, options_.splits, options_.shuffles,
                    options_.activation);

 private:
  Tensor joined(std::vector<Tensor> parts) const;

  ConvBlockOptions options_;
};

struct ConvNetOptions {
  double dropout = 0;     // before the last layer of the head
  bool flattens = false;  // the head sees the whole image, not its mean

  static constexpr void ranges(const auto& option) {
    option("dropout", &ConvNetOptions::dropout, up_to(0, 1));
  }
};

// A chain of blocks, the mean over the image, and Dense layers. shapes: [n, h, w, in] to [n,
// classes]. Without a head the mean is the result.
class ConvNet {
 public:
  ConvNet(std::vector<ConvBlock> blocks, std::vector<Dense> head,
          const ConvNetOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  // The input of the head, [n, features]; and the output of the last block, [n, h, w, channels].
  Tensor features(const Tensor& x, CallSite where = CallSite::here()) const;
  Tensor image(const Tensor& x, CallSite where = CallSite::here()) const;

  std::vector<ConvBlock> blocks;
  std::vector<Dense> head;
  Dropout dropout;
  ETUDE_FIELDS(ConvNet, blocks, head, dropout);
  ETUDE_HOST_VALUES(flattens_);

 private:
  bool flattens_;
};

}  // namespace nn
}  // namespace etude
