// SPDX-License-Identifier: Apache-2.0
// The members of Tensor that call ops: in-place updates and dense forms; and the functions of
// builtin.h.
#include <optional>

#include "etude/base/check.h"
#include "etude/base/thread_table.h"
#include "etude/core/bit_updates.h"
#include "etude/core/call/arg.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/graph_calls.h"
#include "etude/core/call/run.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/context/placement.h"
#include "etude/core/copies.h"
#include "etude/core/index.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/mode.h"
#include "etude/core/length.h"
#include "etude/core/op/promotion.h"

namespace etude {
namespace {

// Checked before any write: the result of an in-place update must have the type of its target.
void require_fits(const Tensor& x, const Tensor& y, std::string_view name, CallSite where) {
  internal::located(name, where, [&] {
    ETUDE_REQUIRE(
        y.dtype() == x.dtype(),
        "the right side is {}, but the updated tensor is {} and keeps its dtype. Cast the "
        "right side: astype(x, {})",
        etude::name(y.dtype()), etude::name(x.dtype()), etude::name(x.dtype()));
    ETUDE_REQUIRE(y.type() == x.type() || broadcast(x.shape(), y.shape()) == x.shape(),
                  "the right side has shape {}, which does not broadcast to the shape {} of the "
                  "updated tensor. Write x = {}(x, y) to get a larger one",
                  y.shape().to_string(), x.shape().to_string(), name);
  });
}

// The right side of an in-place update, cast to the dtype of x; absent if it is a tensor of that
// dtype.
Tensor right_side(const Tensor& x, const Arg& y, std::string_view name) {
  if (!x.has_value()) return {};
  if (y.tensor() == nullptr) {
    return internal::located(name, y.where(), [&] {
      return internal::moved(internal::adapt(y, x.dtype()), x.device(), y.where());
    });
  }
  if (!y.tensor()->has_value() || y.tensor()->dtype() == x.dtype()) return {};
  return internal::for_target(*y.tensor(), x.dtype(), y.where());
}

Tensor& update(const Op& op, Tensor& x, const Arg& y) {
  ETUDE_REQUIRE(op.name() != "divide" || is_differentiable(x.dtype()),
                "/= on {} would need a floating result. Use floor_divide, or astype first",
                name(x.dtype()));
  // The updated tensor keeps its device in any scope.
  const bool in_scope = (internal::mode_word & internal::kModeDevice) != 0 && x.has_value() &&
                        internal::active_placement() != nullptr;
  std::optional<internal::NoDeviceScope> keeps;
  if (in_scope) keeps.emplace();
  Tensor own = right_side(x, y, op.name());
  const Tensor* right = own.has_value() ? &own : y.tensor();
  if (in_scope && right != nullptr && right->has_value() && right->device() != x.device()) {
    own = internal::moved(*right, x.device(), y.where());
    right = &own;
  }
  if (right != nullptr && right->has_value()) require_fits(x, *right, op.name(), y.where());
  // If y is x itself, its handle keeps the old elements alive and the update copies.
  const Tensor keep = y.tensor() == &x ? x : Tensor();
  internal::note_if_copied(x, op.name(), y.where());
  if (own.has_value()) {
    x = internal::call2(op, Arg(std::move(x), y.where()), Arg(std::move(own), y.where()));
  } else if (keep.has_value()) {
    x = internal::call2(op, Arg(std::move(x), y.where()), Arg(keep, y.where()));
  } else {
    x = internal::call2(op, Arg(std::move(x), y.where()), y);
  }
  return x;
}

}  // namespace

Tensor& Tensor::operator+=(const Arg& x) { return update(internal::op<"add">(), *this, x); }
Tensor& Tensor::operator-=(const Arg& x) { return update(internal::op<"subtract">(), *this, x); }
Tensor& Tensor::operator*=(const Arg& x) { return update(internal::op<"multiply">(), *this, x); }
Tensor& Tensor::operator/=(const Arg& x) { return update(internal::op<"divide">(), *this, x); }
Tensor& operator&=(Tensor& x, const Arg& y) { return update(internal::op<"bitwise_and">(), x, y); }
Tensor& operator|=(Tensor& x, const Arg& y) { return update(internal::op<"bitwise_or">(), x, y); }
Tensor& operator^=(Tensor& x, const Arg& y) { return update(internal::op<"bitwise_xor">(), x, y); }

const TensorSlice& TensorSlice::operator-=(const Arg& value) const {
  const DType dtype = target_.dtype();
  const Tensor number = value.tensor() == nullptr
                            ? internal::moved(internal::adapt(value, dtype), target_.device())
                            : internal::for_target(*value.tensor(), dtype, value.where());
  const Tensor negated = internal::negative(Arg(number, value.where()));
  return update(Arg(negated, value.where()), ScatterMode::kAdd);
}

Tensor Tensor::to(const Device& device, CallSite where) const {
  static_cast<void>(checked());
  return internal::located("to_device", where,
                           [&] { return internal::moved(*this, device, where); });
}

namespace internal {

Tensor moved(const Tensor& x, Device device, CallSite where) {
  if (x.type()->device() == device) return x;
  Tensor out = run(op<"to_device">(), {&x}, {device.to_string()}, where);
  note_line(out, user_line(where));
  return out;
}

Tensor identity(const Tensor& x, CallSite where) { return run(op<"identity">(), {&x}, {}, where); }

Tensor stop_gradient(const Tensor& x) { return run(op<"stop_gradient">(), {&x}); }

Tensor cast(const Tensor& x, DType dtype, CallSite where) {
  if (x.dtype() == dtype) return x;
  return run(op<"astype">(), {&x}, {dtype}, where);
}

Tensor reshaped(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : run(op<"reshape">(), {&x}, {IntList(shape)});
}

Tensor broadcasted(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : run(op<"broadcast_to">(), {&x}, {IntList(shape)});
}

Tensor stack(std::span<const Tensor> parts, int64_t axis, CallSite where) {
  return run(op<"stack">(), OperandList(parts), {axis}, where);
}

Values unstack(const Tensor& x) { return run_all(op<"unstack">(), {&x}, {0}); }

Tensor concat(std::span<const Tensor> parts, CallSite where) {
  return run(op<"concat">(), OperandList(parts), {IntList(0)}, where);
}

Tensor rows_of(const Tensor& x, const Tensor& indices) {
  return run(op<"take">(), {&x, &indices}, {0});
}

Tensor with_first_axis_second(const Tensor& x) {
  return run(op<"moveaxis">(), {&x}, {IntList(0), IntList(1)});
}

Tensor dot(const Tensor& x, const Tensor& y) {
  const Tensor product = run(op<"multiply">(), {&x, &y});
  return run(op<"sum">(), {&product});
}

Tensor length(std::span<const Tensor> parts) { return run(op<"length">(), OperandList(parts)); }

Tensor segment_sum(const Tensor& rows, const Tensor& numbers, int64_t n) {
  return run(op<"segment_sum">(), {&rows, &numbers}, {n});
}

Tensor sqrt(const Tensor& x) { return call1(op<"sqrt">(), x); }

Tensor negative(const Arg& x) { return call1(op<"negative">(), x); }

Tensor add(Tensor&& x, const Tensor& y, CallSite where) {
  const Tensor* const in[] = {&x, &y};
  return run(op<"add">(), Operands(in, 2, 1), {}, where);
}

Tensor sum_to(const Tensor& x, const Shape& shape, CallSite where) {
  if (x.shape() == shape) return x;
  return run(op<"sum_to">(), {&x}, {IntList(shape)}, where);
}

Tensor full(const Type* type, double value, CallSite where) {
  const Tensor number = adapt(type->dtype() == kBool             ? Arg(value != 0)
                              : is_differentiable(type->dtype()) ? Arg(value)
                                                                 : Arg(static_cast<int64_t>(value)),
                              type->dtype());
  const Tensor there = copied_to(number, type->device());
  return run(op<"full">(), {&there}, {IntList(type->shape())}, where);
}

Tensor conj(const Tensor& x, CallSite where) {
  if (!is_complex(x.dtype())) return x;
  return run(op<"conj">(), {&x}, {}, where);
}

static const Op& fused() { return op<"fused_elementwise">(); }

Attrs program_attrs(const ScalarDef& def) {
  // Rules of element-wise ops need this at each step: made once per thread.
  struct Made {
    const ScalarDef* def = nullptr;
    Attrs attrs;
  };
  const uint64_t hash =
      reinterpret_cast<uintptr_t>(&def) / alignof(ScalarDef) * 0x9E3779B97F4A7C15ull;
  const auto holds = [&](const Made& made) { return made.def == &def; };
  const auto [made, is_known] = ThreadTable<Made, 128>::find(hash, holds);
  if (!is_known) made = {&def, fused().attrs({&def, std::vector<double>()})};
  return made.attrs;
}

Tensor run_program(const ScalarDef& def, Operands operands, const std::vector<double>& params,
                   CallSite where) {
  const Attrs attrs = params.empty() ? program_attrs(def) : program_attrs(def, params);
  return run(fused(), operands, attrs, where);
}

const Op& program_op() { return fused(); }
Attrs program_attrs(const ScalarDef& def, const std::vector<double>& params) {
  return fused().attrs({&def, params});
}

Attrs graph_attrs(const AttrObject& graph) {
  return op<"call">().attrs({&graph, AttrView(), AttrView(), AttrView(), AttrView(), AttrView()});
}

Tensor fold_in(const Tensor& key, const Tensor& numbers) {
  return run(op<"random_fold_in">(), {&key, &numbers});
}

Values switch_graphs(const AttrObjects& branches, Operands operands, CallSite where) {
  return run_all(op<"switch_case">(), operands,
                 op<"switch_case">().attrs_by_name({{"branches", branches}}), where);
}

OpCall scan_call(const AttrObject& body, int64_t carried, int64_t rows, int64_t length,
                 bool is_reverse) {
  return {op<"scan">(), op<"scan">().attrs_by_name({{"body", RefPtr<const AttrObject>(&body)},
                                                    {"carried", carried},
                                                    {"rows", rows},
                                                    {"length", length},
                                                    {"reverse", is_reverse}})};
}

Values scan_graph(const AttrObject& body, Operands operands, int64_t carried, int64_t rows,
                  int64_t length, CallSite where) {
  const OpCall call = scan_call(body, carried, rows, length, false);
  return run_all(call.op, operands, call.attrs, where);
}

OpCall stack_call() { return {op<"stack">(), op<"stack">().default_attrs()}; }
OpCall unstack_call() { return {op<"unstack">(), op<"unstack">().default_attrs()}; }
OpCall rows_call(int64_t first, int64_t end) {
  return {op<"slice">(), op<"slice">().attrs_by_name({{"start", std::vector<int64_t>{first}},
                                                      {"stop", std::vector<int64_t>{end}}})};
}

Values loop_graph(const AttrObject& condition, const AttrObjects& body, Operands operands,
                  int64_t carried, int64_t max_steps, CallSite where) {
  const Attrs attrs =
      op<"while_loop">().attrs_by_name({{"condition", RefPtr<const AttrObject>(&condition)},
                                        {"bodies", body},
                                        {"carried", std::vector<int64_t>{carried}},
                                        {"max_steps", max_steps}});
  return run_all(op<"while_loop">(), operands, attrs, where);
}

Values call_graph(const Attrs& graph, Operands operands, CallSite where) {
  return run_all(op<"call">(), operands, graph, where);
}

Values custom_call(const CustomCallAttrs& attrs, Operands operands) {
  const auto or_none = [](const auto& list) {
    return list.empty() ? AttrValue(none) : AttrValue(list);
  };
  const AttrValue tangents = attrs.tangents != nullptr
                                 ? AttrValue(AttrObjects{RefPtr<const AttrObject>(attrs.tangents)})
                                 : AttrValue(none);
  const Attrs all =
      op<"custom_call">().attrs_by_name({{"value", RefPtr<const AttrObject>(attrs.value)},
                                         {"rules", or_none(attrs.rules)},
                                         {"sets", or_none(attrs.sets)},
                                         {"results", attrs.results},
                                         {"inputs", attrs.inputs},
                                         {"is_for_forward", attrs.is_for_forward},
                                         {"name", attrs.name},
                                         {"fault", attrs.fault},
                                         {"tangents", tangents},
                                         {"forward_fault", attrs.forward_fault}});
  return run_all(op<"custom_call">(), operands, all, {});
}

Tensor after(const Tensor& x, std::span<const Tensor> others) {
  OperandList operands({&x});
  for (const Tensor& other : others) operands.add(other);
  return moved(run(op<"after">(), operands), x.device());  // the others may be elsewhere
}

Tensor read_resource(const Tensor& resource, CallSite where) {
  return run(op<"read_variable">(), {&resource}, {}, where);
}

Tensor read_assigned(const Tensor& x, const Tensor& before) {
  return run(op<"read_assigned">(), {&x, &before});
}

Tensor assign_resource(const Tensor& resource, const Tensor& x, CallSite where) {
  return run(op<"assign_variable">(), {&resource, &x}, {}, where);
}

void print_operands(const std::string& text, std::span<const Tensor> operands, CallSite where) {
  run_all(op<"print">(), OperandList(operands), {text, 0}, where);
}

void require_true(const Tensor& condition, std::string_view message, CallSite where) {
  run_all(op<"assert_true">(), {&condition}, {message, 0}, where);
}

}  // namespace internal

}  // namespace etude
