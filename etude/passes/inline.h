// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Puts the nodes of a graph in the place of each call of it, so that the passes behind see one
// program. What a record names as the `body` of its op says what a call is.
//
// Keeps: the lines of the nodes, and where they were called (Graph::frames), for messages.
GraphRef inline_calls(const Graph& graph);

}  // namespace etude::internal
