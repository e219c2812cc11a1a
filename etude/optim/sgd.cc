// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/sgd.h"

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"

namespace etude::optim {
namespace {

const char* rule_of(const SGDOptions& options) {
  if (options.momentum == 0) return "sgd";
  return options.nesterov ? "nesterov" : "momentum";
}

}  // namespace

SGD::SGD(SGDOptions options, CallSite where)
    : OptimizerWith("SGD", rule_of(options), std::move(options), where) {
  etude::internal::located("SGD", where, [&] {
    ETUDE_REQUIRE(!options_.nesterov || options_.momentum > 0,
                  "nesterov needs a momentum above 0, but momentum is {}", options_.momentum);
  });
}

internal::RateOptions SGD::rate_options() const {
  return {
      options_.lr, options_.decay, {options_.weight_decay, options_.momentum, options_.dampening}};
}

}  // namespace etude::optim
