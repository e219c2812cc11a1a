// SPDX-License-Identifier: Apache-2.0
// Placement: the device of a call, and the copies of its operands to it. Used by execute(), which
// places a call after its dtypes are promoted, and by calls that turn numbers into tensors.
#pragma once

#include <optional>
#include <vector>

#include "etude/core/call/values.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/op/op.h"

namespace etude::internal {

// Whether calls of the op run graphs. The input types of these graphs then decide the devices of
// the operands.
bool holds_graphs(const Op& op) noexcept;
// The scope that now places calls of this thread; null if there is none, or while a rule runs.
const Placement* active_placement() noexcept;
// Whether a NoDeviceScope hides a scope of this thread.
bool hides_scope() noexcept;
// Whether a call in a scope needs no placement: its operands are on the device of the scope.
bool is_placed(const Op& op, Operands in) noexcept;
// The device to which the operands of a call are copied; absent if they stay where they are.
//
// throws: kInvalidArgument for operands on two devices outside of a scope, naming both, their lines
// and the copy to write; kUnimplemented if the device of a hard scope has no kernel of the op.
std::optional<Device> device_of_call(const Op& op, Operands in, const Attrs& attrs);
// Operand i on the device. throws: kFailedPrecondition if a scope forbids the copy.
Tensor placed_operand(const Op& op, std::size_t i, const Tensor& x, Device device, CallSite where);
// The attributes of a call that creates a tensor. The device of the scope is added unless they
// state a device.
Attrs placed_attrs(const Op& op, const Attrs& attrs);
// The device on which a host number becomes a tensor: the scope's, else the device of the first
// tensor among the operands.
Device device_for_numbers(const Op& op, Operands tensors);

// Notes the line of the call that made x, for messages, if x is not on cpu:0.
void note_line(const Tensor& x, CallSite where) noexcept;
// Returns a tensor that the user's line `where` made from host data, moved to the given device, or
// else to the device of the scope.
Tensor in_scope(Tensor made, CallSite where, std::optional<Device> given = std::nullopt);
// The device of random draws for x: the given device, else the device of the scope, else the device
// of x. Absent if that is cpu:0, so that a graph that is recorded has no device of its own.
std::optional<Device> device_of_draws(const std::optional<Device>& given, const Tensor& x);
// Marks x, the value of a Variable in a trace. A value of cpu:0 in a trace goes to the device of
// the other operands; but Variables on two devices are an error there as well, unless the trace
// hides a scope. Both are defined in core/internal/traced.cc.
void fix_place(const Tensor& x) noexcept;
bool has_fixed_place(const Tensor& x) noexcept;
// Moves tensors to the device of the scope, if it exists, by the op to_device: the values of loops
// and the results of branches, whose calls run there.
void to_scope(std::vector<Tensor>& xs, CallSite where);
// Whether this thread traces a function. Defined in etude/startup.cc.
bool is_inside_trace() noexcept;
// x on the device by the op to_device; x itself if it is there. Defined in core/tensor_ops.cc.
Tensor moved(const Tensor& x, Device device, CallSite where = {});

}  // namespace etude::internal
