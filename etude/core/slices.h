// SPDX-License-Identifier: Apache-2.0
// Calls on sparse operands, which hold some rows of a tensor and zeros elsewhere. Ops that records
// mark with accepts_slices run on the rows alone; for all others `execute` makes operands dense.
#pragma once

#include "etude/core/context.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The one sparse operand, if all others are single numbers, so that an op that works element by
// element and is linear in that operand can run on its rows; -1 elsewhere.
int rows_operand(Operands in) noexcept;
// The rows of `like`, which is sparse, with other values.
Tensor with_rows(const Tensor& like, Tensor values);
// The call on the rows of operand i.
Values execute_on_rows(const Op& op, Operands in, int i, const Attrs& attrs, CallSite where);

// The line of the call whose rule or lowering is running; unknown outside of rules.
CallSite rule_call_site() noexcept;

}  // namespace internal
}  // namespace etude
