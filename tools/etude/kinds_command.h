// SPDX-License-Identifier: Apache-2.0
// `etude kinds`: lists the layers, optimisers, losses and other kinds, or shows some of them.
#pragma once

#include <CLI/CLI.hpp>

namespace etude::tools {

// Adds the command with all that it does. Its options live as long as the program.
void add_kinds_command(CLI::App& app);

}  // namespace etude::tools
