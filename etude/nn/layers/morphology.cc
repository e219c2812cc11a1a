// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/morphology.h"

#include "etude/base/check.h"
#include "etude/nn/layers/convolution.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

// A sum, or a difference, and a comparison for each element of a window.
int64_t flops_of(const Tensor& filter) { return 2 * filter.shape()[0] * filter.shape()[1]; }

void require_channels(const Tensor& x, const Tensor& filter) {
  internal::require_input(x, 4, filter.shape()[2], filter, "filter");
}

}  // namespace

namespace internal {

MorphologySettings::MorphologySettings(const char* layer, const Tensor& filter,
                                       const MorphologyOptions& given, CallSite where)
    : options(given) {
  etude::internal::check_options(layer, given, where);
  etude::internal::located(layer, where, [&] {
    ETUDE_REQUIRE(filter.has_value() && filter.rank() == 3 && filter.size() > 0,
                  "the filter is {}, but must be [height, width, channels]",
                  filter.has_value() ? filter.type()->to_string() : "absent");
    sizes_of(given.strides, 2, "strides");
    sizes_of(given.rates, 2, "rates");
    ETUDE_REQUIRE(given.padding == "valid" || given.padding == "same",
                  "padding is \"{}\", but must be \"valid\" or \"same\"", given.padding);
  });
}

}  // namespace internal

Tensor Dilation2D::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Dilation2D", where, flops_of(filter), [&] {
    require_channels(x, filter);
    const MorphologyOptions& o = settings_.options;
    return image::dilation2d({x, where}, filter,
                             {.strides = o.strides, .padding = o.padding, .dilations = o.rates});
  });
}

Tensor Erosion2D::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Erosion2D", where, flops_of(filter), [&] {
    require_channels(x, filter);
    const MorphologyOptions& o = settings_.options;
    return image::erosion2d({x, where}, filter,
                            {.strides = o.strides, .padding = o.padding, .dilations = o.rates});
  });
}

}  // namespace etude::nn
