// SPDX-License-Identifier: Apache-2.0
// What metrics of classes count, as tensors. Used by metrics.cc and class_metrics.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "etude/core/tensor.h"

namespace etude::nn::detail {

// [classes * classes + 1], int64: how often each label (row) was predicted as which class, then how
// often labels lay outside.
Tensor confusion_counts(const Tensor& predicted, const Tensor& labels);
// The same read back, without the last. throws: kOutOfRange if there are labels outside.
std::vector<std::int64_t> read_confusion(const Tensor& counts);
// Classes of such counts.
std::int64_t classes_of(const Tensor& counts);
// A number of samples, int64[].
inline Tensor count_tensor(std::int64_t n) { return Tensor(std::vector<std::int64_t>{n}, Shape{}); }
// of / all, and 0 of nothing.
inline double part(double of, double all) { return all > 0 ? of / all : 0; }

}  // namespace etude::nn::detail
