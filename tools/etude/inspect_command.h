// SPDX-License-Identifier: Apache-2.0
// `etude inspect`: saved folders, files of graphs and checkpoints, as text or as a page.
#pragma once

#include <CLI/CLI.hpp>

namespace etude::tools {

// Adds the command with all that it does. Its options live as long as the program.
void add_inspect_command(CLI::App& app);

}  // namespace etude::tools
