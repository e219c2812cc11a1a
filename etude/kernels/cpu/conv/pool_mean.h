// SPDX-License-Identifier: Apache-2.0
// Loops of mean pooling over float32 images with all windows inside: one row of windows of an image
// [height, width, channels]. Used by pool.cc, which has the general loops; both compute the same
// bits.
#pragma once

#include <cstdint>

namespace etude::kernels::cpu {

struct MeanWindows {
  int64_t count = 0, channels = 0;  // windows of the row, and channels of each
  int64_t kh = 1, kw = 1;           // of a window
  int64_t row_step = 0;             // from one row of the image to the next, in floats
  int64_t window_step = 0;          // from one window to the next
};

// Computes y[s, c], the mean of channel c of x over window s. x begins at the first window. Each
// column of a window is summed downwards from 0, then the columns are summed from left to right.
void mean_windows(const MeanWindows& p, float* y, const float* x);

// Writes y[s, c] / (kh kw) to each pixel of window s in x. x begins at the first window. Windows
// must not overlap.
void spread_windows(const MeanWindows& p, float* x, const float* y);

}  // namespace etude::kernels::cpu
