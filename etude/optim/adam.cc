// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/adam.h"

#include "etude/kernels/cpu/optimizer/adam_rules.h"

namespace etude::optim {
namespace {

template <bool decoupled>
std::string_view rule_of(bool amsgrad) {
  return amsgrad ? optimizer::Adam<decoupled, true>::kName
                 : optimizer::Adam<decoupled, false>::kName;
}

}  // namespace

Adam::Adam(std::string_view optimizer, AdamOptions options, bool decoupled, CallSite where)
    : OptimizerWith(optimizer,
                    decoupled ? rule_of<true>(options.amsgrad) : rule_of<false>(options.amsgrad),
                    std::move(options), where) {}

}  // namespace etude::optim
