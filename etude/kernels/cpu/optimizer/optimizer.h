// SPDX-License-Identifier: Apache-2.0
// Kernels of optimiser updates on float32 and float64: one pass over parameter, gradient and state,
// in place if the caller donated them. Used by ops/network/optimizer_updates.cc.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Operands parameter, gradient, rates and the states of the attribute `rule`; results parameter and
// states.
void prepare_rule_update(const PrepareCall& call);
// Operand: the number of updates so far. Results: the rates of the next update, and the new number.
void prepare_rule_rates(const PrepareCall& call);

}  // namespace etude::kernels::cpu
