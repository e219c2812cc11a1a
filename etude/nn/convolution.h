// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling of images [n, height, width, channels].
#pragma once

#include <string>
#include <tuple>

#include "etude/base/fields.h"
#include "etude/core/attrs.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct Conv2DOptions {
  IntList strides = 1;            // one number for both axes, or two
  std::string padding = "valid";  // or "same"
  IntList explicit_padding = {};  // in place of `padding`: top, bottom, left, right
  IntList dilations = 1;
  std::int64_t groups = 1;
  Activation activation = {};
  bool bias = true;
  Initializer filter_init = glorot_uniform;
  Initializer bias_init = zeros;

  static constexpr void ranges(const auto& row) {
    row("strides", &Conv2DOptions::strides, at_least(1));
    row("explicit_padding", &Conv2DOptions::explicit_padding, at_least(0));
    row("dilations", &Conv2DOptions::dilations, at_least(1));
    row("groups", &Conv2DOptions::groups, at_least(1));
  }
};

// activation(conv2d(x, filter) + bias). shapes: x [n, h, w, in], filter [window.., in/groups, out],
// bias [out].
//
//   nn::Conv2D conv{{5, 5}, 1, 6, {.padding = "same", .activation = nn::relu}};
//
// throws (construction): kInvalidArgument for sizes below 1 and groups that do not divide. throws
// (call): kInvalidArgument for an input of another rank or other channels.
class Conv2D {
 public:
  Conv2D(const IntList& window, std::int64_t in, std::int64_t out,
         const Conv2DOptions& options = {}, CallSite where = CallSite::here());

  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor filter;
  Tensor bias;  // absent if the options say so
  ETUDE_FIELDS(Conv2D, filter, bias);
  auto host_values() const {
    return std::tie(strides_, explicit_padding_, dilations_, padding_, groups_, activation_);
  }

 private:
  IntList strides_, explicit_padding_, dilations_;
  std::string padding_;
  std::int64_t groups_;
  Activation activation_;
};

struct PoolOptions {
  IntList strides = {};  // default: the window
  std::string padding = "valid";

  static constexpr void ranges(const auto& row) {
    row("strides", &PoolOptions::strides, at_least(1));
  }
};

// The largest element of each window. throws (call): kInvalidArgument unless x has 4 axes.
class MaxPool2D {
 public:
  explicit MaxPool2D(IntList window, PoolOptions options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(MaxPool2D);
  auto host_values() const { return std::tie(window_, options_); }

 private:
  IntList window_;
  PoolOptions options_;
};

// The mean of each window, over the elements inside the image. throws: as MaxPool2D.
class AvgPool2D {
 public:
  explicit AvgPool2D(IntList window, PoolOptions options = {}, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(AvgPool2D);
  auto host_values() const { return std::tie(window_, options_); }

 private:
  IntList window_;
  PoolOptions options_;
};

}  // namespace nn
}  // namespace etude
