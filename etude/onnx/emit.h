// SPDX-License-Identifier: Apache-2.0
// Graphs become nodes of ONNX, call by call.
#pragma once

#include <vector>

#include "etude/graph/graph.h"
#include "etude/onnx/conversions.h"
#include "etude/onnx/model.h"
#include "etude/onnx/onnx.h"
#include "etude/saved/source.h"

namespace etude::onnx::internal {

// Adds the calls of the graph to a model, with these values as inputs. Returns its outputs; "" for
// an absent output. Calls that no output needs are left out.
//
// throws: kUnimplemented for a call without a form in ONNX, with the user's line.
std::vector<Value> emit_graph(Writing& writing, GraphModel& to, const Graph& graph,
                              const std::vector<Value>& inputs);

// The model of a source.
// throws: as emit_graph(); the errors of open sizes (sizes.h).
Model make_model(const saved::internal::Source& source, const SaveOptions& options);

}  // namespace etude::onnx::internal
