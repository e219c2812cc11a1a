// SPDX-License-Identifier: Apache-2.0
// Loop rerolling. roll_repeats(): loops in the place of calls that a host loop has recorded again
// and again, so that what planning and compiling cost does not grow with the repetitions. Used for
// lazy segments (lazy/program.cc), before the passes of pipeline.h; those run on the step
// of the loop as well. The result computes the same bits with the same ops: only which node a value
// comes from is another.
//
// Invariant: where the steps read alike (rolled_loops.h) and only there, a node of the op scan
// stands in their place. Values that nodes behind it read of one step only are the carried ones of
// the last step; else they are rows of its results. Where that would copy much memory, the calls
// stay.
#pragma once

#include <cstddef>

#include "etude/graph/graph.h"

namespace etude::internal {

// The graph itself where nothing repeats itself. Inputs and outputs stay the same.
// cost: linear in the graph.
GraphRef roll_repeats(const Graph& graph);

// Nodes of the graph and of those that it carries, each of these once.
std::size_t node_count(const Graph& graph);

}  // namespace etude::internal
