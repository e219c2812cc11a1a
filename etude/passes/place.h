// SPDX-License-Identifier: Apache-2.0
// Places graphs on a device. A function is traced once, on cpu:0; a call on another device runs a
// copy of its graph that is placed there. Used by the calls of staged functions. Not a pass of the
// pipeline: types change.
#pragma once

#include "etude/core/device.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Returns the graph with its values on `device` in place of cpu:0; `graph` itself for cpu:0. Inputs
// and constants move too, but not the keys of random draws, which are read on the host. Nodes that
// the program placed explicitly keep their device. Nodes of the op to_device copy operands from
// other devices. `graph` caches the placed graph.
// threads: thread-safe.
// throws: the errors of the type rules; kUnimplemented as calls in a DeviceScope.
GraphRef placed_graph(const Graph& graph, Device device);

}  // namespace etude::internal
