// SPDX-License-Identifier: Apache-2.0
// Differential operators for functions of tensors, Variables and structures of them. The operators
// for functions of numbers are in diff/scalar_operators.h.
//
//   auto [loss, grads] = value_with_gradient([&](const Model& m) { return loss(m(x), y); }, model);
//   move(model, -0.1 * grads);
//
// The gradient omits arguments without a tangent (integers, texts) and arguments wrapped in
// no_derivative. For one differentiable argument, the gradient is its tangent. For several, it is a
// tuple of tangents. If the result does not depend on a part of an argument, the gradient of that
// part is zeros; GradientTape returns an absent tensor instead.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/autodiff/gradient_tape.h"
#include "etude/autodiff/state_update.h"
#include "etude/base/internal/type_name.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/owned_result.h"
#include "etude/diff/internal/explain_type.h"
#include "etude/diff/operator_arguments.h"
#include "etude/diff/scalar_operators.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Tape;

namespace internal {

struct GradientTapeAccess {
  static std::vector<Tensor> sweep(GradientTape& tape, const LeafList& targets,
                                   const LeafList& sources, CallSite where,
                                   std::vector<Tensor> seeds = {}) {
    return tape.sweep(targets, sources, {.output_gradients = std::move(seeds)}, where);
  }
  // An absent cotangent counts as zeros. In sweep() an absent seed counts as ones.
  static std::vector<Tensor> sweep_arrived(GradientTape& tape, const LeafList& targets,
                                           std::span<const Tensor> cotangents,
                                           const LeafList& sources) {
    return tape.sweep_arrived(targets, cotangents, sources);
  }
  static void freeze(GradientTape& tape) { tape.freeze(); }
  static Tape& tape(GradientTape& tape);
};

// Assigns a new id to each differentiable tensor leaf of an argument, and watches it. If the leaf
// kept its old id, a copy of it that the function captures would be mistaken for the argument.
// Watches Variables too.
class FreshLeaves {
 public:
  explicit FreshLeaves(GradientTape& tape) : tape_(tape) {}
  void operator()(Tensor& leaf);
  void operator()(Variable& leaf);
  template <class T>
  void operator()(T& x) {
    if constexpr (TensorManifold<T>) each_tensor_of(x, *this);
  }

 private:
  GradientTape& tape_;
};

// Releases the elements of dense tensors, and keeps the types and ids of these tensors. Manifolds
// keep their elements, since move() reads them.
struct LetGo {
  void operator()(Tensor& leaf) const;
  template <class T>
  void operator()(T&) const {}
};

// Whether a tape of tensors can record a function of these arguments. Each argument must contain a
// tensor or a Variable, or have no tangent.
template <class X>
inline constexpr bool kIsRecorded =
    !Differentiable<X> || HasLeaf<X, Tensor>::value || HasLeaf<X, Variable>::value;
template <class... X>
constexpr bool are_recorded() {
  if constexpr (kHaveTangents<X...>) {
    return (kIsRecorded<X> && ...);
  } else {
    return false;
  }
}
template <class... X>
struct HostNumbers {
  static constexpr bool are_recorded = sizeof...(X) == 0;
  static_assert(
      are_recorded,
      "etude: calls on host numbers are not recorded; pass Tensor(x), or no_derivative(x)");
};
// The compile-time error for arguments without a derivative.
template <class... X>
constexpr auto refusal_of_unrecorded() {
  if constexpr (kHaveTangents<X...>) {
    return std::type_identity<HostNumbers<X...>>();
  } else {
    return std::type_identity<RefusalOf<X...>>();
  }
}
template <class... X>
using RefusalOfUnrecorded = typename decltype(refusal_of_unrecorded<X...>())::type;

// throws: kInvalidArgument unless `value` is one floating or complex number.
void require_scalar_result(const Tensor& value, CallSite where);
// Warns once per call site that the result does not depend on an argument. The warning names the
// last value that depends on a leaf of the argument.
void warn_independent(CallSite where, std::size_t argument, std::string_view type,
                      const GradientTape& tape, const Tensor& value, const LeafList& leaves);

template <class... X>
std::tuple<tangent_t<X>...> build_all(const std::tuple<X...>& fresh, LeafGradients& found,
                                      CallSite where, const GradientTape& tape,
                                      const Tensor& value) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple<tangent_t<X>...>{[&]() -> tangent_t<X> {
      tangent_t<X> t = build_tangent(std::get<I>(fresh), found);
      if (!found.take_arrived() && Differentiable<X>) {
        warn_independent(where, I, type_name<X>(), tape, value, LeafList(std::get<I>(fresh)));
      }
      return t;
    }()...};
  }
  (std::index_sequence_for<X...>());
}

}  // namespace internal

// The type of a parameter that takes a function of X... with a scalar Tensor as its result. Lambdas
// and functions convert to it. A ScalarFunction holds a reference to the function, which must
// outlive the call, and the line of the call.
template <class... X>
class ScalarFunction {
 public:
  template <class F>
  requires(!std::is_same_v<F, ScalarFunction>)
      ScalarFunction(const F& f, CallSite where = CallSite::here())
      : where_(where) {
    internal::require_owned<const F&, Plain<X>...>();
    constexpr bool gives_tensor =
        std::is_convertible_v<std::invoke_result_t<const F&, Plain<X>...>, Tensor>;
    static_assert(gives_tensor,
                  "etude: gradient needs a function with one scalar Tensor as its result; use "
                  "pullback for other results");
    if constexpr (!gives_tensor) {
      call_ = nullptr;  // already reported
    } else if constexpr (std::is_function_v<F>) {
      code_ = reinterpret_cast<void (*)()>(&f);
      call_ = [](const ScalarFunction& self, const X&... x) -> Tensor {
        return reinterpret_cast<F*>(self.code_)(internal::pass(x)...);
      };
    } else {
      object_ = std::addressof(f);
      call_ = [](const ScalarFunction& self, const X&... x) -> Tensor {
        return std::invoke(*static_cast<const F*>(self.object_), internal::pass(x)...);
      };
    }
  }

  Tensor operator()(const X&... x) const { return call_(*this, x...); }
  CallSite where() const noexcept { return where_; }

 private:
  template <class T>
  using Plain = decltype(internal::pass(std::declval<const T&>()));
  union {
    const void* object_;
    void (*code_)();
  };
  Tensor (*call_)(const ScalarFunction& self, const X&... x);
  CallSite where_;
};

// Runs f(x...) once. Returns its value, which must be a scalar, and its gradient.
//
// throws: kInvalidArgument if the result is not a scalar; the errors of f.
template <class... X>
auto value_with_gradient(const std::type_identity_t<ScalarFunction<X...>>& f, const X&... x) {
  if constexpr (!internal::are_recorded<X...>()) {
    return internal::kRefused<internal::RefusalOfUnrecorded<X...>>;
  } else {
    const CallScope scope(f.where());
    std::tuple<X...> fresh(x...);
    GradientTape tape({.watch_variables = false}, {});
    internal::FreshLeaves watch(tape);
    internal::each_leaf(fresh, watch);
    internal::AwaitedStates states(fresh);
    Tensor value = std::apply(f, fresh);
    states.close();
    internal::require_scalar_result(value, f.where());
    internal::LeafGradients found(
        internal::GradientTapeAccess::sweep(tape, internal::LeafList(value),
                                            internal::LeafList(fresh), f.where()),
        true);
    auto all = internal::build_all(fresh, found, f.where(), tape, value);
    return std::pair{std::move(value), internal::pick_tangents<X...>(std::move(all))};
  }
}

// The gradient of a scalar-valued f at x....
template <class X0, class... X>
auto gradient(const std::type_identity_t<ScalarFunction<X0, X...>>& f, const X0& x0,
              const X&... x) {
  return value_with_gradient<X0, X...>(f, x0, x...).second;
}

}  // namespace etude
