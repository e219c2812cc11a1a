// SPDX-License-Identifier: Apache-2.0
// float32 convolutions with filters of 3 by 3 by Winograd's minimal filtering F(2x2, 3x3): four
// results take 16 products for each pair of channels instead of 36.
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, section 4.1.
//
// The windows of 4 by 4 pixels are transformed by sums and differences, and the products of all
// windows at one of the 16 positions are one matrix product over the channels. Rounding errors are
// as large as in a direct sum over the window of four results. If a value in the window is not
// finite, none of the four results is finite.
#pragma once

#include "etude/kernels/cpu/conv/conv.h"

namespace etude::kernels::cpu {

// Whether a convolution of this shape and its gradients use this method: the filter is dense, it
// moves by single pixels, and there are enough channels and pixels to pay for the transforms. The
// choice depends on the shape of an image alone, so results do not depend on the batch.
bool has_winograd(const ConvPlan& plan);

// Splits the work over threads. Results have the same bits for every split and instruction set.
// throws: std::bad_alloc.
void winograd_correlate(const ConvPlan& plan, float* out, const float* x, const float* filter,
                        const float* bias);
void winograd_filter_gradient(const ConvPlan& plan, float* out, const float* x, const float* ct);

}  // namespace etude::kernels::cpu
