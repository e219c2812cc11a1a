// SPDX-License-Identifier: Apache-2.0
// Parses graphs from text: the output of to_text() (print.h), and hand-written text in that form.
// Texts are not trusted: every error shows the line.
#pragma once

#include <string_view>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Returns the first graph of the text, with the other graphs in its attributes. Accepts more than
// to_text() writes: any distinct numbers or words after '%', constants anywhere before their use,
// blank lines, lines that begin with '#', and types of results (which are checked). The result
// satisfies all checks of verify().
//
// throws: kUnimplemented for an unknown op, with similar names, and for a version of an op that has
// no upgrade; kResourceExhausted beyond read_limits(); kInvalidArgument for any other error. All
// name line and column; kInvalidArgument also names the text found and the text expected.
// cost: memory and time linear in the text, except for the type rules of its ops. Graphs may nest
// 100 levels deep by default (read_limits()).
GraphRef parse_graph(std::string_view text);

}  // namespace etude
