// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/rules.h"

#include <cmath>
#include <string>

namespace etude::optim {
namespace {

std::string rmsprop_rule(const RMSPropOptions& options) {
  return std::string("rmsprop") + (options.centered ? "_centered" : "") +
         (options.momentum != 0 ? "_momentum" : "");
}

// The momentum of update t.
double nadam_momentum(const NAdamOptions& options, std::int64_t t) {
  return options.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * options.psi));
}

}  // namespace

RMSProp::RMSProp(RMSPropOptions options, CallSite where)
    : OptimizerWith("RMSProp", rmsprop_rule(options), std::move(options), where) {}
std::vector<double> RMSProp::rates(std::int64_t t) const {
  return {rate_of(options_.lr, options_.decay, t), options_.rho, 1 - options_.rho, options_.eps,
          options_.momentum};
}

AdaGrad::AdaGrad(AdaGradOptions options, CallSite where)
    : OptimizerWith("AdaGrad", "adagrad", std::move(options), where) {}
std::vector<double> AdaGrad::rates(std::int64_t t) const {
  return {rate_of(options_.lr, 0, t), options_.initial_accumulator, options_.eps};
}

AdaDelta::AdaDelta(AdaDeltaOptions options, CallSite where)
    : OptimizerWith("AdaDelta", "adadelta", std::move(options), where) {}
std::vector<double> AdaDelta::rates(std::int64_t t) const {
  return {rate_of(options_.lr, options_.decay, t), options_.rho, 1 - options_.rho, options_.eps};
}

AdaMax::AdaMax(AdaMaxOptions options, CallSite where)
    : OptimizerWith("AdaMax", "adamax", std::move(options), where) {}
std::vector<double> AdaMax::rates(std::int64_t t) const {
  return {rate_of(options_.lr, 0, t) / (1 - std::pow(options_.beta1, static_cast<double>(t))),
          options_.beta1, 1 - options_.beta1, options_.beta2, options_.eps};
}

RAdam::RAdam(RAdamOptions options, CallSite where)
    : OptimizerWith("RAdam", "radam", std::move(options), where) {}
std::vector<double> RAdam::rates(std::int64_t t) const {
  const double n = static_cast<double>(t), power = std::pow(options_.beta2, n);
  const double limit = 2 / (1 - options_.beta2) - 1, r = limit - 2 * n * power / (1 - power);
  const double step = rate_of(options_.lr, options_.decay, t) / (1 - std::pow(options_.beta1, n));
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

NAdam::NAdam(NAdamOptions options, CallSite where)
    : OptimizerWith("NAdam", "nadam", std::move(options), where) {}
std::vector<double> NAdam::rates(std::int64_t t) const {
  double product = 1;  // of all momenta so far: soon 0, so few of them count
  for (std::int64_t i = 1; i <= t && product > 1e-300; ++i) product *= nadam_momentum(options_, i);
  const double now = nadam_momentum(options_, t), next = nadam_momentum(options_, t + 1);
  const double scale = 1 / (1 - std::pow(options_.beta2, static_cast<double>(t)));
  return {rate_of(options_.lr, options_.decay, t),
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

Lion::Lion(LionOptions options, CallSite where)
    : OptimizerWith("Lion", "lion", std::move(options), where) {}
std::vector<double> Lion::rates(std::int64_t t) const {
  return {rate_of(options_.lr, 0, t), options_.weight_decay, options_.beta1,
          1 - options_.beta1,         options_.beta2,        1 - options_.beta2};
}

}  // namespace etude::optim
