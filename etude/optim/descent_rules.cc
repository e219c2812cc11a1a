// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/descent_rules.h"

#include "etude/kernels/cpu/optimizer/descent_rules.h"

namespace etude::optim {

using internal::StateStart;

Lion::Lion(LionOptions options, CallSite where)
    : OptimizerWith("Lion", optimizer::Lion::kName, std::move(options), where) {}

Rprop::Rprop(RpropOptions options, CallSite where)
    : OptimizerWith("Rprop", optimizer::Rprop::kName, options, where), lr_(options.lr) {}
StateStart Rprop::start_of(std::string_view state, const Tensor& value) const {
  return {value.type(), state == "size" ? options_.lr : 0};
}

ASGD::ASGD(ASGDOptions options, CallSite where)
    : OptimizerWith("ASGD", optimizer::Asgd::kName, std::move(options), where) {}
StateStart ASGD::start_of(std::string_view, const Tensor& value) const {
  return {value.type(), 0, true};
}

ScheduleFreeSGD::ScheduleFreeSGD(ScheduleFreeSGDOptions options, CallSite where)
    : OptimizerWith("ScheduleFreeSGD", optimizer::ScheduleFreeSgd::kName, std::move(options),
                    where) {}
StateStart ScheduleFreeSGD::start_of(std::string_view, const Tensor& value) const {
  return {value.type(), 0, true};
}

}  // namespace etude::optim
