// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/jvp.h"

#include <algorithm>

#include "etude/autodiff/derive.h"
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/located.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/slices.h"

namespace etude {

namespace {

// The tangent of a result, as a new value where contexts track values. A sum passes on the tangent
// of one operand; it is a new value there too, as in the steps of a loop, where the other operand
// has the tangent 0.
Tensor own_value(Tensor&& t, std::span<const Tensor> of_operands) {
  const auto is_it = [&](const Tensor& x) { return x.has_value() && x.ref() == t.ref(); };
  const bool is_passed_on = internal::mode_word != 0 && std::ranges::any_of(of_operands, is_it);
  return is_passed_on ? internal::identity(t) : std::move(t);
}

}  // namespace

JvpContext::JvpContext() { ContextStack::push(*this); }
JvpContext::~JvpContext() { ContextStack::remove(*this); }

void JvpContext::set_tangent(const Tensor& x, const Tensor& t) {
  ETUDE_REQUIRE(!TensorAccess::is_sparse(x),
                "a sparse value cannot be given a tangent. Take to_dense(x) of it first");
  ETUDE_REQUIRE(t.type() == x.type(), "a tangent of type {} does not fit a value of type {}",
                t.type()->to_string(), x.type()->to_string());
  tangents_.set(TensorAccess::id(x), t);
}

Tensor JvpContext::tangent(const Tensor& x) const {
  if (!x.has_value()) return {};
  if (TensorAccess::is_sparse(x)) {  // the rows carry the tangent
    Tensor t = tangent(x.slices()->values);
    return t.has_value() ? internal::with_rows(x, std::move(t)) : Tensor();
  }
  const Tensor* found = tangents_.find(TensorAccess::id_or_zero(x));
  return found == nullptr ? Tensor() : *found;
}

Values JvpContext::execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  std::vector<Tensor> tangents;
  bool any = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    tangents.push_back(tangent(in[i]));
    any = any || tangents.back().has_value();
  }
  if (!any) return parent_->execute(op, in, attrs, where);
  if (!internal::has_jvp(op) && op.def().lower != nullptr) {
    return lower(op, in, attrs, *this, where);
  }
  const OperandList ts{std::span<const Tensor>(tangents)};
  if (internal::pushes_results(op)) {
    const ContextScope scope(*parent_, where);
    Values out = internal::run_jvp(op, {in.without_expiring(), {}, ts.view(), attrs});
    const std::size_t results = out.size() / 2;
    for (std::size_t i = 0; i < results; ++i) {
      Tensor& moved = out[results + i];
      if (moved.has_value()) tangents_.set(TensorAccess::id(out[i]), std::move(moved));
    }
    out.resize(results);
    return out;
  }
  // The rule reads operands after the call, so none of them may be overwritten.
  Values out = parent_->execute(op, in.without_expiring(), attrs, where);
  if (!op.def().no_derivative.empty()) return out;
  ETUDE_REQUIRE_CODE(
      kUnimplemented, internal::has_jvp(op),
      "has no derivative, but a tangent must pass through its {}",
      internal::operand_text(
          op, static_cast<std::size_t>(std::ranges::find_if(tangents, &Tensor::has_value) -
                                       tangents.begin())));
  const OperandList ys{std::span<const Tensor>(out.data(), out.size())};
  const ContextScope scope(*parent_, where);
  Values moved = internal::run_jvp(op, {in, ys.view(), ts.view(), attrs});
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if (!moved[i].has_value()) continue;
    tangents_.set(TensorAccess::id(out[i]), own_value(std::move(moved[i]), tangents));
  }
  return out;
}

}  // namespace etude
