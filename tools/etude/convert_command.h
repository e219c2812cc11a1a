// SPDX-License-Identifier: Apache-2.0
// `etude convert`: saved functions, models of ONNX (etude/onnx/onnx.h), modules of StableHLO
// (etude/stablehlo/stablehlo.h), graphs and weights in another of these forms.
#pragma once

#include <CLI/CLI.hpp>

namespace etude::tools {

// Adds the command with all that it does.
void add_convert_command(CLI::App& app);

}  // namespace etude::tools
