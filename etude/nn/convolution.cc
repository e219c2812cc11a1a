// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/convolution.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

// One number per axis from one or two.
std::vector<std::int64_t> pair_of(const IntList& list) {
  std::vector<std::int64_t> sizes = list.values();
  if (sizes.size() == 1) sizes.push_back(sizes[0]);
  ETUDE_REQUIRE(sizes.size() == 2 && std::min(sizes[0], sizes[1]) >= 1,
                "the window needs one or two sizes of at least 1");
  return sizes;
}

}  // namespace

Conv2D::Conv2D(const IntList& window, std::int64_t in, std::int64_t out,
               const Conv2DOptions& options, CallSite where)
    : strides_(options.strides),
      explicit_padding_(options.explicit_padding),
      dilations_(options.dilations),
      padding_(options.padding),
      groups_(options.groups),
      activation_(options.activation) {
  etude::internal::check_options("Conv2D", options, where);
  etude::internal::located("Conv2D", where, [&] {
    ETUDE_REQUIRE(in >= 1 && out >= 1, "{} input and {} output channels; both must be at least 1",
                  in, out);
    ETUDE_REQUIRE(in % groups_ == 0 && out % groups_ == 0,
                  "{} groups must divide {} input and {} output channels", groups_, in, out);
    const std::vector<std::int64_t> size = pair_of(window);
    filter = options.filter_init({size[0], size[1], in / groups_, out});
    if (options.bias) bias = options.bias_init({out});
  });
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

MaxPool2D::MaxPool2D(IntList window, PoolOptions options, CallSite where)
    : window_(etude::internal::located("MaxPool2D", where, [&] { return pair_of(window); })),
      options_(std::move(options)) {
  etude::internal::check_options("MaxPool2D", options_, where);
}
Tensor MaxPool2D::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "MaxPool2D", where, 0, [&] {
    detail::require_input(x, 4, -1, {}, "");
    return max_pool2d({x, where}, window_,
                      {.strides = options_.strides, .padding = options_.padding});
  });
}

AvgPool2D::AvgPool2D(IntList window, PoolOptions options, CallSite where)
    : window_(etude::internal::located("AvgPool2D", where, [&] { return pair_of(window); })),
      options_(std::move(options)) {
  etude::internal::check_options("AvgPool2D", options_, where);
}
Tensor AvgPool2D::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "AvgPool2D", where, 0, [&] {
    detail::require_input(x, 4, -1, {}, "");
    return avg_pool2d({x, where}, window_,
                      {.strides = options_.strides, .padding = options_.padding});
  });
}

}  // namespace etude::nn
