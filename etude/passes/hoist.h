// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Loop-invariant code motion (LICM): computes before a loop (OpDef::loop) the values that are the
// same in all its steps, and passes them to the steps as further operands. A loop may have no step:
// so nodes that elements of their operands can make fail stay where they are, and so do costly ones
// unless a step is sure to run. Of loops in loops it takes out as far as it can.
//
// Relies on: no derivative is taken of the result.
GraphRef hoist_invariants(const Graph& graph);

}  // namespace etude::internal
