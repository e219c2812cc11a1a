// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Algebraic simplification: applies the rules that records have as `rewrites`, to a node and then
// to what it became.
//
// Relies on: no derivative is taken of the result, so that what stops one may go.
GraphRef rewrite_calls(const Graph& graph);

}  // namespace etude::internal
