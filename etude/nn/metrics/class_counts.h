// SPDX-License-Identifier: Apache-2.0
// The counts of class metrics, as tensors. Used by metrics.cc and class_metrics.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "etude/core/tensor.h"

namespace etude::nn::internal {

// Returns int64 [classes * classes + 1]: the counts of each predicted class (column) for each label
// (row), then the number of labels out of range.
Tensor confusion_counts(const Tensor& predicted, const Tensor& labels);
// Returns the elements of such counts, without the last. throws: kOutOfRange if there are labels
// out of range.
std::vector<int64_t> read_confusion(const Tensor& counts);
// The number of classes of such counts.
int64_t classes_of(const Tensor& counts);
// A number of samples as a tensor, int64[].
inline Tensor count_tensor(int64_t n) { return Tensor(std::vector<int64_t>{n}, Shape{}); }
// of / all; 0 if all is 0.
inline double part(double of, double all) { return all > 0 ? of / all : 0; }

}  // namespace etude::nn::internal
