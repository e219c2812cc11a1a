// SPDX-License-Identifier: Apache-2.0
// Calls of staged functions on other devices than cpu:0, where functions are traced.
#pragma once

#include <optional>

#include "etude/core/call/values.h"
#include "etude/core/device.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// The device on which a call runs, if it differs from the device of the trace: the device of the
// scope, else the device of the first input on another device.
std::optional<Device> device_of_run(const Graph& graph, Operands inputs);
// Runs the graph placed on the device. Inputs from other devices are copied.
// throws: kInvalidArgument for arguments on two devices outside of a scope; kFailedPrecondition if
// the scope forbids copies. Both name the argument.
Values run_placed(const Graph& traced, Operands inputs, Device device, CallSite where);

}  // namespace etude::internal
