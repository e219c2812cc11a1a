// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/adaptive_rules.h"

#include "etude/kernels/cpu/optimizer/adaptive_rules.h"

namespace etude::optim {

using internal::StateStart;

static std::string_view rmsprop_rule(const RMSPropOptions& options) {
  using optimizer::RmsProp;
  if (options.momentum != 0) {
    return options.centered ? RmsProp<true, true>::kName : RmsProp<false, true>::kName;
  }
  return options.centered ? RmsProp<true, false>::kName : RmsProp<false, false>::kName;
}
RMSProp::RMSProp(RMSPropOptions options, CallSite where)
    : OptimizerWith("RMSProp", rmsprop_rule(options), std::move(options), where) {}

AdaGrad::AdaGrad(AdaGradOptions options, CallSite where)
    : OptimizerWith("AdaGrad", optimizer::AdaGrad::kName, std::move(options), where) {}

AdaDelta::AdaDelta(AdaDeltaOptions options, CallSite where)
    : OptimizerWith("AdaDelta", optimizer::AdaDelta::kName, std::move(options), where) {}

FTRL::FTRL(FTRLOptions options, CallSite where)
    : OptimizerWith("FTRL", optimizer::Ftrl::kName, std::move(options), where) {}
StateStart FTRL::start_of(std::string_view state, const Tensor& value) const {
  return {value.type(), state == "squares" ? options_.initial_accumulator : 0};
}

}  // namespace etude::optim
