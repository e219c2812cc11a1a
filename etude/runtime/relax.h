// SPDX-License-Identifier: Apache-2.0
// Relaxing: two traces of a function that differ in sizes only become a family (graph/family.h),
// which serves further sizes without tracing. Used by function_core.cc.
//
// A family is made if the graphs agree, use the same outside tensors and Variables, and host code
// looked at no size that differs (core/size_reads.h): what it decided by one would be fixed. So
// such an axis stays as it is, and each size of it has a trace.
#pragma once

#include <span>
#include <string>

#include "etude/runtime/function_core.h"

namespace etude::internal {

// Gives `made`, which is new and made for `call`, the family of it and of one of `before`, oldest
// first; where there is none, notes why. Where a family refused the sizes of `made`, its graphs and
// this one make a family that knows more.
void relax(Trace& made, const Arguments& call, std::span<const TraceRef> before);

// The graph of a family for the sizes of this call; null if it is not of the family, or refused
// there; then `refusal` says why, if there is something to say.
TraceRef instance_of(const Trace& trace, const Arguments& call, std::string& refusal);

}  // namespace etude::internal
