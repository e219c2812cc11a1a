// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Common subexpression elimination (CSE): merges nodes with the same op, attributes and operands,
// and constants with the same bits.
//
// Relies on: no derivative is computed of the result. The cotangents of merged nodes would be
// summed before the rule of the node instead of after it, which rounds differently.
GraphRef merge_equal_nodes(const Graph& graph);

}  // namespace etude::internal
