// SPDX-License-Identifier: Apache-2.0
// Dilation2D and Erosion2D: morphological filters with learned weights, over images [n, height,
// width, channels]. For convolutions see convolution.h.
#pragma once

#include <string>
#include <utility>

#include "etude/base/fields.h"
#include "etude/core/op/attrs.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// An option is a single number for both axes, or a number for each axis.
struct MorphologyOptions {
  IntList strides = 1;
  IntList rates = 1;              // distances between elements of the filter
  std::string padding = "valid";  // or "same"

  static constexpr void ranges(const auto& option) {
    option("strides", &MorphologyOptions::strides, at_least(1));
    option("rates", &MorphologyOptions::rates, at_least(1));
  }
};

namespace internal {

// The options of both layers, without the filter.
struct MorphologySettings {
  MorphologySettings(const char* layer, const Tensor& filter, const MorphologyOptions& given,
                     CallSite where);
  MorphologyOptions options;

  ETUDE_HOST_VALUES(options.strides, options.rates, options.padding);
  ETUDE_FIELDS(MorphologySettings);
};

}  // namespace internal

// The maximum over each window of x + filter, as image::dilation2d. With a filter of zeros it is
// max pooling with these strides. shapes: filter [height, width, channels].
//
// throws (construction): kInvalidArgument for a filter of another rank, options out of their
// ranges, strides or rates that are neither one number nor two, or another padding. throws (call):
// kInvalidArgument for an input of another rank or with other channels, and for an input that is
// too small for a result.
class Dilation2D {
 public:
  explicit Dilation2D(Tensor given, const MorphologyOptions& options = {},
                      CallSite where = CallSite::here())
      : filter(std::move(given)), settings_("Dilation2D", filter, options, where) {}
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor filter;
  ETUDE_FIELDS(Dilation2D, filter);
  ETUDE_HOST_VALUES(settings_);

 private:
  internal::MorphologySettings settings_;
};

// The minimum over each window of x - the mirrored filter, as image::erosion2d. All else is as for
// Dilation2D.
class Erosion2D {
 public:
  explicit Erosion2D(Tensor given, const MorphologyOptions& options = {},
                     CallSite where = CallSite::here())
      : filter(std::move(given)), settings_("Erosion2D", filter, options, where) {}
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor filter;
  ETUDE_FIELDS(Erosion2D, filter);
  ETUDE_HOST_VALUES(settings_);

 private:
  internal::MorphologySettings settings_;
};

}  // namespace nn
}  // namespace etude
