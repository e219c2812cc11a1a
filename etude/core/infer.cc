// SPDX-License-Identifier: Apache-2.0
// Result types: by the record's rule, or by running its lowering on ghosts.
#include "etude/core/infer.h"

#include "etude/base/check.h"

namespace etude {
namespace {

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
  const bool truth = call.op.def().result_dtype == ResultDType::kBool;
  return {call.make(truth ? kBool : own, shape)};
}

}  // namespace

namespace internal {

void check_types(const Op& op, Operands operands, const Attrs& attrs) {
  if (op.def().type == nullptr) return;
  Types types;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types.push_back(operands[i].has_value() ? operands[i].type() : nullptr);
  }
  op.def().type({op, {types.data(), types.size()}, attrs});
}

Values TypeContext::execute(const Op& op, Operands operands, const Attrs& attrs, CallSite) {
  Types types;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types.push_back(operands[i].has_value() ? operands[i].type() : nullptr);
  }
  Values out;
  for (const Type* type : infer_types(op, {types.data(), types.size()}, attrs)) {
    out.push_back(make_ghost(type));
  }
  return out;
}

}  // namespace internal

Values lower(const Op& op, Operands operands, const Attrs& attrs, Context& context,
             CallSite where) {
  internal::check_types(op, operands, attrs);
  const ContextScope scope(context, where);
  return op.def().lower(operands, attrs);
}

Types infer_types(const Op& op, std::span<const Type* const> operands, const Attrs& attrs) {
  const OpDef& def = op.def();
  if (def.type != nullptr) return def.type({op, operands, attrs});
  if (def.kind == Kind::kElementwise) return elementwise_types({op, operands, attrs});
  internal::TypeContext types;
  const ContextScope scope(types, {});
  OperandList ghosts;
  const Tensor absent;
  for (const Type* type : operands) ghosts.add(type == nullptr ? absent : type->ghost());
  Types out;
  for (const Tensor& y : def.lower(ghosts.view(), attrs)) out.push_back(y.type());
  return out;
}

}  // namespace etude
