// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "etude/graph/builder.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Inlining: puts the nodes of a graph in the place of each call of it, so that the passes behind
// see one program. What a record names as the `body` of its op says what a call is.
//
// Keeps: the lines of the nodes, and where they were called (Graph::frames), for messages.
GraphRef inline_calls(const Graph& graph);

// Functions that call others twice or more, level above level, would fill the memory. So a graph
// that has more than `most_nodes` with all calls in place keeps those whose bodies, counted in the
// same way, have more than `large_body`: steps of the plan, which run plans of their own.
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
