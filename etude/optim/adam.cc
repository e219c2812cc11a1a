// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/adam.h"

namespace etude::optim {
namespace {

const char* rule_of(bool decoupled, bool amsgrad) {
  if (decoupled) return amsgrad ? "adamw_amsgrad" : "adamw";
  return amsgrad ? "adam_amsgrad" : "adam";
}

}  // namespace

Adam::Adam(std::string_view optimizer, AdamOptions options, bool decoupled, CallSite where)
    : OptimizerWith(optimizer, rule_of(decoupled, options.amsgrad), std::move(options), where) {}

internal::RateOptions Adam::rate_options() const {
  return {options_.lr,
          options_.decay,
          {options_.weight_decay, options_.beta1, options_.beta2, options_.eps}};
}

}  // namespace etude::optim
