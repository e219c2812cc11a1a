// SPDX-License-Identifier: Apache-2.0
// The verifier: checks that a graph, and each graph in its attributes, can run. Runs after each
// pass outside release builds. The parser checks graphs from text (text/parse.h), since the parser
// knows the faulty line.
#pragma once

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Checks these facts:
// * Inputs have names and known sizes.
// * Constants have elements of their type.
// * Operands are inputs, constants or results of earlier nodes. Their number and dtypes agree with
//   the record of the op.
// * Attributes agree with the record.
// * Results have the types of the type rule.
// * Outputs exist.
//
// throws: kInternal, with the graph, the node and its line. A wrong graph is a bug in the code that
//         made it, such as a pass, and never the caller's fault.
// cost:   one run of the type rule of each node.
void verify(const Graph& graph);

}  // namespace etude
