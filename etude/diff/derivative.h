// SPDX-License-Identifier: Apache-2.0
// Derivatives written by hand: specialise derivative_of for a function and call it as
// differentiable<&f>. All differential operators then use the rule and do not differentiate the
// body.
//
//   double softplus(double x) { return log1p(exp(x)); }
//   template <> struct etude::derivative_of<&softplus> {
//     static auto vjp(double x) {
//       return std::pair{softplus(x),
//                        [s = 1 / (1 + exp(-x))](double dy, double& dx) { dx += dy * s; }};
//     }
//   };
//   gradient<&softplus>(2.0);
//   gradient([](auto x) { return x * differentiable<&softplus>(x); }, 2.0);
#pragma once

#include <concepts>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/diff/internal/custom_call.h"
#include "etude/diff/internal/override_check.h"
#include "etude/diff/scalar_operators.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The derivative of function F. Specialise it with a single one of these members; the other members
// are derived:
//
//   vjp(x...)           a pair of the value and a pullback, which takes the cotangent of the value
//                       and adds into one reference per parameter (NoTangent& if it has no tangent)
//   jvp(x..., dx...)    a pair of the value and its tangent
//   joint(x..., dx&...) the value, which is one number; adds the gradient into dx
//
// Members may be templates or overloads: the most specialised match is used. A rule that accepts
// any scalar type has higher derivatives.
template <auto F>
struct derivative_of;

// The types in the derivative of a function.
template <class F>
struct Signatures;
template <class R, class... A>
struct Signatures<R (*)(A...)> {
  // The function that ETUDE_DIFFERENTIABLE declares.
  using Joint = R(A..., tangent_t<A>&...);
  using Arguments = std::tuple<std::remove_cvref_t<A>...>;
  template <class D>
  static constexpr bool has_vjp = requires(D d, std::remove_cvref_t<A>... a, tangent_t<R> dr,
                                           tangent_t<A>... da) {
    { d.vjp(a...).first } -> std::convertible_to<R>;
    d.vjp(a...).second(dr, da...);
  };
  template <class D>
  static constexpr bool has_jvp = requires(D d, std::remove_cvref_t<A>... a, tangent_t<A>... da) {
    { d.jvp(a..., da...).first } -> std::convertible_to<R>;
    { d.jvp(a..., da...).second } -> std::convertible_to<tangent_t<R>>;
  };
};
template <class R, class... A>
struct Signatures<R (*)(A...) noexcept> : Signatures<R (*)(A...)> {};
template <class R, class C, class... A>
struct Signatures<R (C::*)(A...) const> : Signatures<R (*)(const C&, A...)> {};
template <class R, class C, class... A>
struct Signatures<R (C::*)(A...) const noexcept> : Signatures<R (*)(const C&, A...)> {};

// Declares that the derivative of f is defined elsewhere, as derivative_of<&f>::joint. Use it at
// global scope, before any operator uses f.
// NOLINTBEGIN(bugprone-macro-parentheses): &(S::f) is no pointer to a member
#define ETUDE_DIFFERENTIABLE(f)                          \
  template <>                                            \
  struct etude::derivative_of<&f> {                      \
    static etude::Signatures<decltype(&f)>::Joint joint; \
  }
// NOLINTEND(bugprone-macro-parentheses)

namespace internal {

template <auto F>
concept HasRule = requires {
  sizeof(derivative_of<F>);
};
template <class F>
concept HasSignature = requires {
  typename Signatures<F>::Joint;
};

// The members of a rule. A member that is neither a function nor a template is found by name.
template <class D>
concept NamesVjp = requires {
  &D::vjp;
};
template <class D>
concept NamesJvp = requires {
  &D::jvp;
};
template <class D, class... X>
concept CallsVjp = requires(const X&... x) {
  D::vjp(x...);
};
template <class D, class... X>
concept CallsJvp = requires(const X&... x) {
  D::jvp(x..., zero_tangent(x)...);
};
template <class D, class... X>
concept CallsJoint = requires(const X&... x, tangent_t<X>&... dx) {
  D::joint(x..., dx...);
};

// Puts the required form of a rule into the compiler's message.
template <class Rule, class Function, class Pullback>
struct RuleMustFit {
  static_assert(sizeof(Rule*) == 0,
                "etude: derivative_of<F>::vjp must take F's parameters and return pair{value, "
                "pullback(result tangent, parameter tangents&...)}");
};
template <class Rule, class Function, class Tangent>
struct ForwardRuleMustFit {
  static_assert(sizeof(Rule*) == 0,
                "etude: derivative_of<F>::jvp must take F's parameters and their tangents and "
                "return pair{value, result tangent}");
};
template <class F>
struct Explain;
template <class R, class... A>
struct Explain<R (*)(A...)> {
  template <class D>
  using Vjp = RuleMustFit<D, R(A...), void(tangent_t<R>, tangent_t<A>&...)>;
  template <class D>
  using Jvp = ForwardRuleMustFit<D, R(A..., tangent_t<A>...), tangent_t<R>>;
};
template <class R, class... A>
struct Explain<R (*)(A...) noexcept> : Explain<R (*)(A...)> {};
template <class R, class C, class... A>
struct Explain<R (C::*)(A...) const> : Explain<R (*)(const C&, A...)> {};
template <class R, class C, class... A>
struct Explain<R (C::*)(A...) const noexcept> : Explain<R (*)(const C&, A...)> {};

// Whether F has a derivative, with members of the required form.
template <auto F>
constexpr bool has_right_rule() {
  using D = derivative_of<F>;
  if constexpr (!HasRule<F>) {
    return false;
  } else if constexpr (HasSignature<decltype(F)>) {
    using S = Signatures<decltype(F)>;
    return !(NamesVjp<D> && !S::template has_vjp<D>)&&!(NamesJvp<D> && !S::template has_jvp<D>);
  } else {
    return true;
  }
}
// Refuses a wrong rule at its first use.
template <auto F, class... X>
constexpr auto refusal_of_rule() {
  using D = derivative_of<F>;
  if constexpr (!HasRule<F>) {
    return std::type_identity<FunctionHasNoDerivative<Fault::kPlain, decltype(F), X...>>();
  } else if constexpr (NamesVjp<D> && !Signatures<decltype(F)>::template has_vjp<D>) {
    return std::type_identity<typename Explain<decltype(F)>::template Vjp<D>>();
  } else {
    return std::type_identity<typename Explain<decltype(F)>::template Jvp<D>>();
  }
}
template <auto F, class... X>
using RefusalOfRule = typename decltype(refusal_of_rule<F, X...>())::type;

// joint as a rule with a pullback: the gradient is computed together with the value.
template <class D>
struct VjpOfJoint {
  template <class... X>
  auto operator()(const X&... x) const {
    std::tuple<tangent_t<X>...> partials{zero_tangent(x)...};
    auto value = std::apply([&](auto&... dx) { return D::joint(x..., dx...); }, partials);
    return std::pair{value, [partials = std::move(partials)](const auto& dy) {
                       auto scale = partials;
                       auto each = [&](auto& leaf) {
                         using scalar_math::strong_product;
                         leaf = strong_product(leaf, std::remove_reference_t<decltype(leaf)>(dy));
                       };
                       each_leaf(scale, each);
                       return scale;
                     }};
  }
};
template <class D>
struct VjpOfRule {
  template <class... X>
  auto operator()(const X&... x) const {
    return D::vjp(x...);
  }
};
template <class D>
struct JvpOfRule {
  template <class... X>
  static auto jvp(const X&... x) {
    return D::jvp(x...);
  }
};
// Makes a reverse rule from a forward rule, with one run for each number of the arguments.
template <class D>
struct VjpOfJvp {
  template <class... X>
  auto operator()(const X&... x) const {
    auto value = D::jvp(x..., zero_tangent(x)...).first;
    return std::pair{value, [... x = x](const auto& dy) {
                       std::tuple<tangent_t<X>...> out{zero_tangent(x)...};
                       std::tuple<tangent_t<X>...> along{zero_tangent(x)...};
                       auto each = [&](auto& sum, auto& direction) {
                         direction = 1;
                         const auto dr = std::apply(
                             [&](const auto&... dx) { return D::jvp(x..., dx...).second; }, along);
                         direction = 0;
                         auto add = [&](const auto& a, const auto& b) { sum += a * b; };
                         zip_leaves(dr, dy, add);
                       };
                       zip_leaves(out, along, each);
                       return out;
                     }};
  }
};

template <auto F, class... X>
auto ruled_call(const X&... x) {
  require_no_override<F>(x...);
  using D = derivative_of<F>;
  using S = DeepestScalar<X...>;
  constexpr bool by_joint = CallsJoint<D, plain_argument_t<S, X>...>;
  constexpr bool by_vjp = CallsVjp<D, plain_argument_t<S, X>...>;
  constexpr bool by_jvp = CallsJvp<D, plain_argument_t<S, X>...>;
  if constexpr (!has_right_rule<F>()) {
    return kRefused<RefusalOfRule<F, X...>>;
  } else if constexpr (!(by_joint || by_vjp || by_jvp)) {
    static_assert(by_joint || by_vjp || by_jvp,
                  "etude: derivative_of<F> has no vjp, jvp or joint that takes these arguments; a "
                  "rule of plain numbers has no second derivative, one of any scalar has");
    return S();
  } else if constexpr (IsDual<S>::value && by_jvp) {
    return forward_by_jvp<S>(JvpOfRule<D>(), x...);
  } else if constexpr (by_vjp) {
    return custom_call<true>(VjpOfRule<D>(), x...);
  } else if constexpr (by_joint) {
    return custom_call<true>(VjpOfJoint<D>(), x...);
  } else {
    return custom_call<true>(VjpOfJvp<D>(), x...);
  }
}

template <class Rule, class... X>
struct RuleNeedsVjp {
  static constexpr bool has_vjp = sizeof(Rule*) == 0;
  static_assert(has_vjp,
                "etude: a derivative_of<F> of a function of tensors needs a vjp that takes these "
                "arguments; forward mode goes by the transpose of its pullback");
};
// A call with tensors: uses the rule like custom_gradient.
template <auto F, class... X>
auto ruled_other_call(const X&... x) {
  require_no_override<F>(x...);
  if constexpr (!has_right_rule<F>()) {
    return kRefused<RefusalOfRule<F, X...>>;
  } else if constexpr (!CallsVjp<derivative_of<F>, X...>) {
    return kRefused<RuleNeedsVjp<derivative_of<F>, X...>>;
  } else {
    return OtherLeaves<X...>::template ruled<derivative_of<F>>(F, x...);
  }
}

// Whether F has tensors in its parameters, or is called with tensors if its signature is unknown.
template <auto F, class... X>
constexpr bool takes_other_leaves() {
  if constexpr (HasSignature<decltype(F)>) {
    return holds_other_leaf<typename Signatures<decltype(F)>::Arguments>();
  } else {
    return (holds_other_leaf<X>() || ...);
  }
}
// The same with arguments that convert to the parameters, such as x.at(0) or a Variable.
template <auto F, class... X>
auto ruled_converted_call(const X&... x) {
  if constexpr (HasSignature<decltype(F)>) {
    return [&]<class... A>(std::tuple<A...>*) {
      return ruled_other_call<F>(static_cast<const A&>(x)...);
    }(static_cast<typename Signatures<decltype(F)>::Arguments*>(nullptr));
  } else {
    return ruled_other_call<F>(x...);
  }
}

}  // namespace internal

// A function with a rule. It calls F on plain values, and the rule when a derivative is computed. A
// call on tensors always includes the rule.
template <auto F>
struct RuledFunction {
  // throws: kInvalidArgument if a derivative is computed, F is virtual, and the object is of a
  // class derived from the class of F.
  template <class... X>
  constexpr decltype(auto) operator()(const X&... x) const {
    constexpr bool is_ruled =
        internal::HasRule<F> || !std::is_invocable_v<decltype(F), const X&...>;
    if constexpr (internal::kIsActiveCall<X...> && is_ruled) {
      return internal::ruled_call<F>(x...);
    } else if constexpr (internal::HasRule<F> && internal::takes_other_leaves<F, X...>()) {
      return internal::ruled_converted_call<F>(x...);
    } else {
      return std::invoke(F, x...);
    }
  }
};
template <auto F>
inline constexpr RuledFunction<F> differentiable{};

// The same operators with a function as template argument: gradient<&softplus>(2.0).
template <auto F, class... X>
auto value_with_gradient(const X&... x) {
  using D = derivative_of<F>;
  if constexpr (!internal::kHaveTangents<X...>) {
    return internal::kRefused<internal::RefusalOf<X...>>;
  } else if constexpr (!internal::has_right_rule<F>()) {
    return internal::kRefused<internal::RefusalOfRule<F, X...>>;
  } else if constexpr ((internal::holds_other_leaf<X>() || ...)) {
    return value_with_gradient(differentiable<F>, x...);  // in autodiff/, found by its arguments
  } else if constexpr (internal::CallsJoint<D, X...>) {
    std::tuple<tangent_t<X>...> sums{zero_tangent(x)...};
    auto value = std::apply([&](auto&... dx) { return D::joint(x..., dx...); }, sums);
    return std::pair{std::move(value), internal::pick_tangents<X...>(std::move(sums))};
  } else if constexpr (internal::CallsVjp<D, X...>) {
    using R = std::decay_t<decltype(D::vjp(x...).first)>;
    if constexpr (std::floating_point<R>) {
      internal::require_no_override<F>(x...);
      auto made = D::vjp(x...);
      auto sums = internal::call_pullback<decltype(made.second), R, X...>(made.second, R(1),
                                                                          std::tuple<X...>(x...));
      return std::pair{std::move(made.first), internal::pick_tangents<X...>(std::move(sums))};
    } else {
      static_assert(std::floating_point<R>,
                    "etude: gradient needs a function with one number as its result; use pullback "
                    "for other results");
      return internal::refused_gradient(x...);
    }
  } else {
    return etude::value_with_gradient(differentiable<F>, x...);
  }
}
template <auto F, class... X>
auto gradient(const X&... x) {
  return etude::value_with_gradient<F>(x...).second;
}
template <auto F, class... X>
auto value_with_pullback(const X&... x) {
  return value_with_pullback(differentiable<F>, x...);
}
template <auto F, class... X>
auto pullback(const X&... x) {
  return pullback(differentiable<F>, x...);
}

}  // namespace etude
