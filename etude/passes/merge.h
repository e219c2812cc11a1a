// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Common subexpression elimination (CSE): merges nodes that compute the same op on the same values,
// and constants with the same bits.
//
// Requires: no derivative is taken of the result. Cotangents of two merged nodes would be summed
// before they pass the node instead of after it, which changes bits.
GraphRef merge_equal_nodes(const Graph& graph);

}  // namespace etude::internal
