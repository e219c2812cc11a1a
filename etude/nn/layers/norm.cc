// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/norm.h"

#include <algorithm>

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/state_update.h"
#include "etude/base/check.h"
#include "etude/nn/init.h"
#include "etude/nn/internal/phase.h"
#include "etude/ops.h"

namespace etude::nn {

BatchNorm::BatchNorm(int64_t features, const BatchNormOptions& options, CallSite where)
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
  const auto moved = [rest](const Tensor& from, const Tensor& to) {
    const Tensor now = stop_gradient(to);
    return from + ((now.dtype() == from.dtype() ? now : astype(now, from.dtype())) - from) * rest;
  };
  return {.mean = moved(was.mean, mean), .variance = moved(was.variance, var)};
}

// Statistics over a batch want more than 16 bits: of large means nothing would be left.
static bool is_narrow(DType dtype) { return is_floating(dtype) && itemsize(dtype) == 2; }
static Tensor widened(const Tensor& x) { return is_narrow(x.dtype()) ? astype(x, kFloat32) : x; }
static Tensor back_in(const Tensor& y, DType dtype) {
  return is_narrow(dtype) ? astype(y, dtype) : y;
}

template <class Fn>
Tensor BatchNorm::standardized(const Tensor& x, CallSite where, const Fn& moved) const {
  const Tensor wide = widened(x);
  auto [y, mean, var] = batch_standardize({wide, where}, widened(offset), widened(scale),
                                          {.axis = options_.axis, .epsilon = options_.epsilon});
  moved(mean, var);
  return back_in(y, x.dtype());
}

// throws: kInvalidArgument unless x has as many features on the axis as the scale.
static void require_on_axis(const Tensor& x, int64_t of_features, const Tensor& scale) {
  internal::require_input(x, -2, -1, scale, "scale");
  const int axis = normalize_axis(of_features, x.rank());
  ETUDE_REQUIRE(x.shape()[axis] == scale.shape()[0],
                "the input has shape {} with {} features on axis {}, but the layer has "
                "{} (its scale has shape {})",
                x.shape().to_string(), x.shape()[axis], axis, scale.shape()[0],
                scale.shape().to_string());
}

void BatchNorm::require_features(const Tensor& x) const {
  require_on_axis(x, options_.axis, scale);
}

Tensor BatchNorm::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "BatchNorm", where, 2, [&] {
    require_features(x);
    if (internal::is_trained("BatchNorm", where)) {
      return standardized(x, where, [&](const Tensor& mean, const Tensor& var) {
        update_state(
            running, "BatchNorm", [&](const BatchStatistics& was) { return next(was, mean, var); },
            where);
      });
    }
    const Tensor wide = widened(x);
    const BatchStatistics& own = running.value;
    const auto fitting = [&](const Tensor& t) {  // running statistics keep their dtype
      return t.dtype() == wide.dtype() ? t : astype(t, wide.dtype());
    };
    const Tensor y =
        batch_normalize({wide, where}, fitting(own.mean), fitting(own.variance), widened(offset),
                        widened(scale), {.axis = options_.axis, .epsilon = options_.epsilon});
    return back_in(y, x.dtype());
  });
}

Tensor BatchNorm::train(const Tensor& x, BatchStatistics& statistics, CallSite where) const {
  return internal::run_layer(this, "BatchNorm", where, 2, [&] {
    require_features(x);
    return standardized(x, where, [&](const Tensor& mean, const Tensor& var) {
      statistics = next(statistics, mean, var);
    });
  });
}

LayerNorm::LayerNorm(const IntList& shape, const LayerNormOptions& options, CallSite where)
    : axes_(options.axes.values()), epsilon_(options.epsilon) {
  etude::internal::check_options("LayerNorm", options, where);
  etude::internal::located("LayerNorm", where, [&] {
    const Shape sizes = shape.values();
    ETUDE_REQUIRE(sizes.rank() >= 1 && sizes.count() >= 1,
                  "the shape {}; at least one size is needed, and all above 0", sizes.to_string());
    if (axes_.empty()) {
      for (int i = sizes.rank(); i >= 1; --i) axes_.push_back(-i);
    }
    ETUDE_REQUIRE(axes_.size() == static_cast<std::size_t>(sizes.rank()),
                  "{} axes for the shape {}; needed is one for each size", axes_.size(),
                  sizes.to_string());
    scale = ones(sizes);
    if (options.offset) offset = zeros(sizes);
  });
}

Tensor LayerNorm::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "LayerNorm", where, 2, [&] {
    internal::require_input(x, -scale.rank(), -1, scale, "scale");
    std::vector<int> axes = normalize_axes(axes_, x.rank());
    std::sort(axes.begin(), axes.end());
    Shape found;
    for (const int axis : axes) found.push_back(x.shape()[axis]);
    ETUDE_REQUIRE(found == scale.shape(),
                  "the input has shape {}, with {} on the axes of the layer, which needs {}",
                  x.shape().to_string(), found.to_string(), scale.shape().to_string());
    return layer_normalize({x, where}, axes_,
                           {.epsilon = epsilon_, .scale = scale, .offset = offset});
  });
}

RMSNorm::RMSNorm(int64_t size, double epsilon, CallSite where) : epsilon_(epsilon) {
  etude::internal::check_range("RMSNorm", "epsilon", epsilon, at_least(0), where);
  etude::internal::located("RMSNorm", where, [&] {
    ETUDE_REQUIRE(size >= 1, "the size {}; needed is at least 1", size);
    scale = ones({size});
  });
}

Tensor RMSNorm::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "RMSNorm", where, 2, [&] {
    internal::require_input(x, -1, scale.shape()[0], scale, "scale");
    return rms_normalize({x, where}, {-1}, {.epsilon = epsilon_, .scale = scale});
  });
}

GroupNorm::GroupNorm(int64_t features, int64_t groups, const GroupNormOptions& options,
                     CallSite where)
    : groups_(groups), options_(options) {
  etude::internal::check_options("GroupNorm", options, where);
  etude::internal::located("GroupNorm", where, [&] {
    ETUDE_REQUIRE(groups >= 1 && features >= 1 && features % groups == 0,
                  "{} groups do not divide {} features", groups, features);
    ETUDE_REQUIRE(options.axis != 0, "axis is 0, which counts the examples");
    scale = ones({features});
    offset = zeros({features});
  });
}

Tensor GroupNorm::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "GroupNorm", where, 2, [&] {
    require_on_axis(x, options_.axis, scale);
    return group_normalize(
        {x, where}, groups_,
        {.axis = options_.axis, .epsilon = options_.epsilon, .scale = scale, .offset = offset});
  });
}

InstanceNorm::InstanceNorm(int64_t features, const GroupNormOptions& options, CallSite where)
    : options_(options) {
  etude::internal::check_options("InstanceNorm", options, where);
  etude::internal::located("InstanceNorm", where, [&] {
    ETUDE_REQUIRE(features >= 1, "{} features; at least 1 is needed", features);
    ETUDE_REQUIRE(options.axis != 0, "axis is 0, which counts the examples");
    scale = ones({features});
    offset = zeros({features});
  });
}

Tensor InstanceNorm::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "InstanceNorm", where, 2, [&] {
    require_on_axis(x, options_.axis, scale);
    return instance_normalize(
        {x, where},
        {.axis = options_.axis, .epsilon = options_.epsilon, .scale = scale, .offset = offset});
  });
}

}  // namespace etude::nn
