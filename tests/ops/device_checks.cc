// SPDX-License-Identifier: Apache-2.0
// Calls on other devices than cpu:0, one by one and as graphs: the same bits, in the memory of the
// device.
#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "etude/core/context/device_scope.h"
#include "etude/passes/place.h"
#include "tests/devices/sim/sim_device.h"
#include "tests/ops/checks.h"

namespace etude::matrix {

std::array<Device, 2> other_devices() {
  static const Device second = add_cpu_device();
  return {second, sim::device()};
}

bool fixes_devices(const Call& call) {
  const auto& defs = call.op->def().attrs;
  return call.op->moves_devices() || call.op->def().effect == Effect::kReads ||
         call.op->def().effect == Effect::kWrites ||
         std::ranges::any_of(defs, [](const AttrDef& a) { return holds_graphs(a.kind); });
}

namespace {

// Whether an operand decides the device of the call.
bool has_place(const Call& call) {
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (call.operands[i].has_value() && !call.op->operand(i).on_host) return true;
  }
  return false;
}

void compare(const Call& call, std::string_view where, const Values& got, const Values& want,
             const Device& device) {
  const std::string mode = fmt::format("{} {}", where, device.to_string());
  for (std::size_t r = 0; r < want.size(); ++r) {
    if (!want[r].has_value()) continue;
    expect(got[r].has_value() && got[r].device() == device, call.label(mode), [&] {
      return fmt::format("result {} is on {}, want {}", r, got[r].device().to_string(),
                         device.to_string());
    });
    const Tensor home = to_dense(got[r]).to(Device());
    const Tensor wanted = to_dense(want[r]);
    expect(same_bits(home, wanted), call.label(mode),
           [&] { return fmt::format("result {}: got {}, want {}", r, show(home), show(wanted)); });
  }
}

void check_on(const Device& device, const Call& call, const Values& want) {
  Call there = call;
  for (std::size_t i = 0; i < there.operands.size(); ++i) {
    Tensor& x = there.operands[i];
    if (x.has_value() && !call.op->operand(i).on_host) x = to_dense(x).to(device);
  }
  if (has_place(call)) compare(call, "on", run(there), want, device);

  // In a scope the operands come from home.
  const bool is_outside = call.op->def().effect == Effect::kOutside;
  const bool moves = has_place(call) || call.op->device_attr() >= 0;
  if (is_outside || !moves) return;
  Values scoped;
  {
    const DeviceScope on(device);
    scoped = run(call);
  }
  compare(call, "in a scope of", scoped, want, device);
}

// The graph of the call as placed on the device: its plan has the bits of the call.
void check_plan_on(const Device& device, const Call& call, const Graph& graph, const Values& want) {
  const GraphRef placed = internal::placed_graph(graph, device);
  std::vector<Tensor> inputs = inputs_of(call);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = to_dense(inputs[i]).to(placed->inputs()[i].type->device());
  }
  std::vector<Tensor> found;
  for (const Tensor& y : run_plan(*placed, inputs)) {
    found.push_back(y.has_value() ? to_dense(y).to(Device()) : y);
  }
  compare_lists(call, fmt::format("staged on {}", device.to_string()), found,
                {want.data(), want.size()});
}

}  // namespace

void check_device(const Call& call) {
  const Effect effect = call.op->def().effect;
  const bool is_state = effect == Effect::kReads || effect == Effect::kWrites;
  if (!is_state && !call.op->moves_devices() && !has_data_sizes(call)) {
    const GraphRef graph = graph_of(call);
    const Values want = dense_results(call);
    for (const Device& device : other_devices()) check_plan_on(device, call, *graph, want);
  }
  if (fixes_devices(call)) return;
  const Values want = run(call);
  for (const Device& device : other_devices()) check_on(device, call, want);
}

}  // namespace etude::matrix
