// SPDX-License-Identifier: Apache-2.0
// `etude diff`: the differences between two saved folders, files of graphs, checkpoints or files of
// tensors. The status is as in the program diff: 0 equal, 1 different, 2 an error.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace etude::tools {

inline constexpr int kDiffers = 1, kDiffError = 2;

// Runs `compare`, which returns whether two things differ. Ends the command with the status.
void end_with_status(const std::function<bool()>& compare);

// Adds the command with all that it does. Its options live as long as the program.
void add_diff_command(CLI::App& app);

}  // namespace etude::tools
