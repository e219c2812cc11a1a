// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Dead code elimination (DCE): removes nodes and constants that no output needs.
GraphRef drop_dead_nodes(const Graph& graph);

}  // namespace etude::internal
