// SPDX-License-Identifier: Apache-2.0
// Graphs become lines of StableHLO, call by call.
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/saved/source.h"
#include "etude/stablehlo/module.h"

namespace etude::stablehlo::internal {

// Adds the calls of the graph, with these values as inputs. Returns its outputs; an absent term for
// an absent output. Calls that no output needs are left out.
//
// throws: kUnimplemented for a call without a form in StableHLO, with the user's line.
Terms emit_graph(Writer& writer, const Graph& graph, const Terms& inputs);

// The module of a source: its function is main. Weights are constants or the last arguments.
// throws: as emit_graph().
std::string module_text(const saved::internal::Source& source, bool weights_as_arguments);

}  // namespace etude::stablehlo::internal
