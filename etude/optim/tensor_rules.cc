// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/tensor_rules.h"

#include <cmath>

#include "etude/base/permanent.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/run.h"
#include "etude/core/length.h"
#include "etude/kernels/cpu/optimizer/descent_rules.h"
#include "etude/kernels/cpu/optimizer/tensor_rules.h"
#include "etude/ops.h"
#include "etude/optim/internal/changes.h"

namespace etude::optim {
namespace {

using etude::internal::cast;
using internal::call_rule;
using internal::StateStart;
using internal::Step;
using internal::step_by_rule;

Tensor length(const Tensor& x) { return etude::internal::length({&x, 1}); }
Tensor root_mean_square(const Tensor& x) {
  return length(x) / std::sqrt(static_cast<double>(x.size()));
}

Tensor number(double value) { return Tensor(std::vector<double>{value}, Shape{}); }

// A rate of an update, float64[].
template <class Rates>
Tensor rate_in(const Tensor& rates, double Rates::*rate) {
  return get_index(rates, {static_cast<int64_t>(optimizer::place_of(rate))}, {});
}

// The rates of an update with some of them multiplied.
template <class Rates>
Tensor multiplied(const Tensor& rates, const Tensor& factor,
                  std::initializer_list<double Rates::*> some) {
  std::vector<double> is_meant(optimizer::kRates, 0.0);
  for (const auto rate : some) is_meant[optimizer::place_of(rate)] = 1;
  return rates * where(Tensor(is_meant) > 0.0, factor, 1.0);
}

// Adds the step w - lr factor direction, with the rate lr of the step: every rule here has it
// first, as Apply.
void apply(const Step& step, const Tensor& w, Tensor direction, const Tensor& factor) {
  static const etude::internal::Permanent<Attrs> rule(
      internal::rule_attrs(optimizer::Apply::kName));
  const Tensor& kept = step.changes.keep(std::move(direction));
  const Tensor& rates =
      step.changes.keep(multiplied(step.rates, factor, {&optimizer::Apply::Rates<double>::lr}));
  step.changes.step(step.parameter, {*rule, w, kept, rates, {}, step.may_overwrite});
}

// Runs a rule that computes a direction instead of a step: adds the new states, and returns the
// direction.
Tensor direction_of(const Attrs& rule, const Step& step, std::span<Tensor> states) {
  Values made = call_rule({rule, step.parameter, step.gradient, step.rates, states});
  for (std::size_t k = 0; k < states.size(); ++k) {
    step.changes.set(states[k], std::move(made[1 + k]));
  }
  return std::move(made[0]);
}

}  // namespace

LARS::LARS(LARSOptions options, CallSite where)
    : OptimizerWith("LARS", optimizer::Momentum<false>::kName, std::move(options), where) {}
std::optional<double> LARS::option(std::string_view name) const {
  return name == "dampening" ? 0 : OptimizerWith::option(name);
}
// The rate `fresh`, which is 1 without dampening, multiplies the gradient and its weight decay.
void LARS::run_step(const Step& step) const {
  using Rates = optimizer::Momentum<false>::Rates<double>;
  const Tensor w = length(step.parameter), g = length(step.gradient);
  const Tensor trust = options_.trust * w / (g + rate_in(step.rates, &Rates::weight_decay) * w);
  const Tensor factor = where(logical_and(w > 0.0, g > 0.0), trust, 1.0);
  step_by_rule(step, step.changes.keep(multiplied(step.rates, factor, {&Rates::fresh})));
}

LAMB::LAMB(LAMBOptions options, CallSite where)
    : OptimizerWith("LAMB", optimizer::Lamb::kName, std::move(options), where) {}
void LAMB::run_step(const Step& step) const {
  const Tensor direction = direction_of(step.rule, step, step.states);
  const Tensor w = length(step.parameter), r = length(direction);
  apply(step, step.parameter, direction, where(logical_and(w > 0.0, r > 0.0), w / r, 1.0));
}

namespace {

// A filter as the matrix of its last axis by all others.
struct Matrix {
  int64_t rows, columns;
};
Matrix matrix_of(const Tensor& x) {
  const int64_t columns = x.shape()[x.rank() - 1];
  return {x.size() / columns, columns};
}

// x, whose singular values lie in (0, 1], with singular values near 1: five steps of the odd
// polynomial of Jordan et al. 2024, on the smaller side of x.
Tensor orthogonalized(const Tensor& x) {
  const bool is_tall = x.shape()[0] > x.shape()[1];
  Tensor y = is_tall ? matrix_transpose(x) : x;
  // The length itself may be out of the range of the dtype.
  const Values both = etude::internal::run_all(etude::internal::op<"scaled_squares">(), {&y});
  const Tensor &squares = both[0], &scale = both[1];
  y = y / cast(scale, y.dtype()) / cast(sqrt(squares) + 1e-7 / scale, y.dtype());
  for (int i = 0; i < 5; ++i) {
    const Tensor a = matmul(y, y, {.transpose_y = true});
    y = 3.4445 * y + matmul(-4.7750 * a + 2.0315 * matmul(a, a), y);
  }
  return is_tall ? matrix_transpose(y) : y;
}

}  // namespace

Muon::Muon(MuonOptions options, CallSite where)
    : OptimizerWith("Muon", optimizer::Adam<true, false>::kName, std::move(options), where) {}
std::optional<double> Muon::option(std::string_view name) const {
  return name == "beta1" ? options_.momentum : OptimizerWith::option(name);
}
StateStart Muon::start_of(std::string_view state, const Tensor& value) const {
  return {state == "variance" && value.rank() > 1 ? nullptr : value.type()};
}
void Muon::run_step(const Step& step) const {
  using Rates = optimizer::Muon::Rates<double>;  // AdamW has the same rates
  const Tensor& w = step.parameter;
  if (w.rank() < 2) {
    step_by_rule(step, step.changes.keep(multiplied(step.rates, number(options_.vector_rate),
                                                    {&Rates::lr, &Rates::weight_decay})));
    return;
  }
  static const etude::internal::Permanent<Attrs> turning(
      internal::rule_attrs(optimizer::Muon::kName));
  const Tensor direction = direction_of(*turning, step, step.states.first(1));
  const auto [rows, columns] = matrix_of(w);
  const Tensor turned =
      reshape(orthogonalized(reshape(direction, {rows, columns})), w.shape().to_vector());
  const Tensor& decayed =
      step.changes.keep(w - cast(rate_in(step.rates, &Rates::weight_decay), w.dtype()) * w);
  const double ratio = static_cast<double>(columns) / static_cast<double>(rows);
  apply(step, decayed, turned, number(std::sqrt(std::max(1.0, ratio))));
}

Adafactor::Adafactor(AdafactorOptions options, CallSite where)
    : OptimizerWith("Adafactor", optimizer::Adafactor::kName, std::move(options), where,
                    {"rows", "columns"}) {}
// A vector keeps its variance, a matrix the means of rows and columns.
StateStart Adafactor::start_of(std::string_view state, const Tensor& value) const {
  const bool is_matrix = value.rank() > 1;
  if (is_matrix == (state == "variance")) return {};
  if (!is_matrix) return {value.type()};
  std::vector<int64_t> sizes = value.shape().to_vector();
  sizes[sizes.size() - (state == "rows" ? 1 : 2)] = 1;
  return {intern_type(value.dtype(), Shape(sizes))};
}
void Adafactor::run_step(const Step& step) const {
  const Tensor& w = step.parameter;
  using Rates = optimizer::Adafactor::Rates<double>;
  const auto rate = [&](double Rates::*of) { return cast(rate_in(step.rates, of), w.dtype()); };
  Tensor direction;
  if (w.rank() < 2) {
    direction = direction_of(step.rule, step, step.states.first(1));
  } else {
    const Tensor squares = square(step.gradient);
    const Tensor rows = rate(&Rates::old) * step.states[1] +
                        rate(&Rates::fresh) * mean(squares, {.axis = -1, .keepdims = true});
    const Tensor columns = rate(&Rates::old) * step.states[2] +
                           rate(&Rates::fresh) * mean(squares, {.axis = -2, .keepdims = true});
    step.changes.set(step.states[1], rows);
    step.changes.set(step.states[2], columns);
    const Tensor whole = maximum(mean(rows, {.axis = -2, .keepdims = true}), options_.eps1);
    direction = step.gradient * rsqrt(maximum(rows / whole * columns, rate(&Rates::min_variance)));
  }
  // The rate is relative to the size of the parameter, and a large direction is made smaller.
  const Tensor size = maximum(root_mean_square(w), options_.eps2);
  const Tensor excess = maximum(root_mean_square(direction) / options_.threshold, 1.0);
  apply(step, step.changes.keep(w - rate(&Rates::weight_decay) * w), direction, size / excess);
}

namespace {

// (a + eps 1)^(-1/4) of a positive matrix by the coupled iteration of Newton: m goes to 1. Its
// eigenvalues begin below 5/2; small ones grow by (5/4)^4 in each step, so that 40 reach 1e-15.
Tensor inverse_fourth_root(const Tensor& a, double eps) {
  const int64_t n = a.shape()[0];
  const Tensor unit = eye(n, {.cols = n, .dtype = a.dtype()}), whole = a + eps * unit;
  const Tensor scale = 2.5 / norm(whole);
  Tensor m = whole * scale, root = unit * sqrt(sqrt(scale));
  for (int i = 0; i < 45; ++i) {
    const Tensor step = 1.25 * unit - 0.25 * m, squared = matmul(step, step);
    m = matmul(matmul(squared, squared), m);
    root = matmul(root, step);
  }
  return root;
}

}  // namespace

Shampoo::Shampoo(ShampooOptions options, CallSite where)
    : OptimizerWith("Shampoo", optimizer::Shampoo::kName, std::move(options), where,
                    {"left", "right"}) {}
StateStart Shampoo::start_of(std::string_view state, const Tensor& value) const {
  const bool is_matrix = value.rank() > 1;
  if (is_matrix == (state == "squares")) return {};
  if (!is_matrix) return {value.type()};
  const Matrix size = matrix_of(value);
  const int64_t n = state == "left" ? size.rows : size.columns;
  return {intern_type(value.dtype(), Shape{n, n})};
}
void Shampoo::run_step(const Step& step) const {
  const Tensor& w = step.parameter;
  if (w.rank() < 2) {
    step.changes.step(step.parameter, {step.rule, w, step.gradient, step.rates,
                                       step.states.first(1), step.may_overwrite});
    return;
  }
  const Matrix size = matrix_of(w);
  const Tensor g = reshape(step.gradient, {size.rows, size.columns});
  const Tensor left = step.states[1] + matmul(g, g, {.transpose_y = true});
  const Tensor right = step.states[2] + matmul(g, g, {.transpose_x = true});
  step.changes.set(step.states[1], left);
  step.changes.set(step.states[2], right);
  const Tensor direction = matmul(matmul(inverse_fourth_root(left, options_.eps), g),
                                  inverse_fourth_root(right, options_.eps));
  const Tensor decay =
      cast(rate_in(step.rates, &optimizer::Shampoo::Rates<double>::weight_decay), w.dtype());
  apply(step, step.changes.keep(w - decay * w), reshape(direction, w.shape().to_vector()),
        number(1));
}

}  // namespace etude::optim
