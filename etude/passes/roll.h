// SPDX-License-Identifier: Apache-2.0
// Loop rerolling. If a host loop recorded the same calls repeatedly, roll_repeats() replaces them
// by a loop, so that the cost of planning and compiling does not grow with the repetitions. Used
// for lazy segments (lazy/program.cc), before the passes of pipeline.h, which also run on the step
// of the loop. The result computes the same bits with the same ops, in other nodes.
//
// Invariant: a stretch of nodes is replaced by a scan node if and only if it satisfies the rules of
// rolled_loops.h. If later nodes read a value of the last step only, it is a carried value;
// otherwise it is a row of the results of the scan. If that would copy much memory, the calls are
// not replaced.
#pragma once

#include <cstddef>

#include "etude/graph/graph.h"

namespace etude::internal {

// Returns the same graph if nothing is repeated. Inputs and outputs are unchanged.
// cost: linear in the graph.
GraphRef roll_repeats(const Graph& graph);

// The number of nodes in the graph and in the graphs of its attributes, each counted once.
std::size_t node_count(const Graph& graph);

}  // namespace etude::internal
