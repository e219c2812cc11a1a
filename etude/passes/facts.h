// SPDX-License-Identifier: Apache-2.0
// Facts about nodes, for passes, beyond the record of the op.
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// A few passes over operands and results: see OpDef::is_cheap.
bool is_cheap(const Op& op);
// The operand that result 0 of a cheap node is a view of; -1: none. Prepares the kernel to find
// out.
int viewed_operand(const Graph& graph, const Graph::Node& node);
// Whether the node cannot fail for any elements of its operands: element-wise nodes whose kernels
// never fault (Prepared::never_faults), and cheap or linear nodes whose operands are all of one
// kind, so that none is an index.
bool takes_all_elements(const Graph& graph, const Graph::Node& node);

}  // namespace etude::internal
