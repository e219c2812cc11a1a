// SPDX-License-Identifier: Apache-2.0
#include "etude/core/context/placement.h"

#include <algorithm>
#include <vector>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/located.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/resource.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/mode.h"
#include "etude/core/internal/traced.h"

namespace etude::internal {
namespace {

// "operand 'x' (made at train.cc:3) is on cpu:1".
std::string place_text(const Op& op, std::size_t i, const Tensor& x) {
  const CallSite made = made_at(x);
  const std::string line =
      made.known() ? fmt::format(" (made at {}:{})", made.file, made.line) : "";
  return fmt::format("{}{} is on {}", operand_text(op, i), line, x.type()->device().to_string());
}

[[noreturn]] void throw_mixed(const Op& op, Operands in, std::size_t i, std::size_t j) {
  ETUDE_THROW(kInvalidArgument,
              "{} and {}, and no DeviceScope selects one. Copy one of them: "
              "{}.to(\"{}\")",
              place_text(op, i, in[i]), place_text(op, j, in[j]), operand_expression(op, i),
              in[j].type()->device().to_string());
}

// Whether x is a value of a trace, or an example of a vmap inside a trace.
bool is_traced(const Tensor& x) {
  return trace_of(x) != nullptr || (TensorAccess::is_abstract(x) && is_inside_trace());
}

// The device where all operands are, or outside of scopes an error. In a rule a value at home, such
// as a constant of the rule, follows the others; in a trace as well, since functions are traced at
// home and called anywhere.
Device common_device(const Op& op, Operands in) {
  Device common;
  std::size_t common_at = in.size();
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in.has(i) || op.operand(i).on_host) continue;
    const Device device = in[i].type()->device();
    if (common_at == in.size()) {
      common = device;
      common_at = i;
    } else if (device != common) {
      const bool is_free = is_inside_rule() || is_traced(in[i]) || is_traced(in[common_at]);
      const bool are_fixed = !is_inside_rule() && !hides_scope() && has_fixed_place(in[i]) &&
                             has_fixed_place(in[common_at]);
      const bool follows = is_free && !are_fixed && (device.is_home() || common.is_home());
      if (!follows) throw_mixed(op, in, common_at, i);
      if (common.is_home()) common = device;
    }
  }
  return common;
}

[[noreturn]] void throw_no_kernel(const Op& op, Device device) {
  std::vector<std::string> with_kernel;
  for (const Device other : list_devices()) {
    if (op.runs_on(other)) with_kernel.push_back(other.to_string());
  }
  ETUDE_THROW(kUnimplemented,
              "has no kernel on {}, the device of a DeviceScope that is not soft. Devices with a "
              "kernel: {}. Set DeviceScopeOptions::soft, or open a DeviceScope of one of them",
              device.to_string(), fmt::join(with_kernel, ", "));
}

}  // namespace

const Placement* active_placement() noexcept {
  return (mode_word & kModeDevice) != 0 && !is_inside_rule() ? ambient().place : nullptr;
}

bool is_placed(const Op& op, Operands in) noexcept {
  const Placement* const place = active_placement();
  if (place == nullptr) return true;
  if (!place->device || op.device_attr() >= 0 || op.has_host_operands()) return false;
  if (op.moves_devices()) return true;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in.has(i) && in[i].type()->device() != *place->device) return false;
  }
  return in.size() > 0 && op.runs_on(*place->device);
}

bool holds_graphs(const Op& op) noexcept {
  return std::ranges::any_of(op.def().attrs,
                             [](const AttrDef& a) { return etude::holds_graphs(a.kind); });
}

std::optional<Device> device_of_call(const Op& op, Operands in, const Attrs& attrs) {
  if (op.moves_devices() || op.def().effect == Effect::kReads || holds_graphs(op)) {
    return std::nullopt;
  }
  if (op.def().effect == Effect::kWrites) return in[0].type()->device();
  const Placement* const place = active_placement();
  Device device = place != nullptr ? device_of(*place) : common_device(op, in);
  if (op.device_attr() >= 0 && attrs.has("device")) device = device_of(op, in, attrs);
  if (op.runs_on(device)) return device;
  if (place != nullptr && !place->soft) throw_no_kernel(op, device);
  return op.runs_on(Device()) ? Device() : device;
}

Tensor placed_operand(const Op& op, std::size_t i, const Tensor& x, Device device, CallSite where) {
  if (op.operand(i).on_host) return moved(x, Device(), where);
  const Device from = x.type()->device();
  if (from == device || is_resource(x)) return x;
  const Placement* const place = active_placement();
  if (place == nullptr || place->copies == CopyPolicy::kSilent) return moved(x, device, where);
  const CallSite scope = place->where;
  const std::string fact =
      fmt::format("{}, but the call runs on {}, the device of the DeviceScope at {}:{}",
                  place_text(op, i, x), device.to_string(), scope.file, scope.line);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, place->copies == CopyPolicy::kWarn,
                     "{}, which forbids copies. Copy it first: {}.to(\"{}\")", fact,
                     operand_expression(op, i), device.to_string());
  const std::string line = where.known() ? fmt::format("{}:{}", where.file, where.line) : "";
  warn_once(
      fmt::format("copy {} {} {}", op.name(), i, line),
      fmt::format("{}: {}; it is copied{}", op.name(), fact, line.empty() ? "" : "\n  at " + line));
  return moved(x, device, where);
}

Attrs placed_attrs(const Op& op, const Attrs& attrs) {
  const Placement* const place = active_placement();
  if (place == nullptr || op.device_attr() < 0 || attrs.has("device")) return attrs;
  const Device device = device_of(*place);
  if (device.is_home()) return attrs;
  std::vector<AttrValue> values(attrs.values().begin(), attrs.values().end());
  values[static_cast<std::size_t>(op.device_attr())] = device.to_string();
  return op.attrs(values);
}

Device device_for_numbers(const Op& op, Operands tensors) {
  if (op.moves_devices()) return {};
  if (const Placement* const place = active_placement()) {
    const Device device = device_of(*place);
    return op.runs_on(device) ? device : Device();
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors.has(i) && !op.operand(i).on_host) return tensors[i].type()->device();
  }
  return {};
}

std::optional<Device> device_of_draws(const std::optional<Device>& given, const Tensor& x) {
  std::optional<Device> device = given ? given : current_device();
  if (!device && !x.device().is_home()) device = x.device();
  return device;
}

Tensor in_scope(Tensor made, CallSite where, std::optional<Device> given) {
  const Placement* const place = active_placement();
  if (!given && place != nullptr && where.known()) given = device_of(*place);
  if (!given || given->is_home()) return made;
  Tensor out = copied_to(made, *given);
  note_line(out, where);
  return out;
}

void to_scope(std::vector<Tensor>& xs, CallSite where) {
  const Placement* const place = active_placement();
  if (place == nullptr) return;
  const Device device = device_of(*place);
  for (Tensor& x : xs) {
    if (x.has_value()) x = moved(x, device, where);
  }
}

void note_line(const Tensor& x, CallSite where) noexcept {
  if (!x.has_value()) return;
  Buffer* const buffer = TensorAccess::rep(x)->buffer;
  const bool is_away = buffer != nullptr && buffer->memory != nullptr;
  if (is_away) static_cast<DeviceBuffer*>(buffer)->made_at = where;
}

}  // namespace etude::internal
