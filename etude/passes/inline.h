// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "etude/graph/builder.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Inlining: replaces each call of a graph by the nodes of this graph, so that later passes see one
// program. The `body` of an op's record returns the graph of a call.
//
// Preserves: the lines of the nodes and the lines of their calls (Graph::frames), for messages.
GraphRef inline_calls(const Graph& graph);

// Functions that call others twice or more, level after level, would grow exponentially. If a graph
// would have more than `most_nodes` nodes with all calls inlined, the calls remain whose bodies,
// with their own calls inlined, have more than `large_body` nodes: they are steps of the plan, and
// run plans of their own.
struct InlineLimits {
  std::size_t most_nodes = std::size_t{1} << 16;
  std::size_t large_body = std::size_t{1} << 10;
};
GraphRef inline_calls(const Graph& graph, const InlineLimits& limits);

// Appends the nodes of `body` with `inputs` as its inputs; returns its outputs. Messages show these
// nodes as a call at line `where` in the frame `outer`.
std::vector<GraphBuilder::Draft> splice(GraphBuilder& build, const Graph& body,
                                        std::span<const GraphBuilder::Draft> inputs, CallSite where,
                                        uint32_t outer);

}  // namespace etude::internal
