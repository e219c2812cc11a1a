// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/sgd.h"

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/kernels/cpu/optimizer/descent_rules.h"

namespace etude::optim {
namespace {

std::string_view rule_of(const SGDOptions& options) {
  if (options.momentum == 0) return optimizer::Sgd::kName;
  return options.nesterov ? optimizer::Momentum<true>::kName : optimizer::Momentum<false>::kName;
}

}  // namespace

SGD::SGD(SGDOptions options, CallSite where)
    : OptimizerWith("SGD", rule_of(options), std::move(options), where) {
  etude::internal::located("SGD", where, [&] {
    ETUDE_REQUIRE(!options_.nesterov || options_.momentum > 0,
                  "nesterov needs a momentum above 0, but momentum is {}", options_.momentum);
  });
}

}  // namespace etude::optim
