// SPDX-License-Identifier: Apache-2.0
// The time of each call of a graph, for `etude inspect --input`.
#pragma once

#include <span>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/graph/graph.h"

namespace etude::tools {

// Runs the calls one by one, in the eager context, several times. Returns the least time of each in
// microseconds, by node. `inputs` has a tensor for each input of the graph. Effects of calls, such
// as prints, happen in each run.
//
// throws: kInvalidArgument for a wrong type of an input; the errors of the calls.
std::vector<double> node_times(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace etude::tools
