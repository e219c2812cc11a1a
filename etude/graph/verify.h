// SPDX-License-Identifier: Apache-2.0
// The verifier: whether a graph, and each graph that it carries, is one that can be run. Runs after
// each pass outside release builds. What comes from a file or a wire is checked where it is read
// (parse.h), which knows the line at fault.
#pragma once

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Operands are values of earlier nodes, in the number and of the dtypes that the record takes;
// attributes are those of the record; results have the types that the type rule gives; constants
// have elements of their type; inputs have names and known sizes; outputs exist.
//
// throws: kInternal, naming the graph, the node and its line: only code that makes graphs, such as
//         a pass, can make a wrong one, so that it is a bug there and none of the caller's.
// cost:   each type rule once.
void verify(const Graph& graph);

}  // namespace etude
