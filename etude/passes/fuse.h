// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Fusion: replaces a chain of element-wise float32 nodes by one node with a program that computes
// them element by element (kernels/cpu/elementwise/fused_program.h), so that no intermediate value
// is written to memory. A node joins its reader if all its readers are in the chain, if its result
// has the shape of the chain, and if the program has at most 6 operands and 64 functions and
// numbers. Numbers in the graph become numeric attributes of the call.
//
// Relies on: no derivative is computed of the result; values have no readers outside the graph.
// Keeps: every value, bit for bit, since each function uses the formula of its own kernel. A node
// does not join if its operands, which then stay alive longer, need more memory than its result.
GraphRef fuse_elementwise(const Graph& graph);

}  // namespace etude::internal
