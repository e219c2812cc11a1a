// SPDX-License-Identifier: Apache-2.0
// Calls on sparse operands, which hold some rows of a tensor; the other rows are zero. Ops with
// accepts_slices in their record run on the rows alone. For all other ops `execute` makes operands
// dense.
#pragma once

#include "etude/core/context/context.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Returns the index of the only sparse operand if all other operands are single numbers, else -1.
// An element-wise op that is linear in this operand can run on its rows.
int slices_operand(Operands in) noexcept;
// A sparse tensor with the row indices of `like` and other values.
Tensor with_rows(const Tensor& like, Tensor values);
// Runs the call on the rows of operand i.
Values execute_on_slices(const Op& op, Operands in, int i, const Attrs& attrs, CallSite where);

// The line of the call whose rule or lowering is running; unknown outside of rules.
CallSite rule_call_site() noexcept;

}  // namespace internal
}  // namespace etude
