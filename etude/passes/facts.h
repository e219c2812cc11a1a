// SPDX-License-Identifier: Apache-2.0
// What passes ask about nodes beyond the record of the op.
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// A few sweeps over operands and results: see OpDef::is_cheap.
bool is_cheap(const Op& op);
// The operand that result 0 of a cheap node is a view of; -1: none. It is asked of the kernel.
int viewed_operand(const Graph& graph, const Graph::Node& node);
// Whether no elements of the operands make it fail: element-wise nodes whose kernels say so, and
// others that are cheap or linear and whose operands are all of one kind, so that none is an index.
bool takes_all_elements(const Graph& graph, const Graph::Node& node);

}  // namespace etude::internal
