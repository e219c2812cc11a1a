// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Computes what is the same in all steps of a loop (OpDef::loop) before the loop, and gives it to
// the steps as a further operand. A loop may have no step: so nodes that elements of their operands
// can make fail stay where they are, and so do costly ones unless a step is sure to run. Of loops
// in loops it takes out as far as it can.
//
// Relies on: no derivative is taken of the result.
GraphRef hoist_invariants(const Graph& graph);

}  // namespace etude::internal
