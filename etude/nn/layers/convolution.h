// SPDX-License-Identifier: Apache-2.0
// Convolutions over one, two or three axes: of [n, width, channels], [n, height, width, channels]
// or [n, depth, height, width, channels]. Pooling, padding and up-sampling: pooling.h.
//
// An option for axes is a single number for all axes, or a number for each axis.
//
// throws, all of them (construction): kInvalidArgument for sizes below 1, options out of their
// ranges, and a list of sizes whose length is not the number of axes. throws (call):
// kInvalidArgument for an input of another rank or with other channels, and for an input that is
// too small for a result.
#pragma once

#include <string>
#include <vector>

#include "etude/base/fields.h"
#include "etude/core/op/attrs.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct ConvOptions {
  IntList strides = 1;
  std::string padding = "valid";  // or "same"
  IntList explicit_padding = {};  // replaces `padding`: before and after each axis in turn
  IntList dilations = 1;
  int64_t groups = 1;
  Activation activation = {};
  bool bias = true;
  Initializer filter_init = glorot_uniform;
  Initializer bias_init = zeros;

  static constexpr void ranges(const auto& option) {
    option("strides", &ConvOptions::strides, at_least(1));
    option("explicit_padding", &ConvOptions::explicit_padding, at_least(0));
    option("dilations", &ConvOptions::dilations, at_least(1));
    option("groups", &ConvOptions::groups, at_least(1));
  }
};

namespace internal {

// The options of a convolution that its call needs, without parameters.
struct ConvSettings {
  IntList strides, explicit_padding, dilations;
  std::string padding;
  int64_t groups = 1;
  Activation activation;

  ETUDE_HOST_VALUES(strides, explicit_padding, dilations, padding, groups, activation);
  ETUDE_FIELDS(ConvSettings);
};

}  // namespace internal

// activation(conv(x, filter) + bias). shapes: filter [window.., in / groups, out], bias [out].
//
//   nn::Conv2D conv{{5, 5}, 1, 6, {.padding = "same", .activation = nn::relu}};
//   nn::Conv1D causal{3, 8, 8, {.explicit_padding = {2, 0}}};
template <int axes>
class Conv {
 public:
  Conv(const IntList& window, int64_t in, int64_t out, const ConvOptions& options = {},
       CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor filter;
  Tensor bias;  // absent if the options state no bias
  ETUDE_FIELDS(Conv, filter, bias);
  ETUDE_HOST_VALUES(settings_);

 private:
  internal::ConvSettings settings_;
};
using Conv1D = Conv<1>;
using Conv2D = Conv<2>;
using Conv3D = Conv<3>;
extern template class Conv<1>;
extern template class Conv<2>;
extern template class Conv<3>;

struct TransposedConvOptions {
  IntList strides = 1;
  std::string padding = "valid";  // or "same"
  IntList output_padding = 0;     // additional pixels at the end; below the strides
  Activation activation = {};
  bool bias = true;
  Initializer filter_init = glorot_uniform;
  Initializer bias_init = zeros;

  static constexpr void ranges(const auto& option) {
    option("strides", &TransposedConvOptions::strides, at_least(1));
    option("output_padding", &TransposedConvOptions::output_padding, at_least(0));
  }
};

// activation(conv_transpose(x, filter) + bias): the transpose of the convolution with these
// options. shapes: filter [window.., out, in], bias [out]; an axis of size s gets the size (s - 1)
// * stride + window + output_padding, or s * stride with padding "same".
template <int axes>
class TransposedConv {
 public:
  TransposedConv(const IntList& window, int64_t in, int64_t out,
                 const TransposedConvOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor filter;
  Tensor bias;  // absent if the options state no bias
  ETUDE_FIELDS(TransposedConv, filter, bias);
  ETUDE_HOST_VALUES(strides_, output_padding_, padding_, activation_);

 private:
  IntList strides_, output_padding_;
  std::string padding_;
  Activation activation_;
};
using TransposedConv1D = TransposedConv<1>;
using TransposedConv2D = TransposedConv<2>;
using TransposedConv3D = TransposedConv<3>;
extern template class TransposedConv<1>;
extern template class TransposedConv<2>;
extern template class TransposedConv<3>;

// `multiplier` filters for each channel. shapes: filter [height, width, in, multiplier], bias [in *
// multiplier]; the results of channel i begin at i * multiplier. Takes ConvOptions; the number of
// groups is the number of channels.
class DepthwiseConv2D {
 public:
  DepthwiseConv2D(const IntList& window, int64_t in, int64_t multiplier = 1,
                  const ConvOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor filter;
  Tensor bias;  // absent if the options state no bias
  ETUDE_FIELDS(DepthwiseConv2D, filter, bias);
  ETUDE_HOST_VALUES(settings_);

 private:
  internal::ConvSettings settings_;
};

struct SeparableConvOptions {
  int64_t multiplier = 1;
  IntList strides = 1;
  std::string padding = "valid";  // or "same"
  IntList dilations = 1;
  Activation activation = {};
  bool bias = true;
  Initializer depthwise_init = glorot_uniform;
  Initializer pointwise_init = glorot_uniform;
  Initializer bias_init = zeros;

  static constexpr void ranges(const auto& option) {
    option("multiplier", &SeparableConvOptions::multiplier, at_least(1));
    option("strides", &SeparableConvOptions::strides, at_least(1));
    option("dilations", &SeparableConvOptions::dilations, at_least(1));
  }
};

// A depthwise convolution, then a convolution that mixes the channels. shapes: depthwise [window..,
// in, multiplier], pointwise [1.., in * multiplier, out], bias [out].
template <int axes>
class SeparableConv {
 public:
  SeparableConv(const IntList& window, int64_t in, int64_t out,
                const SeparableConvOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor depthwise, pointwise;
  Tensor bias;  // absent if the options state no bias
  ETUDE_FIELDS(SeparableConv, depthwise, pointwise, bias);
  ETUDE_HOST_VALUES(settings_);

 private:
  internal::ConvSettings settings_;
};
using SeparableConv1D = SeparableConv<1>;
using SeparableConv2D = SeparableConv<2>;
extern template class SeparableConv<1>;
extern template class SeparableConv<2>;

struct LocalOptions {
  IntList strides = 1;
  Activation activation = {};
  bool bias = true;
  Initializer filter_init = glorot_uniform;
  Initializer bias_init = zeros;

  static constexpr void ranges(const auto& option) {
    option("strides", &LocalOptions::strides, at_least(1));
  }
};

// A convolution without padding, with a separate filter for each position of the result.
// shapes: filter [places, window.. * in, out], bias [places, out]; `image` is the size of the
// inputs.
//
// throws (call): also kInvalidArgument for an input of another size.
template <int axes>
class LocallyConnected {
 public:
  LocallyConnected(const IntList& image, const IntList& window, int64_t in, int64_t out,
                   const LocalOptions& options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor filter;
  Tensor bias;  // absent if the options state no bias
  ETUDE_FIELDS(LocallyConnected, filter, bias);
  ETUDE_HOST_VALUES(image_, window_, strides_, activation_);

 private:
  // Sizes along each axis: of the image, of the window, of the strides, of the result.
  std::vector<int64_t> image_, window_, strides_, places_;
  Activation activation_;
};
using LocallyConnected1D = LocallyConnected<1>;
using LocallyConnected2D = LocallyConnected<2>;
extern template class LocallyConnected<1>;
extern template class LocallyConnected<2>;

namespace internal {

// Expands a single size to all axes, or takes a size for each axis.
// throws: kInvalidArgument for another number of sizes, and for a size below `least`.
std::vector<int64_t> sizes_of(const IntList& list, int axes, const char* what, int64_t least = 1);

}  // namespace internal
}  // namespace nn
}  // namespace etude
