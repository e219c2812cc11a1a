// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Loop-invariant code motion (LICM): computes values that are equal in all steps of a loop
// (OpDef::loop) before the loop, and passes them to the steps as additional operands. A loop may
// have no steps. So nodes that can fail for some elements remain in the loop, and so do costly
// nodes unless a step is certain to run. Moves values out of nested loops to the outermost level
// possible.
//
// Relies on: no derivative is computed of the result.
GraphRef hoist_invariants(const Graph& graph);

}  // namespace etude::internal
