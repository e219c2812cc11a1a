// SPDX-License-Identifier: Apache-2.0
// Parses graphs from text: the output of to_text() (print.h), and hand-written text in that form.
// Texts are not trusted: every error shows the line.
#pragma once

#include <string_view>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The first graph of the text, with the other graphs in its attributes. Accepts more than to_text()
// writes: any distinct numbers or words after '%', constants anywhere before their use, blank lines
// and lines that begin with '#', and types of results, which are checked. The result satisfies all
// checks of verify().
//
// throws: kNotFound for an unknown op, with similar names; kResourceExhausted beyond read_limits();
// kInvalidArgument for any other error.
// Both name line and column, the text found and the text expected.
// cost: memory and time linear in the text, except for the type rules of its ops. Graphs may nest
// 100 levels deep by default (read_limits()).
GraphRef parse_graph(std::string_view text);

}  // namespace etude
