// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, with running statistics that change only where they are passed by reference.
#pragma once

#include "etude/base/fields.h"
#include "etude/base/has_leaf.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// Statistics over the batches of a training run: a value beside the model.
struct BatchStatistics {
  Tensor mean;
  Tensor variance;
};

struct BatchNormOptions {
  std::int64_t axis = -1;
  double momentum = 0.99;  // of the running statistics
  double epsilon = 0.001;

  static constexpr auto ranges() {
    return std::tuple{OptionRange{"momentum", &BatchNormOptions::momentum, within(0, 1)},
                      OptionRange{"epsilon", &BatchNormOptions::epsilon, at_least(0)}};
  }
};

// (x - mean) / sqrt(variance + epsilon) * scale + offset, per feature. Inference takes the running
// statistics; in the training phase those of the batch are taken, with the biased variance.
//
//   Tensor y = norm.train(x, norm_statistics);   // training: updates the caller's statistics
//   norm.running.value = norm_statistics;        // what inference will use
//
// throws (call): kInvalidArgument for an input whose axis has another size.
class BatchNorm {
 public:
  explicit BatchNorm(std::int64_t features, const BatchNormOptions& options = {},
                     CallSite where = CallSite::here());

  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  // As in the training phase; then statistics += (batch - statistics) * (1 - momentum). No
  // derivative flows through the statistics.
  Tensor train(const Tensor& x, BatchStatistics& statistics,
               CallSite where = CallSite::here()) const;

  Tensor scale, offset;
  NoDerivative<BatchStatistics> running;  // mean 0 and variance 1 at first
  ETUDE_FIELDS(BatchNorm, scale, offset, running);

 private:
  void require_features(const Tensor& x) const;

  BatchNormOptions options_;
};

}  // namespace nn
}  // namespace etude
