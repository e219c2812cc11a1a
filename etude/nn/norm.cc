// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/norm.h"

#include "etude/base/check.h"
#include "etude/core/ambient.h"
#include "etude/nn/init.h"
#include "etude/ops.h"
#include "etude/runtime/announce.h"
#include "etude/runtime/custom_gradient.h"

namespace etude::nn {

BatchNorm::BatchNorm(std::int64_t features, const BatchNormOptions& options, CallSite where)
    : options_(options) {
  etude::internal::check_options("BatchNorm", options, where);
  etude::internal::located("BatchNorm", where, [&] {
    ETUDE_REQUIRE(features >= 1, "{} features; at least 1 is needed", features);
    scale = ones({features});
    offset = zeros({features});
    running.value = {.mean = zeros({features}), .variance = ones({features})};
  });
}

BatchStatistics BatchNorm::next(const BatchStatistics& was, const Tensor& mean,
                                const Tensor& var) const {
  const double rest = 1 - options_.momentum;
  return {.mean = was.mean + (stop_gradient(mean) - was.mean) * rest,
          .variance = was.variance + (stop_gradient(var) - was.variance) * rest};
}

template <class Fn>
Tensor BatchNorm::standardized(const Tensor& x, CallSite where, const Fn& moved) const {
  auto [y, mean, var] = batch_standardize({x, where}, offset, scale,
                                          {.axis = options_.axis, .epsilon = options_.epsilon});
  moved(mean, var);
  return y;
}

void BatchNorm::require_features(const Tensor& x) const {
  detail::require_input(x, -2, -1, scale, "scale");
  const int axis = normalize_axis(options_.axis, x.rank());
  ETUDE_REQUIRE(x.shape()[axis] == scale.shape()[0],
                "the input has shape {} with {} features on axis {}, but the layer has "
                "{} (its scale has shape {})",
                x.shape().to_string(), x.shape()[axis], axis, scale.shape()[0],
                scale.shape().to_string());
}

Tensor BatchNorm::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "BatchNorm", where, 2, [&] {
    require_features(x);
    if (is_training()) {
      return standardized(x, where, [&](const Tensor& mean, const Tensor& var) {
        announce(
            running, "BatchNorm", [&](const BatchStatistics& was) { return next(was, mean, var); },
            where);
      });
    }
    return batch_normalize({x, where}, running.value.mean, running.value.variance, offset, scale,
                           {.axis = options_.axis, .epsilon = options_.epsilon});
  });
}

Tensor BatchNorm::train(const Tensor& x, BatchStatistics& statistics, CallSite where) const {
  return detail::run_layer(this, "BatchNorm", where, 2, [&] {
    require_features(x);
    return standardized(x, where, [&](const Tensor& mean, const Tensor& var) {
      statistics = next(statistics, mean, var);
    });
  });
}

}  // namespace etude::nn
