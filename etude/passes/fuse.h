// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Fusion: one node in the place of a run of element-wise ones on float32: a program that computes
// what they did for each element in turn (kernels/cpu/elementwise/fused_program.h), so that nothing between
// them goes through memory. A node joins the one that reads it if all its readers are of the run,
// the shape of its result is that of the run's, and it fits: 6 operands, 64 functions and numbers.
// Numbers in the graph become numeric attributes of the call.
//
// Relies on: no derivative is taken of the result; what reads a value in the graph is all that
// does. Keeps: every value, bit for bit, as each function runs by the formula of its own kernel. A
// node does not join where its operands would take more memory while they wait than its result.
GraphRef fuse_elementwise(const Graph& graph);

}  // namespace etude::internal
