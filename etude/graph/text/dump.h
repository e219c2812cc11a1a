// SPDX-License-Identifier: Apache-2.0
// Graphs for other programs: pictures by Graphviz, and JSON. Neither is read back; what is, is the
// text (print.h).
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// For `dot -Tsvg`: a box for each node, with its results; an edge for each operand, with its name.
// Inputs are ellipses coloured by role, constants notes, lines of nodes tooltips. Graphs that are
// attributes are boxes around their nodes. thread-safe.
std::string to_dot(const Graph& graph);

// {"graphs": [{"name", "inputs", "constants", "nodes", "outputs"}, ...]}, the graph itself first.
// Values have the numbers of the graph, null is an absent one. Attributes are all there; an
// attribute that is a graph has its name with an @. Elements of constants, and numbers that JSON
// has not, are texts as in print.h. thread-safe.
std::string to_json(const Graph& graph);

}  // namespace etude
