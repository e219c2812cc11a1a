// SPDX-License-Identifier: Apache-2.0
// Batch normalisation. Training moves its running statistics, which inference uses.
#pragma once

#include <tuple>

#include "etude/base/fields.h"
#include "etude/core/option_ranges.h"
#include "etude/diff/layer_state.h"
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

  static constexpr void ranges(const auto& row) {
    row("momentum", &BatchNormOptions::momentum, within(0, 1));
    row("epsilon", &BatchNormOptions::epsilon, at_least(0));
  }
};

// (x - mean) / sqrt(variance + epsilon) * scale + offset, per feature. Inference takes the running
// statistics. In the training phase those of the batch are taken, with the biased variance, and
// running += (batch - running) * (1 - momentum) is announced: the gradient of the model holds it,
// and optimizer.update and move() apply it. A layer that is called twice announces twice.
//
// throws (call): kInvalidArgument for an input whose axis has another size.
class BatchNorm {
 public:
  explicit BatchNorm(std::int64_t features, const BatchNormOptions& options = {},
                     CallSite where = CallSite::here());

  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  // As in the training phase, but moves `statistics` at once and announces nothing: for statistics
  // that are kept beside the model. No derivative flows through them.
  Tensor train(const Tensor& x, BatchStatistics& statistics,
               CallSite where = CallSite::here()) const;

  Tensor scale, offset;
  LayerState<BatchStatistics> running;  // mean 0 and variance 1 at first
  ETUDE_FIELDS(BatchNorm, scale, offset, running);
  auto host_values() const { return std::tie(options_); }

 private:
  // In the training phase; gives `moved` the mean and variance of the batch.
  template <class Fn>
  Tensor standardized(const Tensor& x, CallSite where, const Fn& moved) const;
  BatchStatistics next(const BatchStatistics& was, const Tensor& mean, const Tensor& var) const;
  void require_features(const Tensor& x) const;

  BatchNormOptions options_;
};

}  // namespace nn
}  // namespace etude
