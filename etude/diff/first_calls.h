// SPDX-License-Identifier: Apache-2.0
// Shortens the compiler's message for an error in the body of a differentiated function to a few
// lines. Included by scalar_operators.h, before the operators.
//
// A compiler instantiates the body of a generic function when it first needs the result type. For
// an error in the body, the compiler prints every template that it is instantiating at that point.
// So this header adds an overload of each operator. The result type of the overload depends on the
// result of the body. Then no other template is between the user's call and the body. Overload
// resolution never selects these overloads, since their result types do not exist.
#pragma once

#include <type_traits>
#include <utility>

#include "etude/diff/internal/function_checks.h"
#include "etude/diff/internal/tape/scalar_runs.h"
#include "etude/diff/operator_arguments.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Has no member `type`, for any Result.
template <class Result>
struct NoOverload {};
// Instantiates the body of f for numbers To. The type is ill-formed for every result, so the
// compiler drops the overload.
template <class To, class F, class... X>
using FirstCall = typename NoOverload<decltype(std::declval<const F&>()(
    std::declval<lifted_t<X, CommonScalar<X...>, To>&>()...))>::type;

// Whether F is a class whose call operator accepts the arguments after a conversion of all their
// numbers to To.
template <class To, class F, class... X>
concept ReachesBody = ScalarArguments<X...> && std::is_class_v<F> && kReaches<To, F, X...>;
template <class To, class F, class X>
concept ReachesBodyOfOne = !IsTuple<X>::value && ReachesBody<To, F, X>;

template <class F, class... X>
using FirstNumber = typename FirstTry<F, X...>::To;
template <class F, class... X>
using TapeNumber = Active<CommonScalar<X...>>;
template <class F, class... X>
using ForwardNumber = Dual<CommonScalar<X...>, 1, F>;
template <class F, class X, class By>
using TangentNumber = Dual<CommonScalar<X, By>, 1, F>;
template <class F, class... X>
using RunNumber =
    Dual<CommonScalar<X...>, (kCount<X...> < kForwardCount ? kCount<X...> : kForwardCount), F>;
// The gradient of f as a function of the arguments.
template <class F, class... X>
struct PartialOf;
// The number type of the gradient of f inside a second derivative. The outer derivative uses
// numbers of type Outer.
template <class Outer, class F, class... X>
using SecondNumber = FirstNumber<F, lifted_t<X, CommonScalar<X...>, Outer>...>;
template <class F, class... X>
using HessianNumber = SecondNumber<RunNumber<PartialOf<F, X...>, X...>, F, X...>;
template <class F, class X, class By>
using HvpNumber = SecondNumber<TangentNumber<PartialOf<F, X>, X, By>, F, X>;

}  // namespace internal

template <class F, class... X>
requires internal::ReachesBody<internal::FirstNumber<F, X...>, F, X...>
    internal::FirstCall<internal::FirstNumber<F, X...>, F, X...> gradient(const F&, const X&...);
template <class F, class... X>
requires internal::ReachesBody<internal::FirstNumber<F, X...>, F, X...>
    internal::FirstCall<internal::FirstNumber<F, X...>, F, X...> value_with_gradient(const F&,
                                                                                     const X&...);
template <class F, class... X>
requires internal::ReachesBody<internal::TapeNumber<F, X...>, F, X...>
    internal::FirstCall<internal::TapeNumber<F, X...>, F, X...> pullback(const F&, const X&...);
template <class F, class... X>
requires internal::ReachesBody<internal::TapeNumber<F, X...>, F, X...>
    internal::FirstCall<internal::TapeNumber<F, X...>, F, X...> value_with_pullback(const F&,
                                                                                    const X&...);
template <class F, class... X>
requires internal::ReachesBody<internal::TapeNumber<F, X...>, F, X...>
    internal::FirstCall<internal::TapeNumber<F, X...>, F, X...> jacobian(const F&, const X&...);
template <class F, class... X>
requires internal::ReachesBody<internal::RunNumber<F, X...>, F, X...>
    internal::FirstCall<internal::RunNumber<F, X...>, F, X...> forward_jacobian(const F&,
                                                                                const X&...);
template <class F, class... X>
requires internal::ReachesBody<internal::ForwardNumber<F, X...>, F, X...>
    internal::FirstCall<internal::ForwardNumber<F, X...>, F, X...> differential(const F&,
                                                                                const X&...);
template <class F, class... X>
requires internal::ReachesBody<internal::ForwardNumber<F, X...>, F, X...>
    internal::FirstCall<internal::ForwardNumber<F, X...>, F, X...> value_with_differential(
        const F&, const X&...);
template <class F, class... X>
requires internal::ReachesBody<internal::HessianNumber<F, X...>, F, X...>
    internal::FirstCall<internal::HessianNumber<F, X...>, F, X...> hessian(const F&, const X&...);
template <class F, internal::Scalar X>
requires internal::ReachesBody<internal::ForwardNumber<F, X>, F, X>
    internal::FirstCall<internal::ForwardNumber<F, X>, F, X> derivative(const F&, const X&);
template <class F, internal::Scalar X>
requires internal::ReachesBody<internal::ForwardNumber<F, X>, F, X>
    internal::FirstCall<internal::ForwardNumber<F, X>, F, X> value_with_derivative(const F&,
                                                                                   const X&);

// For one argument that is not a tuple.
template <class F, class X, class By>
requires internal::ReachesBodyOfOne<internal::TangentNumber<F, X, By>, F, X>
    internal::FirstCall<internal::TangentNumber<F, X, By>, F, X> jvp(const F&, const X&, const By&);
template <class F, class X, class By>
requires internal::ReachesBodyOfOne<internal::HvpNumber<F, X, By>, F, X>
    internal::FirstCall<internal::HvpNumber<F, X, By>, F, X> hvp(const F&, const X&, const By&);
template <class F, class X, class By>
requires internal::ReachesBodyOfOne<internal::TapeNumber<F, X>, F, X>
    internal::FirstCall<internal::TapeNumber<F, X>, F, X> vjp(const F&, const X&, const By&);

}  // namespace etude
