// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Common subexpression elimination (CSE): merges nodes that compute the same from the same values,
// and constants with the same bits.
//
// Relies on: no derivative is computed of the result. The cotangents of merged nodes would be
// summed before they pass the node instead of after, which rounds differently.
GraphRef merge_equal_nodes(const Graph& graph);

}  // namespace etude::internal
