// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/norm.h"

#include "etude/base/check.h"
#include "etude/core/ambient.h"
#include "etude/nn/init.h"
#include "etude/ops.h"
#include "etude/runtime/custom_gradient.h"

namespace etude::nn {

BatchNorm::BatchNorm(std::int64_t features, const BatchNormOptions& options) : options_(options) {
  ETUDE_REQUIRE(features >= 1, "BatchNorm: {} features; at least 1 is needed", features);
  scale = ones({features});
  offset = zeros({features});
  running.value = {.mean = zeros({features}), .variance = ones({features})};
}

// The shape [1, .., features, .., 1] that lays a parameter along its axis.
Shape BatchNorm::parameter_shape(const Tensor& x) const {
  detail::require_input(x, -2, -1, scale, "scale");
  const int axis = normalize_axis(options_.axis, x.rank());
  ETUDE_REQUIRE(x.shape()[axis] == scale.shape()[0],
                "the input has shape {} with {} features on axis {}, but the layer has "
                "{} (its scale has shape {})",
                x.shape().to_string(), x.shape()[axis], axis, scale.shape()[0],
                scale.shape().to_string());
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) shape.set(i, 1);
  }
  return shape;
}

BatchNorm::Moments BatchNorm::moments_of(const Tensor& x, CallSite where) const {
  const int axis = normalize_axis(options_.axis, x.rank());
  std::vector<std::int64_t> others;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const Tensor mean = etude::mean({x, where}, {.axis = others, .keepdims = true});
  const Tensor away = Arg(x, where) - mean;
  return {mean, etude::mean(away * away, {.axis = others, .keepdims = true})};
}

Tensor BatchNorm::normalized(const Tensor& x, const Tensor& mean, const Tensor& variance,
                             CallSite where) const {
  const Shape shape = parameter_shape(x);
  const Tensor factor = reshape(scale, shape) * rsqrt(reshape(variance, shape) + options_.epsilon);
  return (Arg(x, where) - reshape(mean, shape)) * factor + reshape(offset, shape);
}

Tensor BatchNorm::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "BatchNorm", where, 2, [&] {
    static_cast<void>(parameter_shape(x));
    if (!is_training()) return normalized(x, running.value.mean, running.value.variance, where);
    const Moments batch = moments_of(x, where);
    return normalized(x, batch.mean, batch.variance, where);
  });
}

Tensor BatchNorm::train(const Tensor& x, BatchStatistics& statistics, CallSite where) const {
  return detail::run_layer(this, "BatchNorm", where, 2, [&] {
    static_cast<void>(parameter_shape(x));
    const Moments batch = moments_of(x, where);
    const double rest = 1 - options_.momentum;
    const Shape flat = scale.shape();
    statistics.mean += (stop_gradient(reshape(batch.mean, flat)) - statistics.mean) * rest;
    statistics.variance +=
        (stop_gradient(reshape(batch.variance, flat)) - statistics.variance) * rest;
    return normalized(x, batch.mean, batch.variance, where);
  });
}

}  // namespace etude::nn
