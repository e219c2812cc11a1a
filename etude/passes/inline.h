// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "etude/graph/builder.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Inlining: replaces each call of a graph by the graph's nodes, so that later passes see one
// program. The `body` in the record of an op identifies calls.
//
// Keeps: the lines of the nodes, and of their calls (Graph::frames), for messages.
GraphRef inline_calls(const Graph& graph);

// Functions that call others twice or more, on many levels, would fill the memory. If a fully
// inlined graph would have more than `most_nodes`, calls of bodies with more than `large_body`
// nodes, counted in the same way, stay: they are steps of the plan and run their own plans.
struct InlineLimits {
  std::size_t most_nodes = std::size_t{1} << 16;
  std::size_t large_body = std::size_t{1} << 10;
};
GraphRef inline_calls(const Graph& graph, const InlineLimits& limits);

// Appends the nodes of `body` with the inputs `inputs`; returns its outputs. Messages show the
// nodes as a call of `body` at `where` in the frame `outer`.
std::vector<GraphBuilder::Draft> splice(GraphBuilder& build, const Graph& body,
                                        std::span<const GraphBuilder::Draft> inputs, CallSite where,
                                        uint32_t outer);

}  // namespace etude::internal
