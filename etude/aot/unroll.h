// SPDX-License-Identifier: Apache-2.0
// Loops as straight code, for models: a model runs no graphs of its own.
#pragma once

#include <cstddef>

#include "etude/graph/graph.h"

namespace etude::aot {

// The maximum number of nodes after unrolling. A node becomes a step of a model, with its prepared
// parameters.
inline constexpr std::size_t kMostUnrolledNodes = std::size_t{1} << 14;

// Replaces each loop over rows (op scan) by the calls of all its steps, also inside of called
// graphs and of other loops. A step reads its rows in place. Computes the same bits. Loops that
// would lead to more than `most_nodes` nodes stay, and so do loops without a step.
GraphRef unrolled(const Graph& graph, std::size_t most_nodes = kMostUnrolledNodes);

}  // namespace etude::aot
