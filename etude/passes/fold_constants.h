// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Constant folding: runs nodes that read only constants, or nothing, and replaces their results by
// constants.
//
// Only for small operands and results, since a plan must not be slow to make or hold much memory. A
// call that fails remains a node, so that the run throws the error.
GraphRef fold_constants(const Graph& graph);

}  // namespace etude::internal
