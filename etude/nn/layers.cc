// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers.h"

#include "etude/base/check.h"
#include "etude/core/ambient.h"
#include "etude/ops.h"
#include "etude/ops/random.h"

namespace etude::nn {

Dense::Dense(std::int64_t in, std::int64_t out, const DenseOptions& options)
    : activation_(options.activation) {
  ETUDE_REQUIRE(in >= 1 && out >= 1, "Dense: {} inputs and {} outputs; both must be at least 1", in,
                out);
  weight = options.weight_init({in, out});
  if (options.bias) bias = options.bias_init({out});
}

Tensor Dense::operator()(const Tensor& x) const {
  const bool per_example = weight.rank() == 3;
  detail::require_input("Dense", x, per_example ? 2 : -1, weight.shape()[weight.rank() - 2], weight,
                        "weight");
  Tensor y = per_example ? squeeze(matmul(expand_dims(x, {1}), weight), {1}) : matmul(x, weight);
  if (bias.has_value()) y = std::move(y) + bias;
  if (activation_) y = activation_(y);
  return detail::observed(this, "Dense", std::move(y));
}

Function::Function(Activation function) : function_(std::move(function)) {
  ETUDE_REQUIRE(function_ != nullptr, "Function: the function is empty");
}
Tensor Function::operator()(const Tensor& x) const {
  return detail::observed(this, "Function", function_(x));
}

Tensor Flatten::operator()(const Tensor& x) const {
  detail::require_input("Flatten", x, -1, -1, {}, "");
  std::int64_t rest = 1;
  for (int axis = 1; axis < x.rank(); ++axis) rest *= x.shape()[axis];
  return detail::observed(this, "Flatten", reshape(x, {x.shape()[0], rest}));
}

Tensor Reshape::operator()(const Tensor& x) const {
  detail::require_input("Reshape", x, -1, -1, {}, "");
  std::vector<std::int64_t> shape = {x.shape()[0]};
  shape.insert(shape.end(), shape_.begin(), shape_.end());
  return detail::observed(this, "Reshape", reshape(x, shape));
}

Dropout::Dropout(double p) : p_(p) {
  ETUDE_REQUIRE(p >= 0 && p < 1, "Dropout: p is {}, but must be in [0, 1)", p);
}

Tensor Dropout::operator()(const Tensor& x) const {
  if (!is_training() || p_ == 0) return detail::observed(this, "Dropout", x);
  const Tensor kept = random::bernoulli(Tensor(1 - p_), x.shape());
  return detail::observed(this, "Dropout", where(kept, x * (1 / (1 - p_)), 0.0));
}

}  // namespace etude::nn
