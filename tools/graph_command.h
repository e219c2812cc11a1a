// SPDX-License-Identifier: Apache-2.0
// `etude graph`: shows, compares and runs graphs from files of text (etude/graph/print.h).
#pragma once

#include <CLI/CLI.hpp>

namespace etude::tools {

// Adds the command with all that it does. Its options live as long as the program.
void add_graph_commands(CLI::App& app);

}  // namespace etude::tools
