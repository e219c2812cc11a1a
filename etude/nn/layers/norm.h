// SPDX-License-Identifier: Apache-2.0
// Normalisation layers. BatchNorm normalises features over a batch, with running statistics that
// training updates and inference uses. The others normalise each example by itself, in the same way
// in both phases.
#pragma once

#include "etude/base/fields.h"
#include "etude/core/op/attrs.h"
#include "etude/core/option_ranges.h"
#include "etude/diff/layer_state.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// Statistics over the batches of a training run, stored outside of the parameters.
struct BatchStatistics {
  Tensor mean;
  Tensor variance;
};

struct BatchNormOptions {
  int64_t axis = -1;
  double momentum = 0.99;  // of the running statistics
  double epsilon = 0.001;

  static constexpr void ranges(const auto& option) {
    option("momentum", &BatchNormOptions::momentum, within(0, 1));
    option("epsilon", &BatchNormOptions::epsilon, at_least(0));
  }
};

// (x - mean) / sqrt(variance + epsilon) * scale + offset, per feature. Inference uses the running
// statistics. The training phase uses the statistics of the batch, with the biased variance, and
// makes the state update running += (batch - running) * (1 - momentum): the gradient of the model
// holds it, and optimizer.update and move() apply it. A layer that is called twice makes two
// updates.
//
// throws (call): kInvalidArgument for an input whose axis has another size.
class BatchNorm {
 public:
  explicit BatchNorm(int64_t features, const BatchNormOptions& options = {},
                     CallSite where = CallSite::here());

  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  // As in the training phase, but updates `statistics` at once, without a state update. For
  // statistics that are stored outside of the model. No derivative passes through them.
  Tensor train(const Tensor& x, BatchStatistics& statistics,
               CallSite where = CallSite::here()) const;

  Tensor scale, offset;
  LayerState<BatchStatistics> running;  // initially mean 0 and variance 1
  ETUDE_FIELDS(BatchNorm, scale, offset, running);
  ETUDE_HOST_VALUES(options_);

 private:
  // Computes the training phase, and calls `moved` with the mean and variance of the batch.
  template <class Fn>
  Tensor standardized(const Tensor& x, CallSite where, const Fn& moved) const;
  BatchStatistics next(const BatchStatistics& was, const Tensor& mean, const Tensor& var) const;
  void require_features(const Tensor& x) const;

  BatchNormOptions options_;
};

struct LayerNormOptions {
  IntList axes = {};  // default: the last axes, one for each size of the shape
  double epsilon = 0.001;
  bool offset = true;

  static constexpr void ranges(const auto& option) {
    option("epsilon", &LayerNormOptions::epsilon, at_least(0));
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
  Tensor offset;  // absent if the options state no offset
  ETUDE_FIELDS(LayerNorm, scale, offset);
  ETUDE_HOST_VALUES(axes_, epsilon_);

 private:
  std::vector<int64_t> axes_;
  double epsilon_;
};

// x / sqrt(mean square + epsilon) * scale, over the last axis.
//
// throws: as LayerNorm.
class RMSNorm {
 public:
  explicit RMSNorm(int64_t size, double epsilon = 0.001, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor scale;
  ETUDE_FIELDS(RMSNorm, scale);
  ETUDE_HOST_VALUES(epsilon_);

 private:
  double epsilon_;
};

struct GroupNormOptions {
  int64_t axis = -1;
  double epsilon = 0.001;

  static constexpr void ranges(const auto& option) {
    option("epsilon", &GroupNormOptions::epsilon, at_least(0));
  }
};

// As LayerNorm, with statistics over all axes except the first, separately for each of `groups`
// groups of adjacent features.
//
// throws (construction): kInvalidArgument for groups that do not divide the features, and for axis
// 0. throws (call): kInvalidArgument for an input whose axis has another size.
class GroupNorm {
 public:
  GroupNorm(int64_t features, int64_t groups, const GroupNormOptions& options = {},
            CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  Tensor scale, offset;
  ETUDE_FIELDS(GroupNorm, scale, offset);
  ETUDE_HOST_VALUES(groups_, options_);

 private:
  int64_t groups_;
  GroupNormOptions options_;
};

// GroupNorm with one group per feature.
class InstanceNorm {
 public:
  explicit InstanceNorm(int64_t features, const GroupNormOptions& options = {},
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
