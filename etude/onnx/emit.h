// SPDX-License-Identifier: Apache-2.0
// Graphs become nodes of ONNX, call by call.
#pragma once

#include <vector>

#include "etude/graph/graph.h"
#include "etude/onnx/conversions.h"
#include "etude/onnx/model.h"

namespace etude::onnx::internal {

// Adds the calls of the graph to a model, with these values as inputs. Returns its outputs; "" for
// an absent output. Calls that no output needs are left out.
//
// throws: kUnimplemented for a call without a form in ONNX, with the user's line.
std::vector<Value> emit_graph(Writing& writing, GraphModel& to, const Graph& graph,
                              const std::vector<Value>& inputs);

}  // namespace etude::onnx::internal
