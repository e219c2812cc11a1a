// SPDX-License-Identifier: Apache-2.0
// The differential operators on arguments that no derivative is taken of: each says which argument,
// or which of its fields, has no tangent, or that none can move. Without them compilers would list
// every operator of that name. Included by scalar_operators.h; tensors are refused in runtime/.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/diff/explain_type.h"
#include "etude/diff/function_checks.h"
#include "etude/diff/operator_arguments.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Arguments that no derivative can be taken by, nor by other leaves than numbers.
template <class... X>
concept RefusedArguments = sizeof...(X) > 0 && !kHaveTangents<X...> &&
                           !(mentions_other_leaf<std::remove_cvref_t<X>>() || ...);

// Those of them that stand before their tangents, as in jvp(f, x, y, dx, dy).
template <class... A>
constexpr std::size_t count_before_tangents() {
  return sizeof...(A) < 2 ? sizeof...(A) : sizeof...(A) / 2;
}
template <class All, std::size_t... I>
constexpr bool are_refused(std::index_sequence<I...>) {
  return RefusedArguments<std::tuple_element_t<I, All>...>;
}
template <class... A>
concept RefusedWithTangents =
    are_refused<std::tuple<A...>>(std::make_index_sequence<count_before_tangents<A...>()>());
template <class... A>
void explain_before_tangents() {
  []<std::size_t... I>(std::index_sequence<I...>) {
    explain_arguments<std::tuple_element_t<I, std::tuple<A...>>...>();
  }
  (std::make_index_sequence<count_before_tangents<A...>()>());
}

// What an operator gives that was refused: whatever is done with it, no more is said.
struct RefusedPart {
  template <class... X>
  NoTangent operator()(const X&...) const {
    return {};
  }
  template <class I>
  NoTangent operator[](const I&) const {
    return {};
  }
};
struct Refused : RefusedPart {
  RefusedPart first, second;
};

template <class X>
struct DerivativeOfMany {
  static constexpr bool is_number = Scalar<X>;
  static_assert(is_number,
                "etude: derivative is taken by one number; use gradient for the gradient of a "
                "structure of numbers, jvp along a direction, jacobian for several results");
};

}  // namespace internal

template <class F, class... X>
requires internal::RefusedArguments<X...>
auto gradient(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto value_with_gradient(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto pullback(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto value_with_pullback(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto differential(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto value_with_differential(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto jacobian(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto forward_jacobian(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto hessian(const F&, const X&...) {
  internal::explain_arguments<X...>();
  return internal::Refused();
}

// Operators on arguments that their directions follow.
template <class F, class... A>
requires internal::RefusedWithTangents<A...>
auto jvp(const F&, const A&...) {
  internal::explain_before_tangents<A...>();
  return internal::Refused();
}
template <class F, class... A>
requires internal::RefusedWithTangents<A...>
auto hvp(const F&, const A&...) {
  internal::explain_before_tangents<A...>();
  return internal::Refused();
}

// Operators on one argument, which directions or cotangents follow.
template <class F, class X, class... More>
requires internal::RefusedArguments<X>
auto derivative(const F&, const X&, const More&...) {
  internal::explain_arguments<X>();
  return internal::Refused();
}
template <class F, class X, class... More>
requires internal::RefusedArguments<X>
auto value_with_derivative(const F&, const X&, const More&...) {
  internal::explain_arguments<X>();
  return internal::Refused();
}
template <class F, class X, class... More>
requires internal::RefusedArguments<X>
auto vjp(const F&, const X&, const More&...) {
  internal::explain_arguments<X>();
  return internal::Refused();
}

template <class F, class X>
requires(internal::ScalarArguments<X> && !internal::Scalar<X>) auto derivative(const F&, const X&) {
  static_cast<void>(sizeof(internal::DerivativeOfMany<X>));
  return internal::Refused();
}

}  // namespace etude
