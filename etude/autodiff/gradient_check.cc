// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/gradient_check.h"

#include <cmath>
#include <complex>

#include "etude/autodiff/gradient_tape.h"
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"

namespace etude {
namespace {

using Number = std::complex<double>;
using TensorFunction = std::function<Tensor(std::span<const Tensor>)>;

// The differentiated number: the real part of the sum of the result.
double objective(const TensorFunction& f, std::span<const Tensor> x) {
  double total = 0;
  for (const Number& v : f(x).to_vector<Number>()) total += v.real();
  return total;
}

Tensor with_element(const Tensor& x, std::vector<Number> values, std::size_t at, Number by) {
  values[at] += by;
  if (is_complex(x.dtype())) return internal::cast(Tensor(values, x.shape()), x.dtype());
  std::vector<double> reals;
  reals.reserve(values.size());
  for (const Number& v : values) reals.push_back(v.real());
  return internal::cast(Tensor(reals, x.shape()), x.dtype());
}

double difference(const TensorFunction& f, std::vector<Tensor> x, std::size_t argument,
                  std::size_t at, Number step) {
  const Tensor original = x[argument];
  const std::vector<Number> values = original.to_vector<Number>();
  x[argument] = with_element(original, values, at, step);
  const double above = objective(f, x);
  x[argument] = with_element(original, values, at, -step);
  return (above - objective(f, x)) / (2 * std::abs(step));
}

}  // namespace

std::string check_gradient(const TensorFunction& f, std::span<const Tensor> arguments,
                           GradientCheckOptions options) {
  std::vector<Tensor> x;
  for (const Tensor& a : arguments) {
    const bool casts = options.in_double && a.has_value() && is_differentiable(a.dtype());
    x.push_back(!casts ? a : internal::cast(a, is_complex(a.dtype()) ? kComplex128 : kFloat64));
  }
  GradientTape tape;
  for (const Tensor& a : x) tape.watch(a);
  const Tensor y = f(x);
  ETUDE_REQUIRE(y.has_value() && is_differentiable(y.dtype()),
                "check_gradient: the function must return a floating or complex tensor");
  const std::vector<Tensor> found = tape.gradient(y, x, {.unconnected = Unconnected::kZero});
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (!x[k].has_value() || !is_differentiable(x[k].dtype())) {
      if (found[k].has_value())
        return fmt::format("argument {} has a gradient, but cannot have one", k);
      continue;
    }
    const std::vector<Number> got = to_dense(found[k]).to_vector<Number>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      Number want = difference(f, x, k, i, options.step);
      if (is_complex(x[k].dtype()))
        want += Number(0, difference(f, x, k, i, Number(0, options.step)));
      if (std::abs(got[i] - want) <= options.tolerance * (1 + std::abs(want))) continue;
      return fmt::format(
          "argument {}, element {}: the gradient is {}{:+}i, central differences give {}{:+}i", k,
          i, got[i].real(), got[i].imag(), want.real(), want.imag());
    }
  }
  return "";
}

}  // namespace etude
