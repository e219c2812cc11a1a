// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers.h"

#include "etude/base/check.h"
#include "etude/core/ambient.h"
#include "etude/core/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/ops.h"
#include "etude/ops/random.h"

namespace etude::nn {

Dense::Dense(std::int64_t in, std::int64_t out, const DenseOptions& options, CallSite where)
    : activation_(options.activation) {
  etude::internal::located("Dense", where, [&] {
    ETUDE_REQUIRE(in >= 1 && out >= 1, "{} inputs and {} outputs; both must be at least 1", in,
                  out);
    weight = options.weight_init({in, out});
    if (options.bias) bias = options.bias_init({out});
  });
}

Tensor Dense::operator()(const Tensor& x, CallSite where) const {
  const std::int64_t flops = 2 * weight.shape()[weight.rank() - 2];
  return detail::run_layer(this, "Dense", where, flops, [&] {
    const bool per_example = weight.rank() == 3;
    detail::require_input(x, per_example ? 2 : -1, weight.shape()[weight.rank() - 2], weight,
                          "weight");
    Tensor y = per_example ? squeeze(matmul(expand_dims({x, where}, {1}), weight), {1})
                           : matmul({x, where}, weight);
    if (bias.has_value()) y = Arg(std::move(y), where) + bias;
    return activation_(std::move(y));
  });
}

Function::Function(Activation function, CallSite where) : function_(std::move(function)) {
  etude::internal::located("Function", where,
                           [&] { ETUDE_REQUIRE(!function_.is_empty(), "the function is empty"); });
}
Tensor Function::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "Function", where, 0, [&] { return function_(x); });
}

Tensor Flatten::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "Flatten", where, 0, [&] {
    detail::require_input(x, -1, -1, {}, "");
    std::int64_t rest = 1;
    for (int axis = 1; axis < x.rank(); ++axis) rest *= x.shape()[axis];
    return reshape({x, where}, {x.shape()[0], rest});
  });
}

Tensor Reshape::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "Reshape", where, 0, [&] {
    detail::require_input(x, -1, -1, {}, "");
    std::vector<std::int64_t> shape = {x.shape()[0]};
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    return reshape({x, where}, shape);
  });
}

Dropout::Dropout(double p, CallSite where) : p_(p) {
  etude::internal::check_range("Dropout", "p", p, up_to(0, 1), where);
}

Tensor Dropout::operator()(const Tensor& x, CallSite where) const {
  return detail::run_layer(this, "Dropout", where, 0, [&] {
    if (!is_training() || p_ == 0) return x;
    const Tensor kept = random::bernoulli(Tensor(1 - p_), x.shape());
    return etude::where(kept, Arg(x, where) * (1 / (1 - p_)), 0.0);
  });
}

}  // namespace etude::nn
