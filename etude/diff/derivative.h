// SPDX-License-Identifier: Apache-2.0
// Derivatives written by hand: specialise derivative_of for a function f, and call f as
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
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/diff/internal/custom_call.h"
#include "etude/diff/internal/override_check.h"
#include "etude/diff/internal/rule_calls.h"
#include "etude/diff/internal/rule_checks.h"
#include "etude/diff/mark.h"
#include "etude/diff/scalar_operators.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The derivative of function F. Specialise it with vjp, jvp or joint. One of these three is enough,
// since the library derives the others:
//
//   vjp(x...)           a pair of the value and a pullback. The pullback takes the cotangent of the
//                       value and a reference to one tangent per parameter, and adds the
//                       cotangents to these tangents. For a parameter without a tangent, the
//                       reference is a NoTangent&
//   jvp(x..., dx...)    a pair of the value and its tangent
//   joint(x..., dx&...) the value, which must be one number; adds the gradient to dx
//   pull(x..., dy)      the tuple of the cotangents, for second derivatives only (mark.h)
//
// Members may be templates or overloads: the most specialised match is used. A rule that accepts
// any scalar type has higher derivatives. A rule that accepts only plain numbers has higher
// derivatives if its jvp or pull has a derivative_of. For tensors, the ops of the rule are
// differentiated.
template <auto F>
struct derivative_of;

// A function with a rule. A call on plain values calls F. If a derivative is computed, the call
// uses the rule. A call on tensors always uses the rule.
template <auto F>
struct RuledFunction {
  // throws: kInvalidArgument if a derivative is computed, F is virtual, and the object has a class
  // derived from the class of F.
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

// The operators with the function as a template argument: gradient<&softplus>(2.0). They call the
// rule directly, so that a struct of plain numbers can be an argument.
template <auto F, class... X>
auto value_with_gradient(const X&... x) {
  using D = derivative_of<F>;
  if constexpr (!internal::kHaveTangents<X...>) {
    return internal::kRefused<internal::RefusalOf<X...>>;
  } else if constexpr (!internal::has_right_rule<F>()) {
    return internal::kRefused<internal::RefusalOfRule<F, X...>>;
  } else if constexpr ((internal::holds_other_leaf<X>() || ...)) {
    return value_with_gradient(differentiable<F>, x...);  // in autodiff/, found by ADL
  } else if constexpr (internal::CallsJoint<D, X...>) {
    std::tuple<tangent_t<X>...> sums{zero_tangent(x)...};
    auto value = std::apply([&](auto&... dx) { return D::joint(x..., dx...); }, sums);
    return std::pair{std::move(value), internal::pick_tangents<X...>(std::move(sums))};
  } else if constexpr (internal::kRuleTakes<F, X...>) {
    auto made = internal::run_rule<F>(x...);
    using R = std::decay_t<decltype(made.first)>;
    if constexpr (std::floating_point<R>) {
      auto sums = internal::call_pullback<std::decay_t<decltype(made.second)>, R, X...>(
          made.second, R(1), std::tuple<X...>(x...));
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
  if constexpr (internal::kHaveTangents<X...> && !internal::has_right_rule<F>()) {
    return internal::kRefused<internal::RefusalOfRule<F, X...>>;
  } else if constexpr (internal::kHaveTangents<X...> && internal::kRuleTakes<F, X...>) {
    auto made = internal::run_rule<F>(x...);
    using R = std::decay_t<decltype(made.first)>;
    using Run = internal::RuledRun<R, std::decay_t<decltype(made.second)>, X...>;
    auto run = std::make_shared<const Run>(
        Run{std::move(made.second), made.first, std::tuple<X...>(x...)});
    return std::pair{std::move(made.first), PullbackOf(std::move(run))};
  } else {
    return value_with_pullback(differentiable<F>, x...);
  }
}
template <auto F, class... X>
auto pullback(const X&... x) {
  return etude::value_with_pullback<F>(x...).second;
}
// jvp<&f>(x, y, dx, dy): the value of f and its tangent.
//
// throws: kInvalidArgument if a tangent does not fit its argument.
template <auto F, class... A>
requires(sizeof...(A) > 0 && sizeof...(A) % 2 == 0) auto jvp(const A&... a) {
  if constexpr (!internal::has_right_rule<F>()) {
    return internal::kRefused<internal::RefusalOfRule<F, A...>>;
  } else {
    return internal::with_halves(
        [](const auto& x, const auto& by) { return internal::ruled_tangent<F>(x, by); }, a...);
  }
}
// Returns a function that maps tangents of the arguments to the tangent of f(x...).
template <auto F, class... X>
auto differential(const X&... x) {
  return [... x = x](const tangent_t<X>&... dx) { return etude::jvp<F>(x..., dx...).second; };
}
template <auto F, internal::Scalar X>
auto value_with_derivative(const X& x) {
  return etude::jvp<F>(x, X(1));
}
template <auto F, internal::Scalar X>
auto derivative(const X& x) {
  return etude::jvp<F>(x, X(1)).second;
}
// hvp<&f>(x, y, dx, dy): the Hessian of f times the direction (dx, dy). If the rule accepts only
// plain numbers, its pull or jvp needs a derivative_of.
template <auto F, class... A>
requires(sizeof...(A) > 0 && sizeof...(A) % 2 == 0) auto hvp(const A&... a) {
  if constexpr (!internal::has_right_rule<F>()) {
    return internal::kRefused<internal::RefusalOfRule<F, A...>>;
  } else {
    return internal::with_halves(
        [](const auto& x, const auto& by) { return internal::ruled_second_tangent<F>(x, by); },
        a...);
  }
}
template <auto F, class... X>
auto hessian(const X&... x) {
  return hessian(differentiable<F>, x...);
}

}  // namespace etude
