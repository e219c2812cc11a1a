// SPDX-License-Identifier: Apache-2.0
// float32 convolutions with a separate filter per channel, and their gradients. No sum runs over
// channels, so vectors hold adjacent channels of one pixel. The taps of a window are added in
// order, so results have the same bits for every split and instruction set.
#pragma once

#include "etude/kernels/cpu/conv/conv.h"

namespace etude::kernels::cpu {

inline bool is_depthwise(const ConvPlan& p) {
  return p.groups > 1 && p.groups == p.c && p.c == p.o;
}

// out, a and b as in conv2d_generic; bias or null. throws: std::bad_alloc.
void depthwise(const ConvPlan& plan, ConvPass pass, float* out, const float* a, const float* b,
               const float* bias);

// The data of the loops of depthwise.inc: pixels at steps, and the taps that all of them read.
struct DepthwisePixels {
  int64_t count = 0, channels = 0;
  int64_t out_step = 0, in_step = 0;  // from pixel to pixel
  int64_t taps = 0;
  const int64_t* in_offset = nullptr;      // of each tap
  const int64_t* filter_offset = nullptr;  // of each tap
};

}  // namespace etude::kernels::cpu
