// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Common subexpression elimination (CSE): makes one node of those that compute the same of the same
// values, and one constant of those with the same bits.
//
// Relies on: no derivative is taken of the result. Cotangents of the two would be summed before
// they pass the node instead of behind it, which gives other bits.
GraphRef merge_equal_nodes(const Graph& graph);

}  // namespace etude::internal
