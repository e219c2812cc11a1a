// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/rules.h"

#include <string>

namespace etude::optim {
namespace {

std::string rmsprop_rule(const RMSPropOptions& options) {
  return std::string("rmsprop") + (options.centered ? "_centered" : "") +
         (options.momentum != 0 ? "_momentum" : "");
}

}  // namespace

RMSProp::RMSProp(RMSPropOptions options, CallSite where)
    : OptimizerWith("RMSProp", rmsprop_rule(options), std::move(options), where) {}
internal::RateOptions RMSProp::rate_options() const {
  return {options_.lr, options_.decay, {options_.rho, options_.eps, options_.momentum}};
}

AdaGrad::AdaGrad(AdaGradOptions options, CallSite where)
    : OptimizerWith("AdaGrad", "adagrad", std::move(options), where) {}
internal::RateOptions AdaGrad::rate_options() const {
  return {options_.lr, 0, {options_.initial_accumulator, options_.eps}};
}

AdaDelta::AdaDelta(AdaDeltaOptions options, CallSite where)
    : OptimizerWith("AdaDelta", "adadelta", std::move(options), where) {}
internal::RateOptions AdaDelta::rate_options() const {
  return {options_.lr, options_.decay, {options_.rho, options_.eps}};
}

AdaMax::AdaMax(AdaMaxOptions options, CallSite where)
    : OptimizerWith("AdaMax", "adamax", std::move(options), where) {}
internal::RateOptions AdaMax::rate_options() const {
  return {options_.lr, 0, {options_.beta1, options_.beta2, options_.eps}};
}

RAdam::RAdam(RAdamOptions options, CallSite where)
    : OptimizerWith("RAdam", "radam", std::move(options), where) {}
internal::RateOptions RAdam::rate_options() const {
  return {options_.lr,
          options_.decay,
          {options_.weight_decay, options_.beta1, options_.beta2, options_.eps}};
}

NAdam::NAdam(NAdamOptions options, CallSite where)
    : OptimizerWith("NAdam", "nadam", std::move(options), where) {}
internal::RateOptions NAdam::rate_options() const {
  return {options_.lr,
          options_.decay,
          {options_.weight_decay, options_.beta1, options_.beta2, options_.eps, options_.psi}};
}

Lion::Lion(LionOptions options, CallSite where)
    : OptimizerWith("Lion", "lion", std::move(options), where) {}
internal::RateOptions Lion::rate_options() const {
  return {options_.lr, 0, {options_.weight_decay, options_.beta1, options_.beta2}};
}

}  // namespace etude::optim
