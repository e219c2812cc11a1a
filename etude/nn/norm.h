// SPDX-License-Identifier: Apache-2.0
// Normalisation: of features over a batch, whose running statistics training moves and inference
// uses, and of each example by itself, which is the same in both.
#pragma once

#include "etude/base/fields.h"
#include "etude/core/attrs.h"
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
  ETUDE_HOST_VALUES(options_);

 private:
  // In the training phase; gives `moved` the mean and variance of the batch.
  template <class Fn>
  Tensor standardized(const Tensor& x, CallSite where, const Fn& moved) const;
  BatchStatistics next(const BatchStatistics& was, const Tensor& mean, const Tensor& var) const;
  void require_features(const Tensor& x) const;

  BatchNormOptions options_;
};

struct LayerNormOptions {
  IntList axes = {};  // default: the last ones, as many as the shape has sizes
  double epsilon = 0.001;
  bool offset = true;

  static constexpr void ranges(const auto& row) {
    row("epsilon", &LayerNormOptions::epsilon, at_least(0));
  }
};

// (x - mean) / sqrt(variance + epsilon) * scale + offset, with the statistics of each example over
// `axes`. shapes: scale and offset have the sizes of x on the axes, in ascending order.
//
// throws (construction): kInvalidArgument for sizes below 1 and another number of axes. throws
// (call): kInvalidArgument for an input of other sizes on the axes.
class LayerNorm {
 public:
  explicit LayerNorm(const IntList& shape, const LayerNormOptions& options = {},
                     CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor scale;
  Tensor offset;  // absent if the options say so
  ETUDE_FIELDS(LayerNorm, scale, offset);
  ETUDE_HOST_VALUES(axes_, epsilon_);

 private:
  std::vector<std::int64_t> axes_;
  double epsilon_;
};

// x / sqrt(mean square + epsilon) * scale, over the last axis.
//
// throws: as LayerNorm.
class RMSNorm {
 public:
  explicit RMSNorm(std::int64_t size, double epsilon = 0.001, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor scale;
  ETUDE_FIELDS(RMSNorm, scale);
  ETUDE_HOST_VALUES(epsilon_);

 private:
  double epsilon_;
};

struct GroupNormOptions {
  std::int64_t axis = -1;
  double epsilon = 0.001;

  static constexpr void ranges(const auto& row) {
    row("epsilon", &GroupNormOptions::epsilon, at_least(0));
  }
};

// As LayerNorm, with statistics over all axes but the first, for each of `groups` groups of
// adjacent features by itself.
//
// throws (construction): kInvalidArgument for groups that do not divide the features, and for axis
// 0. throws (call): kInvalidArgument for an input whose axis has another size.
class GroupNorm {
 public:
  GroupNorm(std::int64_t features, std::int64_t groups, const GroupNormOptions& options = {},
            CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor scale, offset;
  ETUDE_FIELDS(GroupNorm, scale, offset);
  ETUDE_HOST_VALUES(groups_, options_);

 private:
  std::int64_t groups_;
  GroupNormOptions options_;
};

// GroupNorm with one group for each feature.
class InstanceNorm {
 public:
  explicit InstanceNorm(std::int64_t features, const GroupNormOptions& options = {},
                        CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor scale, offset;
  ETUDE_FIELDS(InstanceNorm, scale, offset);
  ETUDE_HOST_VALUES(options_);

 private:
  GroupNormOptions options_;
};

}  // namespace nn
}  // namespace etude
