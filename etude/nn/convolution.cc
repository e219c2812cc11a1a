// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/convolution.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

// One number per axis from one or two.
std::vector<std::int64_t> pair_of(const IntList& list, std::string_view layer) {
  std::vector<std::int64_t> sizes = list.values();
  if (sizes.size() == 1) sizes.push_back(sizes[0]);
  ETUDE_REQUIRE(sizes.size() == 2 && std::min(sizes[0], sizes[1]) >= 1,
                "{}: the window needs one or two sizes of at least 1", layer);
  return sizes;
}

}  // namespace

Conv2D::Conv2D(const IntList& window, std::int64_t in, std::int64_t out,
               const Conv2DOptions& options)
    : strides_(options.strides),
      explicit_padding_(options.explicit_padding),
      dilations_(options.dilations),
      padding_(options.padding),
      groups_(options.groups),
      activation_(options.activation) {
  ETUDE_REQUIRE(in >= 1 && out >= 1,
                "Conv2D: {} input and {} output channels; both must be at "
                "least 1",
                in, out);
  ETUDE_REQUIRE(groups_ >= 1 && in % groups_ == 0 && out % groups_ == 0,
                "Conv2D: {} groups must divide {} input and {} output channels", groups_, in, out);
  const std::vector<std::int64_t> size = pair_of(window, "Conv2D");
  filter = options.filter_init({size[0], size[1], in / groups_, out});
  if (options.bias) bias = options.bias_init({out});
}

Tensor Conv2D::operator()(const Tensor& x, CallSite where) const {
  const std::int64_t flops = 2 * filter.size() / filter.shape()[3];
  return detail::run_layer(this, "Conv2D", where, flops, [&] {
    detail::require_input(x, 4, filter.shape()[2] * groups_, filter, "filter");
    return activation_(conv2d({x, where}, filter,
                              {.strides = strides_,
                               .padding = padding_,
                               .explicit_padding = explicit_padding_,
                               .dilations = dilations_,
                               .groups = groups_,
                               .bias = bias}));
  });
}

MaxPool2D::MaxPool2D(IntList window, PoolOptions options)
    : window_(pair_of(window, "MaxPool2D")), options_(std::move(options)) {}
Tensor MaxPool2D::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "MaxPool2D", where, 0, [&] {
    detail::require_input(x, 4, -1, {}, "");
    return max_pool2d({x, where}, window_,
                      {.strides = options_.strides, .padding = options_.padding});
  });
}

AvgPool2D::AvgPool2D(IntList window, PoolOptions options)
    : window_(pair_of(window, "AvgPool2D")), options_(std::move(options)) {}
Tensor AvgPool2D::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "AvgPool2D", where, 0, [&] {
    detail::require_input(x, 4, -1, {}, "");
    return avg_pool2d({x, where}, window_,
                      {.strides = options_.strides, .padding = options_.padding});
  });
}

}  // namespace etude::nn
