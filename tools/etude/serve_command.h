// SPDX-License-Identifier: Apache-2.0
// `etude serve`: starts the program etude-serve, from the folder of etude. So etude needs no
// library for networks.
#pragma once

#include <CLI/CLI.hpp>

namespace etude::tools {

void add_serve_command(CLI::App& app);

}  // namespace etude::tools
