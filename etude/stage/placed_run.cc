// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/placed_run.h"

#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/located.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/context/placement.h"
#include "etude/passes/place.h"

namespace etude::internal {

std::optional<Device> device_of_run(const Graph& graph, Operands inputs) {
  const std::optional<Device> scope = current_device();
  if (scope && !scope->is_home()) return scope;
  const auto expected = graph.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Device device = TensorAccess::rep(inputs[i])->type->device();
    if (!device.is_home() && device != expected[i].type->device()) return scope.value_or(device);
  }
  return std::nullopt;
}

Values run_placed(const Graph& traced, Operands inputs, Device device, CallSite where) {
  const GraphRef graph = placed_graph(traced, device);
  const Placement* const scope = active_placement();
  std::vector<Tensor> held;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Graph::Input& input = graph->inputs()[i];
    const Device from = inputs[i].type()->device(), to = input.type->device();
    const bool is_argument = input.role == InputRole::kArgument && from != to;
    ETUDE_REQUIRE_CODE(kFailedPrecondition,
                       !is_argument || scope == nullptr || scope->copies != CopyPolicy::kForbid,
                       "argument '{}' is on {}, but the call runs on {}, the device of the "
                       "DeviceScope at {}:{}, which forbids copies. Copy it first: {}.to(\"{}\")",
                       input.name, from.to_string(), to.to_string(), scope->where.file,
                       scope->where.line, input.name, to.to_string());
    ETUDE_REQUIRE(
        !is_argument || scope != nullptr || is_inside_rule(),
        "argument '{}' is on {}, another argument is on {}, and no DeviceScope selects one. "
        "Copy one of them: {}.to(\"{}\")",
        input.name, from.to_string(), to.to_string(), input.name, to.to_string());
    held.push_back(moved(inputs[i], to, where));
  }
  const NoDeviceScope none;
  return call_graph(graph_attrs(*graph), OperandList(held).view(), where);
}

}  // namespace etude::internal
