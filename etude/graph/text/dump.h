// SPDX-License-Identifier: Apache-2.0
// Graphs for other programs: Graphviz pictures and JSON. Neither can be read back; the text can
// (print.h).
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// For `dot -Tsvg`: a box for each node, with its results; an edge for each operand, with its name.
// Inputs are ellipses coloured by role, constants are notes, lines of nodes are tooltips. Graphs in
// attributes are boxes around their nodes. threads: thread-safe.
std::string to_dot(const Graph& graph);

// {"graphs": [{"name", "inputs", "constants", "nodes", "outputs"}, ...]}, the main graph first.
// Values have the numbers of the graph; null is an absent value. All attributes are listed; a graph
// attribute is its name with an @. Elements of constants, and numbers that JSON lacks, are texts as
// in print.h. threads: thread-safe.
std::string to_json(const Graph& graph);

}  // namespace etude
