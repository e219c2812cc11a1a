// SPDX-License-Identifier: Apache-2.0
// Calls of staged functions on other devices than cpu:0, where functions are traced.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "etude/core/call/values.h"
#include "etude/core/device.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// The device on which a call runs, if it differs from the device of the trace: the device of the
// scope, else the device of the first input on another device.
std::optional<Device> device_of_run(const Graph& graph, Operands inputs);
// Runs the graph as placed on the device, with copies of the inputs that are elsewhere. Copies of
// captures are made once and kept with the placed graph. `given` as for Plan::run().
// throws: kInvalidArgument for arguments on two devices outside of a scope; kFailedPrecondition if
// the scope forbids copies. Both name the argument.
Values run_placed(const Graph& traced, Operands inputs, std::span<const uint8_t> given,
                  Device device, CallSite where);
// Waits until the results of such a run are there, if the device has a queue and a step of the
// graph can fail: before a change that must not happen if a step fails. throws: their late error.
void wait_for_run(const Graph& traced, Device device, std::span<const Tensor> results);

}  // namespace etude::internal
