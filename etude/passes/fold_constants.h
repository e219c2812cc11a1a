// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Constant folding: runs nodes that read only constants, or nothing, and replaces their results by
// constants.
//
// Folds only small operands and results: plans must be quick to make and must not hold much memory.
// A call that fails stays in the graph, and the run throws its error.
GraphRef fold_constants(const Graph& graph);

}  // namespace etude::internal
