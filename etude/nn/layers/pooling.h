// SPDX-License-Identifier: Apache-2.0
// Pooling, padding, cropping and up-sampling over one, two or three axes: of [n, width, channels],
// [n, height, width, channels] or [n, depth, height, width, channels].
//
// An option for axes is a single number for all axes, or a number for each axis.
//
// throws, all of them (construction): kInvalidArgument for sizes below their minimum, and a list of
// sizes whose length is not the number of axes. throws (call): kInvalidArgument for an input of
// another rank, and for an input that is too small for a result.
#pragma once

#include <string>
#include <vector>

#include "etude/base/fields.h"
#include "etude/core/op/attrs.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct PoolOptions {
  IntList strides = {};  // default: the window
  std::string padding = "valid";

  static constexpr void ranges(const auto& option) {
    option("strides", &PoolOptions::strides, at_least(1));
  }
};

// The largest element of each window.
template <int axes>
class MaxPool {
 public:
  explicit MaxPool(const IntList& window, PoolOptions options = {},
                   CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(MaxPool);
  ETUDE_HOST_VALUES(window_, options_);

 private:
  IntList window_;
  PoolOptions options_;
};
using MaxPool1D = MaxPool<1>;
using MaxPool2D = MaxPool<2>;
using MaxPool3D = MaxPool<3>;

// The mean of each window, over the elements inside the image.
template <int axes>
class AvgPool {
 public:
  explicit AvgPool(const IntList& window, PoolOptions options = {},
                   CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(AvgPool);
  ETUDE_HOST_VALUES(window_, options_);

 private:
  IntList window_;
  PoolOptions options_;
};
using AvgPool1D = AvgPool<1>;
using AvgPool2D = AvgPool<2>;
using AvgPool3D = AvgPool<3>;

// The maximum over all axes but the first and the last: [n, channels].
template <int axes>
class GlobalMaxPool {
 public:
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(GlobalMaxPool);
};
using GlobalMaxPool1D = GlobalMaxPool<1>;
using GlobalMaxPool2D = GlobalMaxPool<2>;
using GlobalMaxPool3D = GlobalMaxPool<3>;

// The mean over all axes but the first and the last: [n, channels].
template <int axes>
class GlobalAvgPool {
 public:
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(GlobalAvgPool);
};
using GlobalAvgPool1D = GlobalAvgPool<1>;
using GlobalAvgPool2D = GlobalAvgPool<2>;
using GlobalAvgPool3D = GlobalAvgPool<3>;

struct FractionalMaxPoolOptions {
  bool pseudo_random = false;  // regions from one number per axis; else shuffled sizes
  bool overlapping = false;
  int64_t seed = 0;  // the same regions for the same seed and size, in every call
};
// Divides height and width into size / ratio regions, and returns the maximum of each region, as
// the op fractional_max_pool2d. `ratio` has a number for each axis; it must be 1 for examples and
// channels.
//
// throws (construction): kInvalidArgument if the ratio of examples or channels is not 1, and for a
// ratio below 1.
class FractionalMaxPool2D {
 public:
  explicit FractionalMaxPool2D(std::vector<double> ratio, FractionalMaxPoolOptions options = {},
                               CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(FractionalMaxPool2D);
  ETUDE_HOST_VALUES(ratio_, options_);

 private:
  std::vector<double> ratio_;
  FractionalMaxPoolOptions options_;
};

// Repeats each element `size` times along each axis.
template <int axes>
class UpSampling {
 public:
  explicit UpSampling(const IntList& size, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(UpSampling);
  ETUDE_HOST_VALUES(size_);

 private:
  std::vector<int64_t> size_;
};
using UpSampling1D = UpSampling<1>;
using UpSampling2D = UpSampling<2>;
using UpSampling3D = UpSampling<3>;

// Adds zeros before and after each axis. `widths` is a single number for all, or a list with the
// numbers before and after each axis in turn.
template <int axes>
class ZeroPadding {
 public:
  explicit ZeroPadding(const IntList& widths, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(ZeroPadding);
  ETUDE_HOST_VALUES(widths_);

 private:
  std::vector<int64_t> widths_;  // of all axes of x
};
using ZeroPadding1D = ZeroPadding<1>;
using ZeroPadding2D = ZeroPadding<2>;
using ZeroPadding3D = ZeroPadding<3>;

// Removes elements at the beginning and the end of each axis; `widths` is as in ZeroPadding.
template <int axes>
class Cropping {
 public:
  explicit Cropping(const IntList& widths, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(Cropping);
  ETUDE_HOST_VALUES(widths_);

 private:
  std::vector<int64_t> widths_;
};
using Cropping1D = Cropping<1>;
using Cropping2D = Cropping<2>;
using Cropping3D = Cropping<3>;

#define ETUDE_INTERNAL_POOLS(linkage, axes)   \
  linkage template class MaxPool<axes>;       \
  linkage template class AvgPool<axes>;       \
  linkage template class GlobalMaxPool<axes>; \
  linkage template class GlobalAvgPool<axes>; \
  linkage template class UpSampling<axes>;    \
  linkage template class ZeroPadding<axes>;   \
  linkage template class Cropping<axes>
ETUDE_INTERNAL_POOLS(extern, 1);
ETUDE_INTERNAL_POOLS(extern, 2);
ETUDE_INTERNAL_POOLS(extern, 3);

// Maps [n, h, w, channels * block^2] to [n, h * block, w * block, channels]: the numbers of a pixel
// become a block of pixels, row by row.
class PixelShuffle {
 public:
  explicit PixelShuffle(int64_t block, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  ETUDE_FIELDS(PixelShuffle);
  ETUDE_HOST_VALUES(block_);

 private:
  int64_t block_;
};

}  // namespace nn
}  // namespace etude
