// SPDX-License-Identifier: Apache-2.0
// Relaxing: two traces of a function that differ in sizes only become a family (graph/family.h),
// which serves further sizes without tracing. Used by function_core.cc.
//
// A family is made if the graphs agree, use the same outside tensors and Variables, and host code
// looked at no size that differs (core/context/size_reads.h): what it decided by one would be fixed. So
// such an axis stays as it is, and each size of it has a trace.
//
// A graph at a size of 0 or 1 says nothing of others, since what broadcasts hangs on these. If one
// of the first two calls has such a size, the function is traced at made-up sizes, as with a
// signature (signature.h), and the family of these graphs is the second trace. Later calls with
// sizes of 0 and 1 have graphs of their own, which are no further traces of the function.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "etude/graph/family.h"
#include "etude/stage/function_core.h"

namespace etude::internal {

// Gives `made`, which is new and made for `call`, the family of it and of one of `before`, oldest
// first; where there is none, notes why. Where a family refused the sizes of `made`, its graphs and
// this one make a family that knows more.
void relax(Trace& made, const Arguments& call, std::span<const TraceRef> before);

// Those that a family is made of at made-up sizes (signature.h); no family where none is open.
struct MadeUpTraces {
  std::vector<RefPtr<Trace>> traces;
  FamilyFound found;
};

// Why a family does not serve a call; "" if it is not of the family at all.
struct Refusal {
  std::string text;
  bool is_of_given_size = false;  // one of 0 or 1; else of one that follows, or of a formula
};

// The graph of a family for the sizes of this call; null if it does not serve it.
TraceRef instance_of(const Trace& trace, const Arguments& call, Refusal& refusal);

}  // namespace etude::internal
