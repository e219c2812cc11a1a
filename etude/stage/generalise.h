// SPDX-License-Identifier: Apache-2.0
// Generalisation: two traces of a function that differ only in sizes become a symbolic graph
// (graph/symbolic_graph.h), which serves further sizes without tracing. Used by function_core.cc.
//
// A symbolic graph requires three things: the graphs agree, they use the same outside tensors and
// Variables, and host code read no size that differs (core/internal/size_reads.h), since its
// decisions are fixed in the graph. If host code reads the size of an axis, there is a trace for
// each size of that axis.
//
// A graph at a size of 0 or 1 is no evidence about other sizes, since broadcasting treats 0 and 1
// differently. If one of the first two calls has such a size, the function is traced at made-up
// sizes, as with a signature (signature.h), and the symbolic graph of these graphs becomes the
// second trace. Later calls with sizes of 0 and 1 have graphs of their own, which do not count as
// traces of the function.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "etude/graph/symbolic_graph.h"
#include "etude/stage/function_core.h"

namespace etude::internal {

// Sets the symbolic graph of `made`, a new trace for `call`. It is found from `made` and a trace of
// `before`, which lists the oldest first; if no trace fits, records the reason. If a symbolic graph
// refused the sizes of `made`, its graphs and this graph form a more general symbolic graph.
void generalise(Trace& made, const Arguments& call, std::span<const TraceRef> before);

// Traces at made-up sizes (signature.h), and their symbolic graph. There is no symbolic graph if no
// size is open.
struct MadeUpTraces {
  std::vector<RefPtr<Trace>> traces;
  SymbolicFound found;
};

// The reason why a symbolic graph does not serve a call; "" if the call differs in more than sizes.
struct Refusal {
  std::string text;
  bool is_of_given_size = false;  // a given size of 0 or 1; else a derived size, or a formula
};

// The graph of a symbolic graph for the sizes of this call; null if it does not serve the call.
TraceRef instance_of(const Trace& trace, const Arguments& call, Refusal& refusal);

}  // namespace etude::internal
