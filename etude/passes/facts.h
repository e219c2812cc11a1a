// SPDX-License-Identifier: Apache-2.0
// Facts about nodes, for passes, beyond the record of the op.
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Whether the op costs only a few passes over operands and results: see OpDef::is_cheap.
bool is_cheap(const Op& op);
// The operand that result 0 of a cheap node views; -1: none. The function prepares the kernel to
// find it.
int viewed_operand(const Graph& graph, const Graph::Node& node);
// Whether the node cannot fail, whatever the elements of its operands. True for element-wise nodes
// whose kernels never fault (Prepared::never_faults), and for cheap or linear nodes whose operands
// are all of one kind, so that no operand is an index.
bool takes_all_elements(const Graph& graph, const Graph::Node& node);

}  // namespace etude::internal
