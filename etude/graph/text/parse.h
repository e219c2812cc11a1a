// SPDX-License-Identifier: Apache-2.0
// Graphs from text: reads what to_text() (print.h) wrote, and what people write like it. Texts are
// not trusted: whatever is wrong is an Error that shows the line.
#pragma once

#include <string_view>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The first graph of the text, which may carry the others. More is allowed than to_text() writes:
// any distinct numbers or words behind '%', constants anywhere before their use, lines that are
// blank or begin with '#', types of results, which are checked then. All that verify() checks holds
// for the result.
//
// throws: kNotFound for an unknown op, with the nearest names, kInvalidArgument for anything else
//         that is wrong; both name line and column, say what was seen and what must be there.
// cost:   memory and time linear in the text, but for what its ops do to tell types. Graphs may
//         refer to others 100 levels deep.
GraphRef parse_graph(std::string_view text);

}  // namespace etude
