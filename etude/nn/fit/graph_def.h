// SPDX-License-Identifier: Apache-2.0
// Graphs as messages of TensorFlow (GraphDef), which TensorBoard shows.
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/nn/fit/event_file.h"

namespace etude::nn::internal {

// See EventFile::graph(). Each graph in an attribute is written once, with the first call that has
// it.
std::string graph_def(const Graph& graph, const GraphNames& names);

}  // namespace etude::nn::internal
