// SPDX-License-Identifier: Apache-2.0
// Simplifies a model: adjacent transposes are joined or cancel out, transposed constants become
// constants, and nodes without readers are removed. Conversions add nodes without looking at their
// neighbours, and rely on this.
#pragma once

#include "etude/onnx/model.h"

namespace etude::onnx::internal {

// Keeps: names and order of inputs and outputs, names of constants.
void tidy(GraphModel& graph);

}  // namespace etude::onnx::internal
