// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/pooling.h"

#include "etude/base/check.h"
#include "etude/core/call/run.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/families.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

using etude::internal::op;
using etude::internal::run;
using internal::name_of;
using Sizes = std::vector<int64_t>;

// "MaxPool1D", "MaxPool2D" or "MaxPool3D". As long as the text of the family.
#define ETUDE_NAME(family) name_of<axes>(#family "1D", #family "2D", #family "3D")

// The widths before and after every axis of x; the first and the last axis have none.
Sizes all_widths(const IntList& widths, int axes) {
  Sizes given = widths.values();
  const auto count = static_cast<std::size_t>(2 * axes);
  if (given.size() == 1) given.resize(count, given[0]);
  ETUDE_REQUIRE(given.size() == count,
                "{} widths; needed are one, or {}: before and after each axis in turn",
                given.size(), count);
  Sizes all{0, 0};
  for (const int64_t width : given) {
    ETUDE_REQUIRE(width >= 0, "the width {}; needed is at least 0", width);
    all.push_back(width);
  }
  all.push_back(0);
  all.push_back(0);
  return all;
}

Sizes inner_axes(int axes) {
  Sizes inner;
  for (int axis = 1; axis <= axes; ++axis) inner.push_back(axis);
  return inner;
}

template <int axes>
IntList checked_window(const char* name, const IntList& window, const PoolOptions& options,
                       CallSite where) {
  etude::internal::check_options(name, options, where);
  return etude::internal::located(name, where, [&] {
    if (options.strides.is_given()) {
      static_cast<void>(internal::sizes_of(options.strides, axes, "strides"));
    }
    return IntList(internal::sizes_of(window, axes, "the window"));
  });
}

template <int axes>
Tensor pooled(const Op& pool, const Tensor& x, const IntList& window, const PoolOptions& options,
              CallSite where) {
  internal::require_input(x, axes + 2, -1, {}, "");
  return run(pool, {&x}, {window, options.strides, options.padding, none}, where);
}

}  // namespace

template <int axes>
MaxPool<axes>::MaxPool(const IntList& window, PoolOptions options, CallSite where)
    : window_(checked_window<axes>(ETUDE_NAME(MaxPool), window, options, where)),
      options_(std::move(options)) {}
template <int axes>
Tensor MaxPool<axes>::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, ETUDE_NAME(MaxPool), where, 0, [&] {
    const Op& pool = axes == 1   ? op<"max_pool1d">()
                     : axes == 2 ? op<"max_pool2d">()
                                 : op<"max_pool3d">();
    return pooled<axes>(pool, x, window_, options_, where);
  });
}

template <int axes>
AvgPool<axes>::AvgPool(const IntList& window, PoolOptions options, CallSite where)
    : window_(checked_window<axes>(ETUDE_NAME(AvgPool), window, options, where)),
      options_(std::move(options)) {}
template <int axes>
Tensor AvgPool<axes>::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, ETUDE_NAME(AvgPool), where, 0, [&] {
    const Op& pool = axes == 1   ? op<"avg_pool1d">()
                     : axes == 2 ? op<"avg_pool2d">()
                                 : op<"avg_pool3d">();
    return pooled<axes>(pool, x, window_, options_, where);
  });
}

template <int axes>
Tensor GlobalMaxPool<axes>::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, ETUDE_NAME(GlobalMaxPool), where, 0, [&] {
    internal::require_input(x, axes + 2, -1, {}, "");
    return max({x, where}, {.axis = inner_axes(axes)});
  });
}
template <int axes>
Tensor GlobalAvgPool<axes>::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, ETUDE_NAME(GlobalAvgPool), where, 0, [&] {
    internal::require_input(x, axes + 2, -1, {}, "");
    return mean({x, where}, {.axis = inner_axes(axes)});
  });
}

FractionalMaxPool2D::FractionalMaxPool2D(std::vector<double> ratio,
                                         FractionalMaxPoolOptions options, CallSite where)
    : ratio_(std::move(ratio)), options_(options) {
  etude::internal::located("FractionalMaxPool2D", where, [&] {
    ETUDE_REQUIRE(ratio_.size() == 4, "ratio has {} numbers, but needs one for each of 4 axes",
                  ratio_.size());
    ETUDE_REQUIRE(ratio_[0] == 1 && ratio_[3] == 1,
                  "ratio is {} for examples and {} for channels, but both must be 1", ratio_[0],
                  ratio_[3]);
    ETUDE_REQUIRE(ratio_[1] >= 1 && ratio_[2] >= 1,
                  "ratio is {} for height and {} for width, but both must be at least 1", ratio_[1],
                  ratio_[2]);
  });
}
Tensor FractionalMaxPool2D::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "FractionalMaxPool2D", where, 0, [&] {
    internal::require_input(x, 4, -1, {}, "");
    return fractional_max_pool2d({x, where}, ratio_,
                                 {.pseudo_random = options_.pseudo_random,
                                  .overlapping = options_.overlapping,
                                  .seed = options_.seed});
  });
}

template <int axes>
UpSampling<axes>::UpSampling(const IntList& size, CallSite where)
    : size_(etude::internal::located(ETUDE_NAME(UpSampling), where,
                                     [&] { return internal::sizes_of(size, axes, "size"); })) {}
template <int axes>
Tensor UpSampling<axes>::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, ETUDE_NAME(UpSampling), where, 0, [&] {
    internal::require_input(x, axes + 2, -1, {}, "");
    Tensor y = x;
    for (int axis = axes; axis >= 1; --axis) {
      const int64_t times = size_[static_cast<std::size_t>(axis - 1)];
      if (times > 1) y = repeat({y, where}, times, {.axis = axis});
    }
    return y;
  });
}

template <int axes>
ZeroPadding<axes>::ZeroPadding(const IntList& widths, CallSite where)
    : widths_(etude::internal::located(ETUDE_NAME(ZeroPadding), where,
                                       [&] { return all_widths(widths, axes); })) {}
template <int axes>
Tensor ZeroPadding<axes>::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, ETUDE_NAME(ZeroPadding), where, 0, [&] {
    internal::require_input(x, axes + 2, -1, {}, "");
    return pad({x, where}, widths_);
  });
}

template <int axes>
Cropping<axes>::Cropping(const IntList& widths, CallSite where)
    : widths_(etude::internal::located(ETUDE_NAME(Cropping), where,
                                       [&] { return all_widths(widths, axes); })) {}
template <int axes>
Tensor Cropping<axes>::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, ETUDE_NAME(Cropping), where, 0, [&] {
    internal::require_input(x, axes + 2, -1, {}, "");
    Sizes start, stop;
    for (int axis = 0; axis < x.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(2 * axis);
      const int64_t size = x.shape()[axis];
      ETUDE_REQUIRE(widths_[at] + widths_[at + 1] <= size,
                    "{} and {} elements cannot be taken from axis {} of an input of shape {}",
                    widths_[at], widths_[at + 1], axis, x.shape().to_string());
      start.push_back(widths_[at]);
      stop.push_back(size - widths_[at + 1]);
    }
    return slice({x, where}, start, stop);
  });
}

ETUDE_INTERNAL_POOLS(, 1);
ETUDE_INTERNAL_POOLS(, 2);
ETUDE_INTERNAL_POOLS(, 3);

PixelShuffle::PixelShuffle(int64_t block, CallSite where) : block_(block) {
  etude::internal::check_range("PixelShuffle", "block", static_cast<double>(block), at_least(1),
                               where);
}
Tensor PixelShuffle::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "PixelShuffle", where, 0, [&] {
    internal::require_input(x, 4, -1, {}, "");
    const Shape& s = x.shape();
    const int64_t b = block_, channels = s[3] / (b * b);
    ETUDE_REQUIRE(channels * b * b == s[3],
                  "the input has shape {}, whose {} channels are no multiple of {}", s.to_string(),
                  s[3], b * b);
    const Tensor parts = reshape({x, where}, {s[0], s[1], s[2], channels, b, b});
    return reshape(permute_dims(parts, {0, 1, 4, 2, 5, 3}), {s[0], s[1] * b, s[2] * b, channels});
  });
}

}  // namespace etude::nn
