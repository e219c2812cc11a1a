// SPDX-License-Identifier: Apache-2.0
// `etude run` and `etude inspect`: folders of saved functions (etude/saved/saved.h).
#pragma once

#include <CLI/CLI.hpp>

namespace etude::tools {

// Adds both commands with all that they do.
void add_saved_commands(CLI::App& app);

}  // namespace etude::tools
