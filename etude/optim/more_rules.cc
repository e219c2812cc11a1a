// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/more_rules.h"

namespace etude::optim {

using internal::RateOptions;
using internal::StateStart;

AdaBelief::AdaBelief(AdaBeliefOptions options, CallSite where)
    : OptimizerWith("AdaBelief", "adabelief", std::move(options), where) {}
RateOptions AdaBelief::rate_options() const {
  return {options_.lr, 0, {options_.weight_decay, options_.beta1, options_.beta2, options_.eps}};
}

Yogi::Yogi(YogiOptions options, CallSite where)
    : OptimizerWith("Yogi", "yogi", std::move(options), where) {}
RateOptions Yogi::rate_options() const {
  return {options_.lr, 0, {options_.weight_decay, options_.beta1, options_.beta2, options_.eps}};
}
StateStart Yogi::start_of(std::size_t state, const Tensor& value) const {
  return {value.type(), state == 1 ? options_.initial_accumulator : 0};
}

Rprop::Rprop(RpropOptions options, CallSite where)
    : OptimizerWith("Rprop", "rprop", options, where), lr_(options.lr) {}
RateOptions Rprop::rate_options() const {
  return {lr_, 0, {options_.shrink, options_.grow, options_.min_size, options_.max_size}};
}
StateStart Rprop::start_of(std::size_t state, const Tensor& value) const {
  return {value.type(), state == 1 ? options_.lr : 0};
}

FTRL::FTRL(FTRLOptions options, CallSite where)
    : OptimizerWith("FTRL", "ftrl", std::move(options), where) {}
RateOptions FTRL::rate_options() const {
  return {options_.lr, 0, {options_.l1, options_.l2, options_.beta}};
}
StateStart FTRL::start_of(std::size_t state, const Tensor& value) const {
  return {value.type(), state == 0 ? options_.initial_accumulator : 0};
}

ASGD::ASGD(ASGDOptions options, CallSite where)
    : OptimizerWith("ASGD", "asgd", std::move(options), where) {}
RateOptions ASGD::rate_options() const {
  return {options_.lr, 0, {options_.weight_decay, options_.lambda, options_.alpha, options_.start}};
}

StateStart ASGD::start_of(std::size_t, const Tensor& value) const {
  return {value.type(), 0, true};
}

ScheduleFreeSGD::ScheduleFreeSGD(ScheduleFreeSGDOptions options, CallSite where)
    : OptimizerWith("ScheduleFreeSGD", "schedule_free_sgd", std::move(options), where) {}
RateOptions ScheduleFreeSGD::rate_options() const {
  return {options_.lr, 0, {options_.weight_decay, options_.beta}};
}
StateStart ScheduleFreeSGD::start_of(std::size_t, const Tensor& value) const {
  return {value.type(), 0, true};
}

ScheduleFreeAdamW::ScheduleFreeAdamW(ScheduleFreeAdamWOptions options, CallSite where)
    : OptimizerWith("ScheduleFreeAdamW", "schedule_free_adamw", std::move(options), where) {}
RateOptions ScheduleFreeAdamW::rate_options() const {
  return {options_.lr, 0, {options_.weight_decay, options_.beta1, options_.beta2, options_.eps}};
}
StateStart ScheduleFreeAdamW::start_of(std::size_t state, const Tensor& value) const {
  return {value.type(), 0, state != 1};
}

}  // namespace etude::optim
