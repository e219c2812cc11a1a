// SPDX-License-Identifier: Apache-2.0
// `etude graph`: shows, compares and runs graphs from files of text (etude/graph/text/print.h) and
// of bytes (etude/graph/binary.h).
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "etude/graph/graph.h"

namespace etude::tools {

// A graph from a file, whose first bytes show its format. Of a file with several graphs, `name`
// selects one.
// throws: errors of reading the file and the graph, which name the file; kNotFound for a name that
// is not in the file, with the names that are.
GraphRef load_graph(const std::string& file, const std::string& name = "");

// Adds the command with all that it does. Its options live as long as the program.
void add_graph_commands(CLI::App& app);

}  // namespace etude::tools
