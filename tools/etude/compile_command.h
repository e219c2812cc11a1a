// SPDX-License-Identifier: Apache-2.0
// `etude compile`: a graph from a file as an object file with headers (etude/aot/compile_model.h).
#pragma once

#include <CLI/CLI.hpp>

namespace etude::tools {

// Adds the command with all that it does. Its options live as long as the program.
void add_compile_command(CLI::App& app);

}  // namespace etude::tools
