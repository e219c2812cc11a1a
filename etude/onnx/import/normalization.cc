// SPDX-License-Identifier: Apache-2.0
// Normalisation.
#include <numeric>
#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace normalization {
namespace {

using Results = std::vector<Tensor>;

Sizes from_axis(const NodeCall& n, int64_t first) {
  Sizes out(static_cast<std::size_t>(n.rank(0) - first));
  std::iota(out.begin(), out.end(), first);
  return out;
}
void require_channels(const NodeCall& n) {
  n.require(n.rank(0) >= 2, "its operand has {} axes, but at least 2 are needed", n.rank(0));
}

Results batch_normalization(const NodeCall& n) {
  require_channels(n);
  const double epsilon = n.real("epsilon", 1e-5);
  const Tensor& x = n.x(0);
  const DType dtype = x.dtype();
  if (n.integer("training_mode", 0) == 0) {
    // On the last axis, as the exporter of this library found it.
    const Tensor last = channels_last(n, x);
    return {channels_first(n, nn::batch_normalize(last, as_dtype(n.x(3), dtype),
                                                  as_dtype(n.x(4), dtype), as_dtype(n.x(2), dtype),
                                                  as_dtype(n.x(1), dtype), {.epsilon = epsilon}))};
  }
  const double momentum = n.real("momentum", 0.9);
  Sizes axes = from_axis(n, 1);
  axes[0] = 0;
  const MomentsResult of = moments(x, {.axis = axes});
  const auto channel = [&](const Tensor& v) { return on_axis(as_dtype(v, dtype), 1, n.rank(0)); };
  const Tensor y =
      (x - channel(of.mean)) / sqrt(channel(of.var) + epsilon) * channel(n.x(1)) + channel(n.x(2));
  const auto running = [&](const Tensor& before, const Tensor& now) {
    return before * momentum + as_dtype(now, before.dtype()) * (1 - momentum);
  };
  return {y, running(n.x(3), of.mean), running(n.x(4), of.var)};
}

// A normalisation of channels or groups on the last axis, as the exporter of this library found it.
// Before opset 21 scale and offset of groups had a number for each group.
Tensor by_channel(const NodeCall& n, std::size_t i, DType dtype, int64_t channels) {
  const Tensor given = as_dtype(n.x(i), dtype);
  const int64_t count = given.type()->count();
  if (count == channels) return given;
  n.require(count > 0 && channels % count == 0, "input {} has {} numbers for {} channels", i, count,
            channels);
  return repeat(given, channels / count, {.axis = {0}});
}

Results instance_normalization(const NodeCall& n) {
  require_channels(n);
  const Tensor& x = n.x(0);
  const Tensor y = nn::instance_normalize(
      channels_last(n, x), {.epsilon = n.real("epsilon", 1e-5), .scale = n.x(1), .offset = n.x(2)});
  return {channels_first(n, y)};
}

Results group_normalization(const NodeCall& n) {
  require_channels(n);
  const int64_t groups = n.integer("num_groups"), channels = n.shape(0)[1];
  n.require(groups > 0 && channels % groups == 0,
            "the {} channels are not a multiple of the {} groups", channels, groups);
  const DType dtype = n.dtype(0);
  const DType wide = itemsize(dtype) < 4 ? kFloat32 : dtype;
  const Tensor last = as_dtype(channels_last(n, n.x(0)), wide);
  const Tensor y = nn::group_normalize(last, groups,
                                       {.epsilon = n.real("epsilon", 1e-5),
                                        .scale = by_channel(n, 1, wide, channels),
                                        .offset = by_channel(n, 2, wide, channels)});
  return {channels_first(n, as_dtype(y, dtype))};
}

// The dtype of the first part of the calculation.
DType stash(const NodeCall& n) {
  const DType given = n.dtype("stash_type", kFloat32), own = n.dtype(0);
  return itemsize(given) > itemsize(own) ? given : own;
}

Results layer_normalization(const NodeCall& n) {
  const int64_t first = n.axis(n.integer("axis", -1), n.rank(0));
  const Sizes axes = from_axis(n, first);
  const double epsilon = n.real("epsilon", 1e-5);
  const DType dtype = n.dtype(0), wide = stash(n);
  const Tensor x = as_dtype(n.x(0), wide);
  const auto has_own_shape = [&](std::size_t i) {
    if (!n.has(i)) return true;
    if (n.rank(i) != static_cast<int>(axes.size())) return false;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (n.shape(i)[static_cast<int>(a)] != n.shape(0)[static_cast<int>(axes[a])]) return false;
    }
    return true;
  };
  if (wide == dtype && !n.wants(1) && !n.wants(2) && has_own_shape(1) && has_own_shape(2)) {
    nn::LayerNormalizeOptions options{.epsilon = epsilon, .scale = n.x(1)};
    if (n.has(2)) options.offset = n.x(2);
    return {nn::layer_normalize(x, axes, options)};
  }
  const MomentsResult of = moments(x, {.axis = axes, .keepdims = true});
  const Tensor factor = reciprocal(sqrt(of.var + epsilon));
  Tensor y = as_dtype((x - of.mean) * factor, dtype) * n.x(1);
  if (n.has(2)) y = y + n.x(2);
  return {y, of.mean, factor};
}

Results rms_normalization(const NodeCall& n) {
  const Sizes axes = from_axis(n, n.axis(n.integer("axis", -1), n.rank(0)));
  const DType dtype = n.dtype(0), wide = stash(n);
  const Tensor x = as_dtype(n.x(0), wide);
  const Tensor root =
      sqrt(mean(square(x), {.axis = axes, .keepdims = true}) + n.real("epsilon", 1e-5));
  return {as_dtype(x / root, dtype) * n.x(1)};
}

// A sum of squares over neighbouring channels.
Results local_response(const NodeCall& n) {
  require_channels(n);
  const int64_t size = n.integer("size");
  n.require(size > 0, "the size is {}", size);
  n.importer().need_steps(n, size);
  const Tensor& x = n.x(0);
  Sizes widths(2 * static_cast<std::size_t>(n.rank(0)), 0);
  widths[2] = (size - 1) / 2;
  widths[3] = size - 1 - widths[2];
  const Tensor squares = pad(square(x), widths);
  Tensor total;
  for (int64_t i = 0; i < size; ++i) {
    const Tensor part = span_of(squares, 1, i, i + n.shape(0)[1]);
    total = total.has_value() ? total + part : part;
  }
  const double alpha = n.real("alpha", 1e-4), beta = n.real("beta", 0.75);
  const Tensor base = total * (alpha / static_cast<double>(size)) + n.real("bias", 1);
  return {x / pow(base, beta)};
}

Results lp_normalization(const NodeCall& n) {
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0)), p = n.integer("p", 2);
  n.require(p == 1 || p == 2, "p is {}, not 1 or 2", p);
  const Tensor& x = n.x(0);
  const Tensor size = p == 1 ? sum(abs(x), {.axis = {axis}, .keepdims = true})
                             : sqrt(sum(square(x), {.axis = {axis}, .keepdims = true}));
  return {where(size == 0, zeros_like(x), x / where(size == 0, ones_like(size), size))};
}

Results mean_variance_normalization(const NodeCall& n) {
  const Sizes axes = n.axes(n.ints("axes", {0, 2, 3}), n.rank(0));
  const Tensor& x = n.x(0);
  const MomentsResult of = moments(x, {.axis = axes, .keepdims = true});
  return {(x - of.mean) / (sqrt(of.var) + 1e-9)};
}

// For inference. A mask of the elements that are left is all true.
Results dropout(const NodeCall& n) {
  const bool is_training = n.has(2) && n.flag(2);
  const double ratio = n.has(1) ? n.real(1) : n.real("ratio", 0.5);
  if (is_training && ratio != 0) {
    n.refuse(
        "it drops elements, since it is exported for training. Export the model for inference");
  }
  return {n.x(0), ones_like(n.x(0), {.dtype = kBool})};
}

}  // namespace
}  // namespace normalization

void add_normalization_imports(Imports& to) {
  using namespace normalization;
  to.insert(
      to.end(),
      {{"BatchNormalization", "X scale B input_mean input_var",
        "epsilon momentum spatial training_mode", batch_normalization},
       {"InstanceNormalization", "input scale B", "epsilon consumed_inputs",
        instance_normalization},
       {"GroupNormalization", "X scale bias", "epsilon num_groups stash_type", group_normalization},
       {"LayerNormalization", "X Scale B?", "axis epsilon stash_type", layer_normalization},
       {"RMSNormalization", "X scale", "axis epsilon stash_type", rms_normalization},
       {"LRN", "X", "alpha beta bias size", local_response},
       {"LpNormalization", "input", "axis p", lp_normalization},
       {"MeanVarianceNormalization", "X", "axes", mean_variance_normalization},
       {"Dropout", "data ratio? training_mode?", "ratio seed is_test consumed_inputs",
        normalization::dropout}});
}

}  // namespace etude::onnx::importing
