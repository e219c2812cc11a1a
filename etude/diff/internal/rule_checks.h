// SPDX-License-Identifier: Apache-2.0
// Which members a derivative_of has, and the refusal of members of another form. Used by
// derivative.h.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "etude/diff/internal/function_checks.h"
#include "etude/diff/mark.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <auto F>
concept HasRule = requires {
  sizeof(derivative_of<F>);
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
// The refusal of a wrong rule, at its first use.
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

// Refuses a derivative of a function of tensors whose rule takes other arguments.
template <class Rule, class... X>
struct RuleTakesNot {
  static constexpr bool takes_arguments = sizeof(Rule*) == 0;
  static_assert(
      takes_arguments,
      "etude: a derivative_of<F> of a function of tensors needs a vjp or a jvp that takes "
      "these arguments");
};
// Refuses forward mode by a reverse rule, of arguments that cannot hold its numbers.
template <class Rule, class... X>
struct RuleNeedsJvp {
  static constexpr bool has_jvp = sizeof(Rule*) == 0;
  static_assert(has_jvp,
                "etude: differential: derivative_of<F> has only a reverse rule, and a struct among "
                "the arguments has fields of type double, which keep no derivative: write "
                "derivative_of<F>::jvp, or template the struct on its scalar");
};
// Refuses a derivative of a derivative of plain numbers.
template <class Rule, class... X>
struct RuleHasNoSecondDerivative {
  static constexpr bool takes_numbers = sizeof(Rule*) == 0;
  static_assert(takes_numbers,
                "etude: derivative_of<F> has no vjp, jvp or joint that takes these arguments. A "
                "rule of plain numbers has a second derivative if its jvp or pull is marked, "
                "ETUDE_DIFFERENTIABLE(etude::derivative_of<&f>::jvp); a rule of any scalar, a "
                "template, has all");
};

}  // namespace internal
}  // namespace etude
