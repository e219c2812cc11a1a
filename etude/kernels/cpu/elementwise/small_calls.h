// SPDX-License-Identifier: Apache-2.0
// What calls on a few elements compute, told for machine code that does it in line
// (plan/region.h). Each kernel tells it of itself, from what was prepared for its runs, so that
// there is one place that knows.
#pragma once

#include <span>

#include "etude/plan/region.h"

namespace etude::kernels::cpu {

using etude::internal::SmallCall;

// Whether this prepared call is one of those that can be told, on operands of these types.
bool tell_small_call(const Prepared& call, std::span<const Type* const> operands, SmallCall& out);

// By the files of the kernels. Calls have one result.
bool tell_elementwise(const Prepared& call, SmallCall& out);
bool tell_product(const Prepared& call, SmallCall& out);
bool tell_reduce(const Prepared& call, SmallCall& out);
// Whether a kernel gives bits of its operands, and nothing else, whatever these bits are.
bool is_copy(KernelFn run);
bool is_broadcast(KernelFn run);
bool is_join(KernelFn run);

}  // namespace etude::kernels::cpu
