// SPDX-License-Identifier: Apache-2.0
// Differential operators beyond gradient: pullbacks, forward mode, second order, jacobians. Part of
// gradient.h.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/tensor_gradient.h"
#include "etude/base/internal/in_place.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/owned_result.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class JvpContext;

namespace internal {

template <class X>
struct ForwardOfVariables {
  static constexpr bool holds_no_variable =
      !HasLeaf<X, Variable>::value || holds_runtime_structure<X>();
  static_assert(holds_no_variable,
                "etude: forward mode does not follow Variables; pass their values");
};

// Forward mode is active on this thread while a ForwardRun is alive. As a visitor, a ForwardRun
// assigns a new id and a tangent t to each leaf.
class ForwardRun {
 public:
  explicit ForwardRun(CallSite where);
  ~ForwardRun();
  void operator()(Tensor& leaf, const Tensor& t);
  // Refuses a Variable among Parts. throws: kInvalidArgument.
  void operator()(Variable& leaf, const Tensor& t);
  template <class T, class U>
  void operator()(T& leaf, const U& t) {
    static_cast<void>(sizeof(LeafIsErased<T>));
    if constexpr (TensorManifold<T>) push_through_move(leaf, t);
  }
  // Returns the tangents of the leaves. The tangent is absent for a leaf that depends on no input
  // with a tangent.
  std::vector<Tensor> tangents(const LeafList& leaves) const;
  JvpContext& context();

 private:
  // Sets the tangents of the tensors of a manifold: pushes t forward through move().
  template <class T>
  void push_through_move(T& leaf, const tangent_t<T>& t) {
    tangent_t<T> along = zero_tangent(leaf);
    zip_leaves(along, t, *this);
    T moved = leaf;
    etude::move(moved, along);
    const std::vector<Tensor> made = tangents(LeafList(moved));
    auto next = made.begin();
    each_tensor_of(leaf, [&](Tensor& tensor) { (*this)(tensor, *next++); });
  }

  InPlace<JvpContext, 96> context_;
  CallSite where_;
};
Tensor ones_like(const Tensor& x);

// Converts the cotangents of a result to seeds, one for each tensor leaf of the value. An absent
// cotangent becomes zeros.
class Seeds {
 public:
  explicit Seeds(CallSite where) : where_(where) {}
  void operator()(const Tensor& value, const Tensor& ct) { add(value, ct); }
  template <class T, class U>
  void operator()(const T&, const U&) {}
  const std::vector<Tensor>& items() const { return items_; }

 private:
  // throws: kInvalidArgument if the shapes differ.
  void add(const Tensor& value, const Tensor& ct);
  CallSite where_;
  std::vector<Tensor> items_;
};

// Removes the ids of tensors that LetGo emptied. Copies of the values may still be alive, so
// observers are not notified.
struct EndIdentity {
  void operator()(Tensor& leaf) const;
  template <class T>
  void operator()(T&) const {}
};

// The residuals of a pullback of tensors.
template <class R, class... X>
struct PulledRun {
  using Result = R;
  explicit PulledRun(const X&... x) : fresh(x...) {}
  PulledRun(const PulledRun&) = delete;
  PulledRun& operator=(const PulledRun&) = delete;
  ~PulledRun() {
    if (!has_let_go) return;
    EndIdentity end;
    each_leaf(fresh, end);
    each_leaf(*value, end);
  }

  // Releases the elements of arguments and result, and keeps their types.
  void let_go() {
    LetGo let;
    each_leaf(fresh, let);
    each_leaf(*value, let);
    has_let_go = true;
  }

  // throws: kInvalidArgument for a cotangent that does not have the shape of the result.
  auto pull(const tangent_t<R>& ct, CallSite where) {
    const CallScope scope(where);
    Seeds seeds(where);
    zip_leaves(std::as_const(*value), ct, seeds);
    LeafGradients found(
        GradientTapeAccess::sweep(tape, LeafList(*value), LeafList(fresh), where, seeds.items()),
        true);
    return pick_tangents<X...>(build_tangent(fresh, found));
  }

  GradientTape tape{{.persistent = true, .watch_variables = false}, CallSite{}};
  std::tuple<X...> fresh;
  std::optional<R> value;
  bool has_let_go = false;
};

template <class F, class... X>
auto pulled_run(const F& f, const X&... x) {
  using Result = std::decay_t<decltype(call_owned(f, pass(x)...))>;
  static_assert(Differentiable<Result>, "etude: the result type is not Differentiable");
  static_cast<void>(sizeof(ResultHasOwnTangent<Result>));
  auto run = std::make_shared<PulledRun<Result, X...>>(x...);
  FreshLeaves watch(run->tape);
  each_leaf(run->fresh, watch);
  AwaitedStates states(run->fresh);
  run->value.emplace(std::apply(
      [&](const auto&... a) -> Result { return call_owned(f, pass(a)...); }, run->fresh));
  states.close();
  GradientTapeAccess::freeze(run->tape);
  return run;
}
// Returns f(x...) and the pullback.
template <class F, class... X>
auto pulled(const F& f, const X&... x) {
  if constexpr (!are_recorded<X...>()) {
    return kRefused<RefusalOfUnrecorded<X...>>;
  } else {
    auto run = pulled_run(f, x...);
    auto value = *run->value;
    run->let_go();
    return std::pair{std::move(value), PullbackOf(std::move(run))};
  }
}
// throws: kInvalidArgument if a call on the tape is not linear, naming the first such call.
void require_linear(GradientTape& tape, CallSite where);
// throws: kInvalidArgument unless all elements are 0. A linear function maps zeros to zeros.
void require_zero(const LeafList& leaves, CallSite where);

}  // namespace internal

// Returns f(x...) and its pullback. The result of f may have any differentiable type.
template <class F, class... X>
auto value_with_pullback(const F& f, const X&... x) {
  if constexpr (internal::kReturnsSlice<const F&, X...>) {
    return internal::kRefused<internal::ResultRefersToVariable<F>>;
  } else {
    return internal::pulled(f, x...);
  }
}
template <class F, class... X>
auto pullback(const F& f, const X&... x) {
  return value_with_pullback(f, x...).second;
}
// Returns the value of f at `primals`, and the cotangents of the arguments for `cotangent`, the
// cotangent of the result. For several arguments, `primals` is a tuple.
template <class F, class X, class Ct>
auto vjp(const F& f, const X& primals, const Ct& cotangent, CallSite where = CallSite::here()) {
  const CallScope scope(where);
  auto both =
      internal::spread(primals, [&](const auto&... x) { return value_with_pullback(f, x...); });
  auto moved = both.second(cotangent, where);
  return std::pair{std::move(both.first), std::move(moved)};
}

// Returns the value of f and its tangent along `tangents`, in one forward-mode run. For several
// arguments, `primals` is a tuple.
template <class F, class X>
auto jvp(const F& f, const X& primals, const tangent_t<X>& tangents,
         CallSite where = CallSite::here()) {
  static_cast<void>(sizeof(internal::ForwardOfVariables<X>));
  if constexpr (!internal::are_recorded<X>()) {
    return internal::kRefused<internal::RefusalOfUnrecorded<X>>;
  } else {
    const CallScope scope(where);
    X fresh = primals;
    internal::ForwardRun run(where);
    internal::zip_leaves(fresh, tangents, run);
    const internal::AwaitedStates states(fresh, false);
    auto value = internal::spread(
        fresh, [&](const auto&... x) { return internal::call_owned(f, internal::pass(x)...); });
    internal::WarnUntaken told(std::as_const(fresh));
    static_assert(Differentiable<decltype(value)>, "etude: the result type is not Differentiable");
    static_cast<void>(sizeof(internal::ResultHasOwnTangent<decltype(value)>));
    internal::LeafGradients found(run.tangents(internal::LeafList(value)), true);
    auto tangent = internal::build_tangent(value, found);
    return std::pair{std::move(value), std::move(tangent)};
  }
}
// Returns the value of f and its derivative along a tangent of ones, in forward mode.
template <class F>
auto value_with_derivative(const F& f, const Tensor& x, CallSite where = CallSite::here()) {
  return jvp(f, x, internal::ones_like(x), where);
}
template <class F>
auto derivative(const F& f, const Tensor& x, CallSite where = CallSite::here()) {
  return value_with_derivative(f, x, where).second;
}

// Returns the transpose of f, a function of tensors that is jointly linear in its arguments. The
// transpose maps a cotangent of the result to the cotangents of the arguments. `like` are any
// values of the arguments: only their types matter.
//
// throws (when called): kInvalidArgument if f is not linear: f of zeros is not zero, or the
//   derivative rule of a call reads a value that depends on the arguments. The error names the
//   call.
template <class F, class... X>
auto transpose(const F& f, const X&... like) {
  if constexpr (sizeof...(X) == 0) {
    static_assert(sizeof...(X) > 0,
                  "etude: transpose(f, x...) is the transpose of a linear function f; that of a "
                  "matrix is matrix_transpose(x), and permute_dims(x, axes) permutes other axes");
    return f;
  } else if constexpr (!internal::are_recorded<X...>()) {
    return internal::kRefused<internal::RefusalOfUnrecorded<X...>>;
  } else {
    return [f = std::decay_t<const F&>(f), ... like = like](const auto& cotangent,
                                                            CallSite where = CallSite::here()) {
      const CallScope scope(where);
      auto run = internal::pulled_run(f, like...);
      internal::require_linear(run->tape, where);
      const auto at_zero = internal::call_owned(f, zero_tangent(internal::pass(like))...);
      internal::require_zero(internal::LeafList(at_zero), where);
      return run->pull(cotangent, where);
    };
  }
}

// Returns the hessian of a scalar-valued f at x, times v, by forward mode over reverse mode. For
// several arguments, x is a tuple.
template <class F, class X>
auto hvp(const F& f, const X& x, const tangent_t<X>& v, CallSite where = CallSite::here()) {
  if constexpr (internal::IsTuple<X>::value) {
    return jvp([&](const auto&... y) { return gradient({f, where}, y...); }, x, v, where).second;
  } else {
    return jvp([&](const X& y) { return gradient({f, where}, y); }, x, v, where).second;
  }
}

namespace internal {

// The type of a parameter that takes a function from X to X.
template <class X>
class MapOf : public std::function<X(const X&)> {
 public:
  template <class F>
  requires(std::is_invocable_r_v<X, const F&, const X&> && !std::is_same_v<F, MapOf>)
      MapOf(const F& f)
      : std::function<X(const X&)>(f) {
    require_owned<const F&, const X&>();
  }
};
Tensor jacobian_of(const MapOf<Tensor>& f, const Tensor& x, CallSite where);
Tensor hessian_of(const MapOf<Tensor>& f, const Tensor& x, CallSite where);

}  // namespace internal

// Returns the jacobian of f at x, of shape [shape of f(x)..., shape of x...]. Computes rows in
// reverse mode or columns in forward mode, whichever are fewer. A template, so that overload
// resolution does not call a function of numbers with a tensor.
template <std::same_as<Tensor> X>
X jacobian(const std::type_identity_t<internal::MapOf<X>>& f, const X& x,
           CallSite where = CallSite::here()) {
  return internal::jacobian_of(f, x, where);
}
// Returns the hessian of a scalar-valued f at x, of shape [shape of x..., shape of x...]: the
// jacobian of the gradient.
template <std::same_as<Tensor> X>
X hessian(const std::type_identity_t<internal::MapOf<X>>& f, const X& x,
          CallSite where = CallSite::here()) {
  return internal::hessian_of(f, x, where);
}

}  // namespace etude
