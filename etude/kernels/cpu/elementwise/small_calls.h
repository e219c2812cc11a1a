// SPDX-License-Identifier: Apache-2.0
// Descriptions of calls on a few elements, for machine code that inlines them (plan/cluster.h). The
// file of each kernel has a function that describes a call from its prepared parameters, so that
// knowledge of a kernel stays in its file.
#pragma once

#include <span>

#include "etude/plan/cluster.h"

namespace etude::kernels::cpu {

using etude::internal::SmallCall;

// Whether this prepared call can be described, for operands of these types.
bool describe_small_call(const Prepared& call, std::span<const Type* const> operands,
                         SmallCall& out);

// Defined in the files of the kernels. Calls have one result.
bool describe_elementwise(const Prepared& call, SmallCall& out);
bool describe_product(const Prepared& call, SmallCall& out);
bool describe_reduce(const Prepared& call, SmallCall& out);
// Whether a kernel only copies bits of its operands, and so works for any dtype.
bool is_copy(KernelFn run);
bool is_broadcast(KernelFn run);
bool is_join(KernelFn run);

}  // namespace etude::kernels::cpu
