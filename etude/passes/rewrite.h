// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Algebraic simplification: applies the `rewrites` of records to each node, and repeatedly to the
// result.
//
// Relies on: no derivative is computed of the result, so that ops such as stop_gradient may be
// removed.
GraphRef rewrite_calls(const Graph& graph);

}  // namespace etude::internal
