// SPDX-License-Identifier: Apache-2.0
// Closed graphs: graphs that contain the values of their captures as constants. So a single file
// holds everything that a run needs. For `etude graph run` and `etude compile`.
#pragma once

#include <span>

#include "etude/graph/graph.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Returns a copy of the graph. Constants with the values `captures` replace its capture inputs.
//
//   const auto predict = function([&](const Tensor& x) { return model(x); }, {.name = "predict"});
//   predict(example);
//   const auto trace = predict.traces()[0];
//   const GraphRef whole = closed_graph(trace.graph(), trace.captures());
//
// throws: kInvalidArgument if the number of captures or the type of a capture does not fit the
//   graph.
GraphRef closed_graph(const Graph& graph, std::span<const Tensor> captures);
// The same for all graphs of a symbolic graph. trace.symbolic_graph() is the symbolic graph of a
// trace that serves many sizes.
SymbolicGraphRef closed_symbolic_graph(const SymbolicGraph& symbolic,
                                       std::span<const Tensor> captures);

// A former name, which the next release drops.
[[deprecated("closed_family() is closed_symbolic_graph()")]] inline SymbolicGraphRef closed_family(
    const SymbolicGraph& graph, std::span<const Tensor> captures) {
  return closed_symbolic_graph(graph, captures);
}

}  // namespace etude
