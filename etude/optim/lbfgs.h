// SPDX-License-Identifier: Apache-2.0
// Minimises a function over all of its data by limited-memory BFGS with a line search. The line
// search may evaluate the function several times in an iteration. For small models, fits and
// physics; not for batches.
//
//   auto result = optim::lbfgs(model, [&](const Model& m) { return mean(square(m(x) - y)); });
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "etude/autodiff/gradient.h"
#include "etude/base/call_site.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/optim/internal/optimizer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

struct LBFGSOptions {
  int64_t iterations = 100;
  int64_t history = 10;          // number of stored pairs of step and gradient change
  double gradient_limit = 1e-7;  // converged if no element of the gradient is larger
  double change_limit = 1e-12;   // converged if the decrease / max(1, |value|) is not larger
  double armijo = 1e-4;          // required decrease, relative to the initial slope
  double curvature = 0.9;        // maximum slope after a step, relative to the initial slope
  int64_t evaluations = 25;      // maximum in one line search

  static constexpr void ranges(const auto& option) {
    option("iterations", &LBFGSOptions::iterations, at_least(0));
    option("history", &LBFGSOptions::history, at_least(1));
    option("gradient_limit", &LBFGSOptions::gradient_limit, at_least(0));
    option("change_limit", &LBFGSOptions::change_limit, at_least(0));
    option("armijo", &LBFGSOptions::armijo, within(0, 1));
    option("curvature", &LBFGSOptions::curvature, within(0, 1));
    option("evaluations", &LBFGSOptions::evaluations, at_least(1));
  }
};

struct LBFGSResult {
  double value = 0;
  int64_t iterations = 0, evaluations = 0;
  bool has_converged = false;  // by gradient_limit or change_limit
  std::string why;             // why the iteration stopped
};

namespace internal {
// Returns the value at `x`, and writes the gradient at `x` to `gradient`.
using Evaluate = std::function<double(std::span<const Tensor> x, std::vector<Tensor>& gradient)>;
LBFGSResult run_lbfgs(std::vector<Tensor>& x, const Evaluate& evaluate,
                      const LBFGSOptions& options);
}  // namespace internal

// Minimises loss(model), a scalar, over the tensors of `model`. The result is a local minimum.
// Directions come from the two-loop recursion over the history. Steps satisfy the strong Wolfe
// conditions, unless a line search runs out of evaluations (Nocedal and Wright 2006, algorithms
// 7.4, 3.5 and 3.6). The model ends at the last accepted point. No other accepted point has a lower
// value. Frozen parts (Freezable) do not change.
//
// throws: kInvalidArgument for options out of their range; the errors of the loss. After an error
//   the model is unchanged.
template <class Model, class Loss>
LBFGSResult lbfgs(Model& model, const Loss& loss, const LBFGSOptions& options = {},
                  CallSite where = CallSite::here()) {
  static_assert(!etude::internal::holds_tensor_manifold<Model>(),
                "etude: lbfgs goes along straight lines, but a part of the model moves by its own "
                "rule (DifferentiableTraits); take an optimiser such as optim::AdamW");
  etude::internal::check_options("lbfgs", options, where);
  const CallScope scope(where);
  const auto moving = [](Model& m) {
    std::vector<internal::Parameter> parameters = internal::parameters_of(m, false).all;
    std::erase_if(parameters, [](const internal::Parameter& p) { return p.is_frozen; });
    return parameters;
  };
  const auto put = [](std::span<const internal::Parameter> to, std::span<const Tensor> tensors) {
    for (std::size_t i = 0; i < to.size(); ++i) *to[i].value = tensors[i];
  };
  Model at = model;
  const std::vector<internal::Parameter> parameters = moving(model), tried = moving(at);
  std::vector<Tensor> x;
  for (const internal::Parameter& p : parameters) x.push_back(*p.value);
  const internal::Evaluate evaluate = [&](std::span<const Tensor> tensors,
                                          std::vector<Tensor>& gradient) {
    put(tried, tensors);
    const auto [value, slope] =
        value_with_gradient({[&](const Model& m) { return loss(m); }, where}, at);
    gradient.clear();
    for (const internal::Parameter& p : internal::pair_up(at, slope, false).all) {
      if (!p.is_frozen) gradient.push_back(*p.gradient);
    }
    return value.template item<double>();
  };
  LBFGSResult result = internal::run_lbfgs(x, evaluate, options);
  put(parameters, x);
  return result;
}

}  // namespace optim
}  // namespace etude
