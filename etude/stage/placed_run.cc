// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/placed_run.h"

#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/located.h"
#include "etude/core/context/caller_place.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/context/placement.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/mode.h"
#include "etude/core/internal/traced.h"
#include "etude/passes/place.h"
#include "etude/plan/plan.h"

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

namespace {

// The captures of a graph on its device.
struct CapturedCopies : RefCounted {
  struct Copy {
    Tensor from, there;
  };
  std::mutex mutex;
  std::vector<Copy> by_input;
};

// Captures are fixed, so that one copy serves all calls. A context sees the copy of each call.
Tensor moved_capture(const Graph& placed, std::size_t i, const Tensor& x, Device to,
                     CallSite where) {
  if (!TensorAccess::has_elements(x) || !ContextStack::is_eager()) return moved(x, to, where);
  const auto copies =
      placed.kept<CapturedCopies>("captures", [] { return make_ref<CapturedCopies>(); });
  auto& known = const_cast<CapturedCopies&>(*copies);
  {
    const std::lock_guard lock(known.mutex);
    known.by_input.resize(placed.inputs().size());
    const CapturedCopies::Copy& copy = known.by_input[i];
    if (copy.from.has_value() && copy.from.ref() == x.ref()) return copy.there;
  }
  CapturedCopies::Copy made{x, moved(x, to, where)};
  const std::lock_guard lock(known.mutex);
  known.by_input[i] = made;
  return made.there;
}

// Whether x is a value of an enclosing trace on cpu:0, where functions are traced for all devices:
// it follows the other arguments, as the operands of a call. A Variable stays.
bool follows_others(const Tensor& x) {
  const bool stays = has_fixed_place(x) && !hides_scope();
  return x.type()->device().is_home() && trace_of(x) != nullptr && !stays;
}

}  // namespace

Values run_placed(const Graph& traced, Operands inputs, std::span<const uint8_t> given,
                  Device device, CallSite where) {
  const GraphRef graph = placed_graph(traced, device);
  const Placement* const scope = active_placement();
  std::vector<Tensor> held;
  held.reserve(inputs.size());  // the list has their addresses
  OperandList list;
  bool has_data = true;
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
        !is_argument || scope != nullptr || is_inside_rule() || follows_others(inputs[i]),
        "argument '{}' is on {}, another argument is on {}, and no DeviceScope selects one. "
        "Copy one of them: {}.to(\"{}\")",
        input.name, from.to_string(), to.to_string(), input.name, to.to_string());
    has_data = has_data && TensorAccess::has_elements(inputs[i]);
    if (from == to) {  // no further handle: the run may take its memory
      list.add(inputs[i]);
      continue;
    }
    const bool is_capture = input.role == InputRole::kCapture;
    list.add(held.emplace_back(is_capture ? moved_capture(*graph, i, inputs[i], to, where)
                                          : moved(inputs[i], to, where)));
  }
  const CallerPlaceScope caller(scope);
  const NoDeviceScope none;
  if (mode_word != 0 || !has_data) return call_graph(graph_attrs(*graph), list.view(), where);
  Values out = Plan::of(*graph)->run(list.view(), given);
  for (const Tensor& y : out) note_line(y, where);
  return out;
}

void wait_for_run(const Graph& traced, Device device, std::span<const Tensor> results) {
  if (device.is_home() || !memory_of(device)->is_queued()) return;
  if (!Plan::of(*placed_graph(traced, device))->may_fail()) return;
  for (const Tensor& result : results) wait_for(result);
}

}  // namespace etude::internal
