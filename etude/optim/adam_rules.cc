// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/adam_rules.h"

#include "etude/kernels/cpu/optimizer/adam_rules.h"

namespace etude::optim {

using internal::StateStart;

AdaMax::AdaMax(AdaMaxOptions options, CallSite where)
    : OptimizerWith("AdaMax", optimizer::AdaMax::kName, std::move(options), where) {}

RAdam::RAdam(RAdamOptions options, CallSite where)
    : OptimizerWith("RAdam", optimizer::RAdam::kName, std::move(options), where) {}

NAdam::NAdam(NAdamOptions options, CallSite where)
    : OptimizerWith("NAdam", optimizer::NAdam::kName, std::move(options), where) {}

AdaBelief::AdaBelief(AdaBeliefOptions options, CallSite where)
    : OptimizerWith("AdaBelief", optimizer::AdaBelief::kName, std::move(options), where) {}

Yogi::Yogi(YogiOptions options, CallSite where)
    : OptimizerWith("Yogi", optimizer::Yogi::kName, std::move(options), where) {}
StateStart Yogi::start_of(std::string_view state, const Tensor& value) const {
  return {value.type(), state == "variance" ? options_.initial_accumulator : 0};
}

ScheduleFreeAdamW::ScheduleFreeAdamW(ScheduleFreeAdamWOptions options, CallSite where)
    : OptimizerWith("ScheduleFreeAdamW", optimizer::ScheduleFreeAdamW::kName, std::move(options),
                    where) {}
StateStart ScheduleFreeAdamW::start_of(std::string_view state, const Tensor& value) const {
  return {value.type(), 0, state != "variance"};
}

}  // namespace etude::optim
