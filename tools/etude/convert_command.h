// SPDX-License-Identifier: Apache-2.0
// `etude convert`: saved functions as models of ONNX, and models as saved functions
// (etude/onnx/onnx.h).
#pragma once

#include <CLI/CLI.hpp>

namespace etude::tools {

// Adds the command with all that it does.
void add_convert_command(CLI::App& app);

}  // namespace etude::tools
