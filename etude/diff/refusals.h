// SPDX-License-Identifier: Apache-2.0
// Overloads of the differential operators that refuse arguments without derivatives. The compiler
// message names the argument or field without a tangent, or states that no argument is
// Differentiable. Without these overloads, compilers would list every overload of the operator.
// Included by scalar_operators.h. For tensors, autodiff/ has its own refusals.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/diff/internal/explain_type.h"
#include "etude/diff/internal/function_checks.h"
#include "etude/diff/mixed_numbers.h"
#include "etude/diff/operator_arguments.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Arguments that have no derivative, and no leaves other than numbers.
template <class... X>
concept RefusedArguments = sizeof...(X) > 0 && !kHaveTangents<X...> &&
                           !(mentions_other_leaf<std::remove_cvref_t<X>>() || ...);

// The number of arguments before their tangents, as in jvp(f, x, y, dx, dy).
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
constexpr auto refusal_before_tangents() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return refusal_of<std::tuple_element_t<I, std::tuple<A...>>...>();
  }
  (std::make_index_sequence<count_before_tangents<A...>()>());
}
template <class... A>
using RefusalBeforeTangents = typename decltype(refusal_before_tangents<A...>())::type;

template <class... X>
struct DerivativeOfMany {
  static constexpr bool is_number = (Scalar<X> && ...) && sizeof...(X) == 1;
  static_assert(
      is_number,
      "etude: derivative(f, x) is with respect to one number; use gradient for the gradient of a "
      "structure of numbers, or by several, jvp along a direction, jacobian for several results");
};
// Refuses values that follow the arguments but are not their tangents.
template <class... Given>
struct TangentsDoNotFit {
  static constexpr bool are_tangents = sizeof...(Given) == 0 && sizeof...(Given) != 0;
  static_assert(are_tangents,
                "etude: this operator takes the arguments of the function and then a tangent of "
                "each, jvp(f, x, y, dx, dy): a tangent of x has the type etude::tangent_t<X>, as "
                "etude::zero_tangent(x) has");
};
template <class... Given>
struct CotangentsDoNotFit {
  static constexpr bool is_cotangent = sizeof...(Given) == 0 && sizeof...(Given) != 0;
  static_assert(is_cotangent,
                "etude: vjp takes the argument, or a std::tuple of several, and then a cotangent "
                "of the result, vjp(f, x, dy)");
};
template <class Given, class Needed>
struct CotangentDoesNotFit {
  static constexpr bool is_cotangent = std::is_convertible_v<Given, Needed>;
  static_assert(is_cotangent,
                "etude: a pullback takes a cotangent of the result of the function: a value of "
                "its type etude::tangent_t, as etude::zero_tangent(result) has");
};
// Whether a U is a tangent of an X. The numbers of U may belong to an outer derivative while X has
// plain numbers.
template <class U, class X>
inline constexpr bool kIsTangentOf =
    std::is_convertible_v<U, tangent_t<X>> ||
    std::is_same_v<replace_scalar_t<U, void, double>, replace_scalar_t<tangent_t<X>, void, double>>;
// Whether the first half of All are arguments and the second half are their tangents. False for a
// single argument and its tangent if jvp(f, x, by) accepts them.
template <class All, std::size_t... I>
constexpr bool are_halves(std::index_sequence<I...>) {
  if constexpr (ScalarArguments<std::tuple_element_t<I, All>...>) {
    constexpr std::size_t n = sizeof...(I);
    const bool is_pair = std::is_convertible_v<std::tuple_element_t<n, All>,
                                               tangent_t<std::tuple_element_t<0, All>>>;
    return (kIsTangentOf<std::tuple_element_t<n + I, All>, std::tuple_element_t<I, All>> && ...) &&
           (n > 1 || !is_pair);
  } else {
    return false;
  }
}
template <class... A>
constexpr bool are_with_tangents() {
  if constexpr (sizeof...(A) % 2 != 0 || sizeof...(A) == 0) {
    return false;
  } else {
    return are_halves<std::tuple<std::remove_cvref_t<A>...>>(
        std::make_index_sequence<sizeof...(A) / 2>());
  }
}
// The first argument consists of numbers, and no fitting tangents follow the arguments.
template <class X, class... More>
concept WithoutTangents =
    ScalarArguments<X> && !(mentions_other_leaf<std::remove_cvref_t<More>>() || ...) &&
    !(std::is_same_v<More, CallSite> || ...) && !RefusedWithTangents<X, More...> &&
    !are_with_tangents<X, More...>() &&
    !(sizeof...(More) == 1 && (std::is_convertible_v<const More&, tangent_t<X>> && ...));

}  // namespace internal

// The result types are not deduced, so that compilers instantiate the bodies last. They then print
// only the caller, and can report several calls of one operator.
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto gradient(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto value_with_gradient(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto pullback(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto value_with_pullback(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto differential(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto value_with_differential(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto jacobian(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto forward_jacobian(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}
template <class F, class... X>
requires internal::RefusedArguments<X...>
auto hessian(const F&, const X&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X...>>;
}

// Operators on arguments followed by their directions.
template <class F, class... A>
requires internal::RefusedWithTangents<A...>
auto jvp(const F&, const A&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalBeforeTangents<A...>>;
}
template <class F, class... A>
requires internal::RefusedWithTangents<A...>
auto hvp(const F&, const A&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalBeforeTangents<A...>>;
}

// Operators on one argument, followed by directions or cotangents.
template <class F, class X, class... More>
requires internal::RefusedArguments<X>
auto derivative(const F&, const X&, const More&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X>>;
}
template <class F, class X, class... More>
requires internal::RefusedArguments<X>
auto value_with_derivative(const F&, const X&, const More&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X>>;
}
template <class F, class X, class... More>
requires internal::RefusedArguments<X>
auto vjp(const F&, const X&, const More&...) -> internal::Refused {
  return internal::kRefused<internal::RefusalOf<X>>;
}

template <class F, class X>
requires(internal::ScalarArguments<X> && !internal::Scalar<X>) auto derivative(const F&, const X&)
    -> internal::Refused {
  return internal::kRefused<internal::DerivativeOfMany<X>>;
}
template <class F, class X, class Y, class... More>
requires internal::ScalarArguments<X, Y, More...>
auto derivative(const F&, const X&, const Y&, const More&...) -> internal::Refused {
  return internal::kRefused<internal::DerivativeOfMany<X, Y, More...>>;
}
template <class F, class X, class... More>
requires internal::WithoutTangents<X, More...>
auto jvp(const F&, const X&, const More&...) -> internal::Refused {
  return internal::kRefused<internal::TangentsDoNotFit<X, More...>>;
}
template <class F, class X, class... More>
requires internal::WithoutTangents<X, More...>
auto hvp(const F&, const X&, const More&...) -> internal::Refused {
  return internal::kRefused<internal::TangentsDoNotFit<X, More...>>;
}
template <class F, class X, class... More>
requires(internal::ScalarArguments<X> && sizeof...(More) != 1 &&
         !(std::is_same_v<More, CallSite> || ...) &&
         !(internal::mentions_other_leaf<std::remove_cvref_t<More>>() ||
           ...)) auto vjp(const F&, const X&, const More&...) -> internal::Refused {
  return internal::kRefused<internal::CotangentsDoNotFit<X, More...>>;
}

}  // namespace etude
