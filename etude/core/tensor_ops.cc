// SPDX-License-Identifier: Apache-2.0
// What Tensor does by calling ops: in-place updates and dense forms; and the builtin functions.
#include <array>

#include "etude/base/check.h"
#include "etude/core/arg.h"
#include "etude/core/builtin.h"
#include "etude/core/call.h"
#include "etude/core/call_scope.h"
#include "etude/core/copies.h"
#include "etude/core/index.h"

namespace etude {
namespace {

// Before anything is written: the result of an in-place update must have the type of its target.
void require_fits(const Tensor& x, const Arg& arg, std::string_view name) {
  if (arg.tensor() == nullptr || !arg.tensor()->has_value()) return;
  const Tensor& y = *arg.tensor();
  internal::located(name, arg.where(), [&] {
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

Tensor& update(const Op& op, Tensor& x, const Arg& y) {
  require_fits(x, y, op.name());
  ETUDE_REQUIRE(op.name() != "divide" || is_differentiable(x.dtype()),
                "/= on {} would need a floating result. Use floor_divide, or astype first",
                name(x.dtype()));
  // If y is x itself, its handle keeps the old elements alive and the update copies.
  const Tensor keep = y.tensor() == &x ? x : Tensor();
  internal::note_if_copied(x, op.name(), y.where());
  if (keep.has_value()) {
    x = internal::call2(op, Arg(std::move(x), y.where()), Arg(keep, y.where()));
  } else {
    x = internal::call2(op, Arg(std::move(x), y.where()), y);
  }
  return x;
}

}  // namespace

Tensor& Tensor::operator+=(const Arg& x) {
  static const Op& op = internal::op("add");
  return update(op, *this, x);
}
Tensor& Tensor::operator-=(const Arg& x) {
  static const Op& op = internal::op("subtract");
  return update(op, *this, x);
}
Tensor& Tensor::operator*=(const Arg& x) {
  static const Op& op = internal::op("multiply");
  return update(op, *this, x);
}
Tensor& Tensor::operator/=(const Arg& x) {
  static const Op& op = internal::op("divide");
  return update(op, *this, x);
}

const TensorSlice& TensorSlice::operator-=(const Arg& value) const {
  static const Op& op = internal::op("negative");
  const Tensor number =
      value.tensor() == nullptr ? internal::adapt(value, target_.dtype()) : *value.tensor();
  const Tensor negated = internal::call1(op, Arg(number, value.where()));
  return update(Arg(negated, value.where()), ScatterMode::kAdd);
}

namespace internal {

Tensor cast(const Tensor& x, DType dtype, CallSite where) {
  if (x.dtype() == dtype) return x;
  static const Op& op = internal::op("astype");
  const OperandList in({&x});
  return only(execute(op, in.view(), op.attrs({dtype}), where));
}

Tensor add(Tensor&& x, const Tensor& y, CallSite where) {
  static const Op& op = internal::op("add");
  const Tensor* const in[] = {&x, &y};
  return only(execute(op, {in, 2, 1}, op.default_attrs(), where));
}

Tensor sum_to(const Tensor& x, const Shape& shape, CallSite where) {
  if (x.shape() == shape) return x;
  static const Op& op = internal::op("sum_to");
  const OperandList in({&x});
  return only(execute(op, in.view(), op.attrs({shape.to_vector()}), where));
}

Tensor full(const Type* type, double value, CallSite where) {
  static const Op& op = internal::op("full");
  const Tensor number = adapt(type->dtype() == kBool             ? Arg(value != 0)
                              : is_differentiable(type->dtype()) ? Arg(value)
                                                                 : Arg(static_cast<int64_t>(value)),
                              type->dtype());
  const OperandList in({&number});
  return only(execute(op, in.view(), op.attrs({type->shape().to_vector()}), where));
}

Tensor conj(const Tensor& x, CallSite where) {
  if (!is_complex(x.dtype())) return x;
  static const Op& op = internal::op("conj");
  const OperandList in({&x});
  return only(execute(op, in.view(), op.default_attrs(), where));
}

Attrs program_attrs(const ScalarDef& def) {
  static const Op& op = internal::op("fused_elementwise");
  // Rules of element-wise ops come here at each step: made once per thread.
  struct Made {
    const ScalarDef* def = nullptr;
    Attrs attrs;
  };
  thread_local std::array<Made, 256> cache;
  Made& made =
      cache[(reinterpret_cast<uintptr_t>(&def) / alignof(ScalarDef) * 0x9E3779B97F4A7C15ull) >> 56];
  if (made.def != &def) made = {&def, op.attrs({&def, std::vector<double>()})};
  return made.attrs;
}

Tensor run_program(const ScalarDef& def, Operands operands, const std::vector<double>& params,
                   CallSite where) {
  static const Op& op = internal::op("fused_elementwise");
  const Attrs attrs = params.empty() ? program_attrs(def) : op.attrs({&def, params});
  return only(execute(op, operands, attrs, where));
}

}  // namespace internal

}  // namespace etude
