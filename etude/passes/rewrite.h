// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Algebraic simplification: applies the rewrite rules of the op's record (OpDef::rewrites) to each
// node, until no rule matches.
//
// Precondition: no derivative of the result is computed. So a rule may remove ops such as
// stop_gradient.
GraphRef rewrite_calls(const Graph& graph);

}  // namespace etude::internal
