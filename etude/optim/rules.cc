// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/rules.h"

#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call.h"
#include "etude/core/context.h"
#include "etude/kernels/cpu/optimizer_steps.h"

namespace etude::optim {
namespace {

double decayed(const Schedule& lr, double decay, std::int64_t t) {
  const auto done = static_cast<double>(t - 1);
  return lr(t - 1) / (1 + decay * done);
}

void require_fraction(const char* optimizer, const char* option, double value) {
  ETUDE_REQUIRE(value >= 0 && value < 1, "{}: {} is {}, but must be in [0, 1)", optimizer, option,
                value);
}

std::string rmsprop_rule(const RMSPropOptions& options) {
  return std::string("rmsprop") + (options.centered ? "_centered" : "") +
         (options.momentum != 0 ? "_momentum" : "");
}
std::vector<std::string> rmsprop_state(const RMSPropOptions& options) {
  std::vector<std::string> names;
  if (options.centered) names.push_back("mean");
  names.push_back("variance");
  if (options.momentum != 0) names.push_back("velocity");
  return names;
}

// The momentum of update t.
double nadam_momentum(const NAdamOptions& options, std::int64_t t) {
  return options.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * options.psi));
}

}  // namespace

namespace internal {

void RuleOptimizer::restore(State state) {
  slots_.restore(std::move(state));
  restored_ = true;
}

void RuleOptimizer::update_all(const std::vector<Parameter>& parameters, CallSite where) {
  static const Op& op = etude::internal::op("rule_update");
  slots_.begin_update(parameters);
  restored_ = false;
  std::vector<double> numbers = this->rates(updates());
  numbers.resize(optimizer::kRuleRates, 0);
  const Tensor rates(numbers);
  const Attrs attrs = op.attrs({rule_});
  constexpr std::uint64_t kParameterAndState = 0b111001;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [value, gradient, path] = parameters[i];
    if (!gradient->has_value()) continue;
    slots_.note_copies(i, *value, update_, where);
    OperandList list({value, gradient, &rates});
    for (std::size_t k = 0; k < slots_.names().size(); ++k) list.add(slots_[i][k]);
    Values out = execute(op, list.view(kParameterAndState), attrs, where);
    *value = std::move(out[0]);
    for (std::size_t k = 1; k < out.size(); ++k) slots_[i][k - 1] = std::move(out[k]);
  }
}

}  // namespace internal

RMSProp::RMSProp(RMSPropOptions options)
    : RuleOptimizer("RMSProp", rmsprop_rule(options), rmsprop_state(options)),
      options_(std::move(options)) {
  require_fraction("RMSProp", "rho", options_.rho);
}
std::vector<double> RMSProp::rates(std::int64_t t) const {
  return {decayed(options_.lr, options_.decay, t), options_.rho, 1 - options_.rho, options_.eps,
          options_.momentum};
}

AdaGrad::AdaGrad(AdaGradOptions options)
    : RuleOptimizer("AdaGrad", "adagrad", {"squares"}), options_(std::move(options)) {
  ETUDE_REQUIRE(options_.initial_accumulator >= 0,
                "AdaGrad: initial_accumulator is {}, but must not be negative",
                options_.initial_accumulator);
}
std::vector<double> AdaGrad::rates(std::int64_t t) const {
  return {options_.lr(t - 1), options_.initial_accumulator, options_.eps};
}

AdaDelta::AdaDelta(AdaDeltaOptions options)
    : RuleOptimizer("AdaDelta", "adadelta", {"steps", "variance"}), options_(std::move(options)) {
  require_fraction("AdaDelta", "rho", options_.rho);
}
std::vector<double> AdaDelta::rates(std::int64_t t) const {
  return {decayed(options_.lr, options_.decay, t), options_.rho, 1 - options_.rho, options_.eps};
}

AdaMax::AdaMax(AdaMaxOptions options)
    : RuleOptimizer("AdaMax", "adamax", {"mean", "highest"}), options_(std::move(options)) {
  require_fraction("AdaMax", "beta1", options_.beta1);
  require_fraction("AdaMax", "beta2", options_.beta2);
}
std::vector<double> AdaMax::rates(std::int64_t t) const {
  return {options_.lr(t - 1) / (1 - std::pow(options_.beta1, static_cast<double>(t))),
          options_.beta1, 1 - options_.beta1, options_.beta2, options_.eps};
}

RAdam::RAdam(RAdamOptions options)
    : RuleOptimizer("RAdam", "radam", {"mean", "variance"}), options_(std::move(options)) {
  require_fraction("RAdam", "beta1", options_.beta1);
  require_fraction("RAdam", "beta2", options_.beta2);
}
std::vector<double> RAdam::rates(std::int64_t t) const {
  const double n = static_cast<double>(t), power = std::pow(options_.beta2, n);
  const double limit = 2 / (1 - options_.beta2) - 1, r = limit - 2 * n * power / (1 - power);
  const double step = decayed(options_.lr, options_.decay, t) / (1 - std::pow(options_.beta1, n));
  double scaled = 0, plain = step;
  if (r > 5) {
    scaled = step * std::sqrt(1 - power) *
             std::sqrt((r - 4) * (r - 2) * limit / ((limit - 4) * (limit - 2) * r));
    plain = 0;
  }
  return {scaled,
          plain,
          options_.weight_decay,
          options_.beta1,
          1 - options_.beta1,
          options_.beta2,
          1 - options_.beta2,
          options_.eps};
}

NAdam::NAdam(NAdamOptions options)
    : RuleOptimizer("NAdam", "nadam", {"mean", "variance"}), options_(std::move(options)) {
  require_fraction("NAdam", "beta1", options_.beta1);
  require_fraction("NAdam", "beta2", options_.beta2);
}
std::vector<double> NAdam::rates(std::int64_t t) const {
  double product = 1;  // of all momenta so far: soon 0, so few of them count
  for (std::int64_t i = 1; i <= t && product > 1e-300; ++i) product *= nadam_momentum(options_, i);
  const double now = nadam_momentum(options_, t), next = nadam_momentum(options_, t + 1);
  const double scale = 1 / (1 - std::pow(options_.beta2, static_cast<double>(t)));
  return {decayed(options_.lr, options_.decay, t),
          next / (1 - product * next),
          (1 - now) / (1 - product),
          options_.weight_decay,
          options_.beta1,
          1 - options_.beta1,
          options_.beta2,
          1 - options_.beta2,
          scale,
          options_.eps};
}

Lion::Lion(LionOptions options)
    : RuleOptimizer("Lion", "lion", {"mean"}), options_(std::move(options)) {
  require_fraction("Lion", "beta1", options_.beta1);
  require_fraction("Lion", "beta2", options_.beta2);
}
std::vector<double> Lion::rates(std::int64_t t) const {
  return {options_.lr(t - 1), options_.weight_decay, options_.beta1,
          1 - options_.beta1, options_.beta2,        1 - options_.beta2};
}

}  // namespace etude::optim
