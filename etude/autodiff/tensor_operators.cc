// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/tensor_operators.h"

#include "etude/autodiff/jvp.h"
#include "etude/autodiff/tape/tape.h"
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/context/placement.h"
#include "etude/core/context/size_decision.h"
#include "etude/core/internal/call.h"

namespace etude {
namespace {

Tensor one_hot(const Tensor& like, int64_t at) {
  std::vector<double> values(static_cast<std::size_t>(like.size()));
  values[static_cast<std::size_t>(at)] = 1;
  return internal::cast(Tensor(values, like.shape()), like.dtype());
}

// Tensors joined along a new axis, with the shape a + b.
Tensor join(const std::vector<Tensor>& parts, int64_t axis, const Shape& a, const Shape& b) {
  const Tensor all = internal::stack(parts, axis);
  std::vector<int64_t> sizes = a.to_vector();
  sizes.insert(sizes.end(), b.begin(), b.end());
  return internal::reshaped(all, Shape(sizes));
}

}  // namespace

namespace internal {

void EndIdentity::operator()(Tensor& leaf) const {
  if (!leaf.has_value() || TensorAccess::is_sparse(leaf)) return;
  TensorAccess::rep(leaf)->id.store(0, std::memory_order_relaxed);
}

ForwardRun::ForwardRun(CallSite where) : where_(where) {}

ForwardRun::~ForwardRun() = default;

JvpContext& ForwardRun::context() { return *context_.operator->(); }

void ForwardRun::operator()(Tensor& leaf, const Tensor& t) {
  if (!leaf.has_value() || !t.has_value()) return;
  const Tensor x = identity(to_dense(leaf), where_);  // in a DeviceScope it is there
  const Tensor there = current_device() ? moved(t, x.device(), where_) : t;
  if (there.type() != x.type()) {
    const bool is_elsewhere = there.device() != x.device();
    const auto text = [&](const Tensor& of) {
      const std::string type = of.type()->to_string();
      return is_elsewhere ? fmt::format("{} on {}", type, of.device().to_string()) : type;
    };
    throw_of("jvp", ErrorCode::kInvalidArgument,
             fmt::format("a tangent of type {} does not fit an argument of type {}", text(there),
                         text(x)),
             where_);
  }
  leaf = x;
  context_->set_tangent(leaf, there);
}

std::vector<Tensor> ForwardRun::tangents(const LeafList& leaves) const {
  std::vector<Tensor> out;
  for (const LeafRef& leaf : leaves.items()) {
    out.push_back(leaf.tensor != nullptr ? context_->tangent(*leaf.tensor) : Tensor());
  }
  return out;
}

void require_linear(GradientTape& tape, CallSite where) {
  const std::string call = GradientTapeAccess::tape(tape).find_nonlinear();
  if (call.empty()) return;
  throw_of("transpose", ErrorCode::kInvalidArgument,
           fmt::format("the function is not linear: {} is not, of values that depend on the "
                       "argument. Use pullback for a derivative",
                       call),
           where);
}

void require_zero(const LeafList& leaves, CallSite where) {
  for (const LeafRef& leaf : leaves.items()) {
    if (leaf.tensor == nullptr || !leaf.tensor->has_value()) continue;
    for (const std::complex<double> x : leaf.tensor->to_vector<std::complex<double>>()) {
      if (x == 0.0) continue;
      throw_of("transpose", ErrorCode::kInvalidArgument,
               "the function is not linear: of zeros it is not zero, so it adds a constant. Use "
               "pullback for a derivative",
               where);
    }
  }
}

void ForwardRun::operator()(Variable& leaf, const Tensor&) {
  throw_of("jvp", ErrorCode::kInvalidArgument,
           fmt::format("{} is among the arguments, but forward mode does not follow Variables. "
                       "Pass its value",
                       title_of(leaf)),
           where_);
}

Tensor ones_like(const Tensor& x) { return full(x.type(), 1); }

void Seeds::add(const Tensor& value, const Tensor& ct) {
  if (value.has_value() && ct.has_value() && value.shape() != ct.shape()) {
    throw_of(
        "pullback", ErrorCode::kInvalidArgument,
        fmt::format("cotangent {} has shape {}, but the result has shape {}. They must be equal",
                    items_.size(), ct.shape().to_string(), value.shape().to_string()),
        where_);
  }
  // An absent cotangent becomes zeros, since an absent seed would mean ones.
  items_.push_back(ct.has_value() || !value.has_value() ? ct : zero_tangent(value));
}

Tensor jacobian_of(const MapOf<Tensor>& f, const Tensor& x, CallSite where) {
  return located("jacobian", where, [&] {
    ETUDE_REQUIRE(!is_complex(x.dtype()),
                  "the argument is {}, but must be real, since a function of complex numbers has "
                  "two derivatives. Differentiate by the real and by the imaginary part",
                  name(x.dtype()));
    const auto [y, pull] = value_with_pullback(f, x);
    ETUDE_REQUIRE(y.has_value(), "the function returned nothing. Does it return its value?");
    std::vector<Tensor> parts;
    note_decision(x.size());
    note_decision(y.size());
    // A cotangent of a complex result meets only the real part of a real argument.
    if (x.size() < y.size() || is_complex(y.dtype())) {
      for (int64_t i = 0; i < x.size(); ++i) {
        parts.push_back(jvp(f, x, one_hot(x, i), where).second);
      }
      return join(parts, y.rank(), y.shape(), x.shape());
    }
    for (int64_t i = 0; i < y.size(); ++i) parts.push_back(to_dense(pull(one_hot(y, i), where)));
    return join(parts, 0, y.shape(), x.shape());
  });
}

Tensor hessian_of(const MapOf<Tensor>& f, const Tensor& x, CallSite where) {
  return jacobian_of([&](const Tensor& y) -> Tensor { return gradient({f, where}, y); }, x, where);
}

}  // namespace internal

}  // namespace etude
