// SPDX-License-Identifier: Apache-2.0
// Two-dimensional pooling on images [n, height, width, channels]. Windows are cut at the border of
// the image: padding elements do not count. Used by ops/image/pooling.cc.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

struct PoolPlan {
  int64_t n = 0, h = 0, w = 0, c = 0;      // x
  int64_t oh = 0, ow = 0;                  // y [n, oh, ow, c]
  int64_t kh = 1, kw = 1, sh = 1, sw = 1;  // window, strides
  int64_t top = 0, left = 0;               // padding in front

  int64_t image() const { return h * w * c; }
  int64_t result() const { return oh * ow * c; }
};

enum class Pool {
  kMax,         // x -> y
  kMaxScatter,  // y, x -> x: each y goes to the first maximum of its window in x
  kMaxGather,   // g, x -> y: the element of g at the first maximum of each window in x
  kMean,        // x -> y
  kMeanSpread,  // y -> x: the transpose of kMean
};
void prepare_pool2d(const PrepareCall& call, const PoolPlan& plan, Pool pool);

}  // namespace etude::kernels::cpu
