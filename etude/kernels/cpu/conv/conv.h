// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolutions and their gradients for every numeric dtype, images as
// [n, height, width, channels] and filters as [height, width, channels / groups, outputs]. Used by
// ops/image/convolution.cc.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// The sizes of y = conv2d(x, filter); gradients of that convolution use it too.
struct ConvPlan {
  int64_t n = 0, h = 0, w = 0, c = 0;  // x
  int64_t kh = 0, kw = 0, o = 0;       // filter [kh, kw, c / groups, o]
  int64_t oh = 0, ow = 0;              // y [n, oh, ow, o]
  int64_t groups = 1;
  int64_t sh = 1, sw = 1, dh = 1, dw = 1;  // strides, dilations
  int64_t top = 0, left = 0;               // padding in front

  int64_t group_inputs() const { return c / groups; }
  int64_t group_outputs() const { return o / groups; }
  int64_t image() const { return h * w * c; }
  int64_t result() const { return oh * ow * o; }
  int64_t filter() const { return kh * kw * group_inputs() * o; }
};

// The kernels of a convolution (operands x, filter, bias?; result y), of its gradient by x
// (operands cotangent, filter), and of its gradient by the filter (operands x, cotangent).
void prepare_conv2d(const PrepareCall& call, const ConvPlan& plan);
void prepare_conv2d_input_gradient(const PrepareCall& call, const ConvPlan& plan);
void prepare_conv2d_filter_gradient(const PrepareCall& call, const ConvPlan& plan);

// The array that a pass over the three arrays of a convolution computes.
enum class ConvPass { kForward, kInputGradient, kFilterGradient };
// Direct sums, for dtypes other than float32. `in` are the two operands in the order above, and
// bias or null.
void conv2d_generic(const ConvPlan& plan, ConvPass pass, DType dtype, void* out,
                    const void* const* in);

// The input gradient of float32 values by sums over taps: for few channels and for strides.
void conv2d_input_columns(const ConvPlan& plan, float* out, const float* ct, const float* filter);

}  // namespace etude::kernels::cpu
