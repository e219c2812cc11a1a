// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Constant folding: runs nodes that read constants alone, or nothing, and makes their results
// constants.
//
// Only where operands and results are small: a plan may not be slow to make, nor hold much memory.
// A call that fails stays a node, so that the failure is that of the run.
GraphRef fold_constants(const Graph& graph);

}  // namespace etude::internal
