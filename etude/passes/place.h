// SPDX-License-Identifier: Apache-2.0
// Graphs for a device. A function is traced once, on cpu:0; a call on another device runs its graph
// as placed there. Used by the calls of staged functions. Not a pass of the pipeline: types change.
#pragma once

#include "etude/core/device.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// The graph with its values on `device` in place of cpu:0: inputs and constants as well, but not
// the keys of random draws, which are read on the host. Nodes that the program placed explicitly
// keep their device. Operands elsewhere are copied by nodes of the op to_device. `graph` itself for
// cpu:0. The placed graph is kept with `graph`.
// threads: thread-safe.
// throws: the errors of the type rules; kUnimplemented as calls in a DeviceScope.
GraphRef placed_graph(const Graph& graph, Device device);

}  // namespace etude::internal
