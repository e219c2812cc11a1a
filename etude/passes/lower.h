// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Lowering (decomposition): replaces each call of an op without a kernel by the calls of its
// lowering. A traced graph contains no such calls, but a graph parsed from text may.
//
// throws: the error of a lowering, with the name and line of the node.
GraphRef lower_compositions(const Graph& graph);

}  // namespace etude::internal
