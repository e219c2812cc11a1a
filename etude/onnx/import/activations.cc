// SPDX-License-Identifier: Apache-2.0
// Activations and softmax.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace activations {
namespace {

using Results = std::vector<Tensor>;

// Attributes are float32.
bool is_near(double a, double b) { return std::fabs(a - b) < 1e-6; }

template <Tensor (*f)(const Arg&)>
Results unary(const NodeCall& n) {
  return {f(n.x(0))};
}

Results sigmoid(const NodeCall& n) {
  const Tensor out = nn::sigmoid(n.x(0));
  n.importer().set_operand("Sigmoid", out, n.x(0));  // for x * sigmoid(x)
  return {out};
}
Results celu(const NodeCall& n) {
  const double alpha = n.real("alpha", 1);
  const Tensor& x = n.x(0);
  n.require(alpha != 0, "alpha is 0");
  return {where(x > 0, x, expm1(x / alpha) * alpha)};
}
Results elu(const NodeCall& n) { return {nn::elu(n.x(0), {.alpha = n.real("alpha", 1)})}; }
Results selu(const NodeCall& n) {
  constexpr double kAlpha = 1.67326319217681884765625, kGamma = 1.05070102214813232421875;
  const double alpha = n.real("alpha", kAlpha), gamma = n.real("gamma", kGamma);
  if (is_near(alpha, kAlpha) && is_near(gamma, kGamma)) return {nn::selu(n.x(0))};
  return {nn::elu(n.x(0), {.alpha = alpha}) * gamma};
}
Results gelu(const NodeCall& n) {
  return {nn::gelu(n.x(0), {.approximate = n.text("approximate", "none")})};
}
Results hard_sigmoid(const NodeCall& n) {
  const double alpha = n.real("alpha", 0.2), beta = n.real("beta", 0.5);
  if (is_near(alpha, 1.0 / 6.0) && beta == 0.5) return {nn::hard_sigmoid(n.x(0))};
  return {clip(n.x(0) * alpha + beta, {.min = 0.0, .max = 1.0})};
}
Results leaky_relu(const NodeCall& n) {
  return {nn::leaky_relu(n.x(0), {.slope = n.real("alpha", 0.01)})};
}
Results prelu(const NodeCall& n) {
  const Tensor& x = n.x(0);
  return {where(x > 0, x, x * n.x(1))};
}
Results shrink(const NodeCall& n) {
  const double bias = n.real("bias", 0), limit = n.real("lambd", 0.5);
  const Tensor& x = n.x(0);
  const DType wide = is_floating(x.dtype()) ? x.dtype() : kFloat32;
  const Tensor at = as_dtype(x, wide);
  const Tensor out = where(at < -limit, at + bias, where(at > limit, at - bias, zeros_like(at)));
  return {as_dtype(out, x.dtype())};
}
Results swish(const NodeCall& n) {
  const double alpha = n.real("alpha", 1);
  const Tensor& x = n.x(0);
  return {alpha == 1 ? nn::silu(x) : x * nn::sigmoid(x * alpha)};
}
Results thresholded_relu(const NodeCall& n) {
  const Tensor& x = n.x(0);
  return {where(x > n.real("alpha", 1), x, zeros_like(x))};
}

// Limits were attributes before opset 11.
Results clipped(const NodeCall& n) {
  ClipOptions options;
  if (n.has(1)) options.min = n.x(1);
  if (n.has(2)) options.max = n.x(2);
  if (n.has("min")) options.min = n.real("min", 0);
  if (n.has("max")) options.max = n.real("max", 0);
  return {n.has(1) || n.has(2) || n.has("min") || n.has("max") ? clip(n.x(0), options) : n.x(0)};
}

// Before opset 13 the axes from `axis` on are one axis.
template <class F>
Tensor along_axis(const NodeCall& n, F f) {
  const Tensor& x = n.x(0);
  const int rank = n.rank(0);
  if (n.opset() >= 13) return f(x, n.axis(n.integer("axis", -1), std::max(rank, 1)));
  const int64_t given = n.integer("axis", 1), axis = given < 0 ? given + rank : given;
  n.require(axis >= 0 && axis <= rank, "axis {} is outside of the {} axes of its operand", given,
            rank);
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < rank; ++i) (i < axis ? rows : columns) *= n.shape(0)[i];
  return reshape(f(reshape(x, {rows, columns}), 1), n.shape(0));
}
Results softmax(const NodeCall& n) {
  return {
      along_axis(n, [](const Tensor& x, int64_t axis) { return nn::softmax(x, {.axis = axis}); })};
}
Results log_softmax(const NodeCall& n) {
  return {along_axis(
      n, [](const Tensor& x, int64_t axis) { return nn::log_softmax(x, {.axis = axis}); })};
}
// 1 at the first of the largest elements, else 0.
Results hardmax(const NodeCall& n) {
  return {along_axis(n, [](const Tensor& x, int64_t axis) {
    const auto size = x.type()->shape()[static_cast<int>(axis)];
    const Tensor at = argmax(x, {.axis = axis});
    return one_hot(at, size, {.axis = axis, .dtype = x.dtype()});
  })};
}

}  // namespace
}  // namespace activations

void add_activation_imports(Imports& to) {
  using namespace activations;
  const std::size_t first = to.size();
  to.insert(to.end(),
            {{"Celu", "X", "alpha", celu},
             {"Clip", "input min? max?", "min max consumed_inputs", clipped},
             {"Elu", "X", "alpha consumed_inputs", activations::elu},
             {"Gelu", "X", "approximate", activations::gelu},
             {"HardSigmoid", "X", "alpha beta consumed_inputs", activations::hard_sigmoid},
             {"HardSwish", "X", "", unary<nn::hard_swish>},
             {"Hardmax", "input", "axis", hardmax},
             {"LeakyRelu", "X", "alpha consumed_inputs", activations::leaky_relu},
             {"LogSoftmax", "input", "axis", activations::log_softmax},
             {"Mish", "X", "", unary<nn::mish>},
             {"PRelu", "X slope", "consumed_inputs", prelu},
             {"Relu", "X", "consumed_inputs", unary<nn::relu>},
             {"Selu", "X", "alpha gamma consumed_inputs", activations::selu},
             {"Shrink", "input", "bias lambd", shrink},
             {"Sigmoid", "X", "consumed_inputs", activations::sigmoid},
             {"Softmax", "input", "axis", activations::softmax},
             {"Softplus", "X", "", unary<nn::softplus>},
             {"Softsign", "input", "", unary<nn::softsign>},
             {"Swish", "X", "alpha", swish},
             {"ThresholdedRelu", "X", "alpha", thresholded_relu}});
  for (std::size_t i = first; i < to.size(); ++i) {
    to[i].is_elementwise = !to[i].attributes.starts_with("axis");  // softmax and the like
  }
}

}  // namespace etude::onnx::importing
