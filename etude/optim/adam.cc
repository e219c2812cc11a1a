// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/adam.h"

#include <cmath>

namespace etude::optim {
namespace {

const char* rule_of(bool decoupled, bool amsgrad) {
  if (decoupled) return amsgrad ? "adamw_amsgrad" : "adamw";
  return amsgrad ? "adam_amsgrad" : "adam";
}

}  // namespace

Adam::Adam(std::string_view optimizer, AdamOptions options, bool decoupled, CallSite where)
    : OptimizerWith(optimizer, rule_of(decoupled, options.amsgrad), std::move(options), where),
      decoupled_(decoupled) {}

std::vector<double> Adam::rates(std::int64_t t) const {
  const double lr = rate_of(options_.lr, options_.decay, t), n = static_cast<double>(t);
  return {lr,
          decoupled_ ? lr * options_.weight_decay : options_.weight_decay,
          options_.beta1,
          1 - options_.beta1,
          options_.beta2,
          1 - options_.beta2,
          1 / (1 - std::pow(options_.beta1, n)),
          1 / (1 - std::pow(options_.beta2, n)),
          options_.eps};
}

}  // namespace etude::optim
