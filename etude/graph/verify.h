// SPDX-License-Identifier: Apache-2.0
// The verifier: checks that a graph, and each graph in its attributes, can run. Runs after each
// pass outside release builds. Graphs from files are checked during reading (parse.h), where the
// faulty line is known.
#pragma once

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Checks that operands are values of earlier nodes, with the number and dtypes that the record
// states; that attributes agree with the record; that results have the types of the type rule; that
// constants have elements of their type; that inputs have names and known sizes; and that outputs
// exist.
//
// throws: kInternal, naming the graph, the node and its line: a wrong graph is a bug in the code
// that made it, such as a pass, and never the caller's fault.
// cost: runs each type rule once.
void verify(const Graph& graph);

}  // namespace etude
