// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "etude/graph/builder.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Inlining: replaces each call of a graph by the nodes of that graph, so that later passes see a
// single program. Such calls are calls of ops with a `body` in their record.
//
// Keeps: the lines of the nodes, and of their calls (Graph::frames), for messages.
GraphRef inline_calls(const Graph& graph);

// The limits matter for functions that call others twice or more, on many levels: inlining them
// would fill the memory. If a fully inlined graph would have more than `most_nodes`, calls of
// bodies with more than `large_body` nodes (counted in the same way) are not inlined. They are
// steps of the plan and run plans of their own.
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
