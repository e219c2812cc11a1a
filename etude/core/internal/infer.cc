// SPDX-License-Identifier: Apache-2.0
// Result types: by the record's rule, or by running its lowering on abstract tensors.
#include "etude/core/internal/infer.h"

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/context/placement.h"

namespace etude {
namespace {

// Rules compute with known sizes, for one device, and do not check this themselves.
void check_operands(const Op& op, std::span<const Type* const> types, const Attrs& attrs) {
  const Device device = device_of(op, types, attrs);
  // Ops that run graphs compare their operands with the inputs of the graphs.
  const bool is_free = op.moves_devices() || internal::holds_graphs(op);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == nullptr) continue;
    ETUDE_REQUIRE(types[i]->count() != kAny,
                  "{} is {}, but operands have sizes that are known. Unknown ones stand in "
                  "signatures and in the shapes of Variables only",
                  internal::operand_text(op, i), types[i]->to_string());
    ETUDE_REQUIRE(!op.operand(i).on_host || types[i]->device().is_home(),
                  "{} is on {}, but is read on the host. Copy it first: {}.to(\"cpu:0\")",
                  internal::operand_text(op, i), types[i]->device().to_string(),
                  internal::operand_expression(op, i));
    ETUDE_REQUIRE(op.operand(i).on_host || is_free || types[i]->device() == device,
                  "{} is on {}, but an operand before it is on {}. Give operands on one device",
                  internal::operand_text(op, i), types[i]->device().to_string(),
                  device.to_string());
  }
}

// By the record's rule, which must exist.
Types types_by_rule(const Op& op, std::span<const Type* const> types, const Attrs& attrs) {
  check_operands(op, types, attrs);
  return op.def().type({op, types, attrs});
}

Types elementwise_types(const TypeCall& call) {
  Shape shape = call.shape(0);
  const Type* like = nullptr;
  for (std::size_t i = 0; i < call.types.size(); ++i) {
    if (!call.has(i)) continue;
    try {
      shape = broadcast(shape, call.shape(i));
    } catch (Error& error) {
      ETUDE_THROW(kInvalidArgument, "operands '{}' and '{}': {}", call.op.operand(0).name,
                  call.op.operand(i).name, error.what());
    }
    if (call.op.operand(i).dtypes.empty()) like = call.types[i];
  }
  const DType own = like != nullptr ? like->dtype() : call.dtype(0);
  const bool is_bool = call.op.def().result_dtype == ResultDType::kBool;
  return {call.make(is_bool ? kBool : own, shape)};
}

// "operand 'x' is float32[2,3] and element 0 of 'ys' is int32[]".
std::string given_text(const Op& op, Operands operands) {
  std::string text;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands.has(i)) continue;
    if (!text.empty()) text += i + 1 == operands.size() ? " and " : ", ";
    text += internal::operand_text(op, i) + " is " + operands[i].type()->to_string();
  }
  return text;
}

// Runs the lowering of a call. An error in a step is reported with the operands of the call, since
// the caller does not know the step's names and shapes.
Values run_lowering(const Op& op, Operands operands, const Attrs& attrs) {
  try {
    return op.def().lower(operands, attrs);
  } catch (const internal::StepError& error) {
    const bool of_operands =
        error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kOutOfRange;
    const std::string given = of_operands ? given_text(op, operands) : "";
    if (given.empty()) throw;
    const bool is_public = error.step().def().space != "internal";
    const std::string step =
        is_public ? fmt::format("; in its call of {}", error.step().name()) : "";
    throw internal::StepError(error, fmt::format("{}{}: {}", given, step, error.fact()));
  }
}

}  // namespace

namespace internal {

void check_types(const Op& op, Operands operands, const Attrs& attrs) {
  if (op.def().type == nullptr) return;
  Types types;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types.push_back(operands[i].has_value() ? operands[i].type() : nullptr);
  }
  types_by_rule(op, types, attrs);
}

Values TypeContext::execute(const Op& op, Operands operands, const Attrs& attrs, CallSite) {
  Types types;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types.push_back(operands[i].has_value() ? operands[i].type() : nullptr);
  }
  Values out;
  for (const Type* type : infer_types(op, {types.data(), types.size()}, attrs)) {
    out.push_back(make_abstract(type));
  }
  return out;
}

}  // namespace internal

Values lower(const Op& op, Operands operands, const Attrs& attrs, Context& context,
             CallSite where) {
  internal::check_types(op, operands, attrs);
  const ContextScope scope(context, where);
  return run_lowering(op, operands, attrs);
}

Types infer_types(const Op& op, std::span<const Type* const> operands, const Attrs& attrs) {
  const OpDef& def = op.def();
  if (def.type != nullptr) return types_by_rule(op, operands, attrs);
  check_operands(op, operands, attrs);
  if (def.kind == Kind::kElementwise) return elementwise_types({op, operands, attrs});
  internal::TypeContext types;
  const ContextScope scope(types, {});
  OperandList abstract_tensors;
  const Tensor absent;
  for (const Type* type : operands)
    abstract_tensors.add(type == nullptr ? absent : type->abstract_tensor());
  Types out;
  for (const Tensor& y : run_lowering(op, abstract_tensors.view(), attrs)) out.push_back(y.type());
  return out;
}

}  // namespace etude
