// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Lowering (decomposition): puts the calls of a lowering in the place of each call of an op that
// has no kernel. Traces hold no such op; texts may.
//
// throws: what a lowering throws, with the name and line of the node.
GraphRef lower_compositions(const Graph& graph);

}  // namespace etude::internal
