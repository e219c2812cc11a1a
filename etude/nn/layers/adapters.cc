// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/adapters.h"

#include "etude/autodiff/custom_gradient.h"
#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/dtype_functions.h"
#include "etude/core/option_ranges.h"
#include "etude/ops.h"
#include "etude/ops/random.h"

namespace etude::nn {
namespace {

constexpr double kLeast = 1e-12;  // of a length that is divided by

Tensor as_matrix(const Tensor& weight) {
  return reshape(weight, {-1, weight.shape()[weight.rank() - 1]});
}

Tensor length_of(const Tensor& v) { return sqrt(maximum(sum(v * v), kLeast)); }

}  // namespace

namespace internal {

Tensor column_lengths(const Tensor& weight) {
  const Tensor matrix = as_matrix(weight);
  return sqrt(sum(matrix * matrix, {.axis = 0}));
}

Tensor with_lengths(const Tensor& weight, const Tensor& magnitude) {
  return weight * (magnitude / maximum(column_lengths(weight), kLeast));
}

// The vector is state, which keeps its dtype if the layer computes in another dtype: calls on both
// compute in the wider of the two.
static Tensor in_dtype(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : astype(x, dtype);
}

Tensor power_step(const Tensor& weight, const Tensor& u) {
  const DType dtype = etude::internal::require_promoted(weight.dtype(), u.dtype());
  const Tensor matrix = in_dtype(stop_gradient(as_matrix(weight)), dtype);
  const Tensor v = matmul(matrix, in_dtype(u, dtype));
  const Tensor next = matmul(v / length_of(v), matrix);
  return in_dtype(next / length_of(next), u.dtype());
}

Tensor over_spectral_norm(const Tensor& weight, const Tensor& u) {
  const DType dtype = etude::internal::require_promoted(weight.dtype(), u.dtype());
  const Tensor matrix = in_dtype(as_matrix(weight), dtype), wide = in_dtype(u, dtype);
  const Tensor v = stop_gradient(matmul(matrix, wide));
  const Tensor largest = maximum(sum((v / length_of(v)) * matmul(matrix, wide)), kLeast);
  return weight / in_dtype(largest, weight.dtype());
}

Tensor unit_vector(int64_t size) {
  const Tensor v = random::normal({size}, {.dtype = kFloat32});
  return v / length_of(v);
}

}  // namespace internal

LoRA::LoRA(Dense base_layer, int64_t rank, double alpha, CallSite where)
    : base{std::move(base_layer)}, factor_(alpha / static_cast<double>(rank)) {
  etude::internal::check_range("LoRA", "rank", static_cast<double>(rank), at_least(1), where);
  const Shape& weight = base.value.weight.shape();
  down = he_uniform({weight[weight.rank() - 2], rank});
  up = zeros({rank, weight[weight.rank() - 1]});
}
Tensor LoRA::operator()(const Tensor& x, CallSite where) const {
  const int64_t flops = 2 * down.shape()[1];
  return internal::run_layer(this, "LoRA", where, flops, [&] {
    const Tensor fixed = base.value(x, where);
    return fixed + matmul(matmul(x, down), up) * factor_;
  });
}
Dense LoRA::merged() const {
  Dense out = base.value;
  out.weight = out.weight + matmul(down, up) * factor_;
  return out;
}

QuantizedDense::QuantizedDense(const Dense& layer, CallSite where)
    : activation_(std::get<0>(layer.host_values())) {
  etude::internal::located("QuantizedDense", where, [&] {
    ETUDE_REQUIRE(layer.weight.rank() == 2,
                  "the layer's weight has shape {}, but must be [in, out]",
                  layer.weight.shape().to_string());
    factor.value = maximum(max(abs(layer.weight), {.axis = 0}), kLeast) / 127.0;
    weight.value = astype(round(layer.weight / factor.value), kInt8);
    bias.value = layer.bias;
  });
}
Tensor QuantizedDense::operator()(const Tensor& x, CallSite where) const {
  const int64_t flops = 2 * weight.value.shape()[0];
  return internal::run_layer(this, "QuantizedDense", where, flops, [&] {
    internal::require_input(x, -1, weight.value.shape()[0], weight.value, "weight");
    Tensor y = matmul({x, where}, astype(weight.value, x.dtype())) * factor.value;
    if (bias.value.has_value()) y = y + bias.value;
    return activation_(std::move(y));
  });
}

}  // namespace etude::nn
