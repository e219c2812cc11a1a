// SPDX-License-Identifier: Apache-2.0
// `etude run` and `etude inspect`: folders of saved functions (etude/saved/saved.h).
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "etude/graph/graph.h"
#include "etude/saved/program.h"

namespace etude::tools {

// The function of this name; without a name, the only function.
saved::Function chosen_function(const saved::Program& program, const std::string& name);

// The graph of a saved function with its state in it, for `etude compile`. Open sizes are `size`.
GraphRef load_saved_graph(const std::string& folder, const std::string& function, int64_t size);

// Adds both commands with all that they do.
void add_saved_commands(CLI::App& app);

}  // namespace etude::tools
