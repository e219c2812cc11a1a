// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/layers.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/internal/phase.h"
#include "etude/ops.h"
#include "etude/ops/random.h"

namespace etude::nn {

Dense::Dense(int64_t in, int64_t out, const DenseOptions& options, CallSite where)
    : activation_(options.activation) {
  etude::internal::located("Dense", where, [&] {
    ETUDE_REQUIRE(in >= 1 && out >= 1, "{} inputs and {} outputs; both must be at least 1", in,
                  out);
    weight = options.weight_init({in, out});
    if (options.bias) bias = options.bias_init({out});
  });
}

Tensor Dense::operator()(const Tensor& x, CallSite where) const {
  const int64_t flops = 2 * weight.shape()[weight.rank() - 2];
  return internal::run_layer(this, "Dense", where, flops, [&] {
    const bool per_example = weight.rank() == 3;
    internal::require_input(x, per_example ? 2 : -1, weight.shape()[weight.rank() - 2], weight,
                            "weight");
    Tensor y = per_example ? squeeze(matmul(expand_dims({x, where}, {1}), weight), {1})
                           : matmul({x, where}, weight);
    if (bias.has_value()) y = Arg(std::move(y), where) + bias;
    return activation_(std::move(y));
  });
}

Lambda::Lambda(Activation function, CallSite where) : function_(std::move(function)) {
  etude::internal::located("Lambda", where,
                           [&] { ETUDE_REQUIRE(!function_.is_empty(), "the function is empty"); });
}
Tensor Lambda::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Lambda", where, 0, [&] { return function_(x); });
}

Tensor Flatten::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Flatten", where, 0, [&] {
    internal::require_input(x, -1, -1, {}, "");
    int64_t rest = 1;
    for (int axis = 1; axis < x.rank(); ++axis) rest *= x.shape()[axis];
    return reshape({x, where}, {x.shape()[0], rest});
  });
}

Tensor Reshape::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Reshape", where, 0, [&] {
    internal::require_input(x, -1, -1, {}, "");
    std::vector<int64_t> shape = {x.shape()[0]};
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    return reshape({x, where}, shape);
  });
}

Permute::Permute(std::vector<int64_t> axes, CallSite where) : axes_(std::move(axes)) {
  etude::internal::located("Permute", where, [&] {
    std::vector<int64_t> sorted = axes_;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      ETUDE_REQUIRE(sorted[i] == static_cast<int64_t>(i) + 1,
                    "the axes are [{}], but must be those from 1 to {} in some order",
                    fmt::join(axes_, ","), axes_.size());
    }
  });
}
Tensor Permute::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Permute", where, 0, [&] {
    internal::require_input(x, static_cast<int>(axes_.size()) + 1, -1, {}, "");
    std::vector<int64_t> all = {0};
    all.insert(all.end(), axes_.begin(), axes_.end());
    return permute_dims({x, where}, all);
  });
}

RepeatVector::RepeatVector(int64_t times, CallSite where) : times_(times) {
  etude::internal::check_range("RepeatVector", "times", static_cast<double>(times), at_least(1),
                               where);
}
Tensor RepeatVector::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "RepeatVector", where, 0, [&] {
    internal::require_input(x, -1, -1, {}, "");
    return repeat(expand_dims({x, where}, {1}), times_, {.axis = 1});
  });
}

Tensor Masking::mask(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Masking", where, 0, [&] {
    internal::require_input(x, 3, -1, {}, "");
    return any(Arg(x, where) != value_, {.axis = 2});
  });
}
Tensor Masking::lengths(const Tensor& x, CallSite where) const {
  const Tensor counts = astype(mask(x, where), kInt64);
  const int64_t time = x.shape()[1];
  const Tensor ends = counts * (arange(static_cast<double>(time), {.dtype = kInt64}) + 1);
  return max(pad(ends, {0, 0, 1, 0}), {.axis = 1});  // 0 where no step counts
}
Tensor Masking::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Masking", where, 0, [&] {
    return etude::where(expand_dims(mask(x, where), {2}), Arg(x, where), 0.0);
  });
}

PReLU::PReLU(int64_t features, Initializer slope_init, CallSite where) {
  etude::internal::located("PReLU", where, [&] {
    ETUDE_REQUIRE(features >= 1, "{} features; at least 1 is needed", features);
    slope = slope_init({features});
  });
}
Tensor PReLU::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "PReLU", where, 2, [&] {
    const int64_t features = slope.shape()[0];
    internal::require_input(x, -1, features > 1 ? features : -1, slope, "slope");
    return etude::where(Arg(x, where) > 0.0, x, x * slope);
  });
}

Bilinear::Bilinear(int64_t left, int64_t right, int64_t out, const DenseOptions& options,
                   CallSite where)
    : activation_(options.activation) {
  etude::internal::located("Bilinear", where, [&] {
    ETUDE_REQUIRE(left >= 1 && right >= 1 && out >= 1,
                  "{} and {} inputs and {} outputs; all must be at least 1", left, right, out);
    weight = options.weight_init({left, right, out});
    if (options.bias) bias = options.bias_init({out});
  });
}
Tensor Bilinear::operator()(const Tensor& x, const Tensor& y, CallSite where) const {
  const Shape& w = weight.shape();
  return internal::run_layer(this, "Bilinear", where, 2 * w[0] * w[1], [&] {
    internal::require_input(x, 2, w[0], weight, "weight");
    internal::require_input(y, 2, w[1], weight, "weight");
    const int64_t n = x.shape()[0];
    const Tensor by_x =
        reshape(matmul({x, where}, reshape(weight, {w[0], w[1] * w[2]})), {n, w[1], w[2]});
    Tensor out = squeeze(matmul(expand_dims({y, where}, {1}), by_x), {1});
    if (bias.has_value()) out = out + bias;
    return activation_(std::move(out));
  });
}

namespace internal {

Tensor fold_time(const Tensor& x) {
  require_input(x, -2, -1, {}, "");
  std::vector<int64_t> shape = {x.shape()[0] * x.shape()[1]};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(x.shape()[axis]);
  return reshape(x, shape);
}
Tensor unfold_time(const Tensor& y, const Tensor& x) {
  std::vector<int64_t> shape = {x.shape()[0], x.shape()[1]};
  for (int axis = 1; axis < y.rank(); ++axis) shape.push_back(y.shape()[axis]);
  return reshape(y, shape);
}

}  // namespace internal

Dropout::Dropout(double p, CallSite where) : p_(p) {
  etude::internal::check_range("Dropout", "p", p, up_to(0, 1), where);
}

Tensor Dropout::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "Dropout", where, 0, [&] {
    if (p_ == 0 || !internal::is_trained("Dropout", where)) return x;
    const Tensor kept = random::bernoulli(Tensor(1 - p_), x.shape());
    return etude::where(kept, Arg(x, where) * (1 / (1 - p_)), 0.0);
  });
}

}  // namespace etude::nn
