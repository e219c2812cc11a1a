// SPDX-License-Identifier: Apache-2.0
// Sums along an axis with separate weights for each result: resizing of images, and filters. Used
// by ops/image/image.cc.
#pragma once

#include <vector>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// A matrix [rows, columns] with a run of weights in each row.
struct Taps {
  int64_t rows = 0, columns = 0;
  std::vector<int64_t> start;   // by row: its first column
  std::vector<int64_t> offset;  // by row: start of its weights; then the end
  std::vector<double> weights;
};
// The transposed matrix, with zeros in the gaps of a column.
Taps transposed(const Taps& taps);

// y[.., i, ..] = sum of taps[i, j] x[.., j, ..] along `axis` of a floating operand. Half types are
// summed as float32.
void prepare_resample(const PrepareCall& call, int axis, Taps taps);

}  // namespace etude::kernels::cpu
