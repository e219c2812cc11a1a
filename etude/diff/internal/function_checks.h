// SPDX-License-Identifier: Apache-2.0
// Calls of a function with other numbers than the numbers of the arguments, and the compile-time
// message if that is impossible. Used by scalar_runs.h.
//
// The body of a generic function is compiled when its result type is needed. The compiler prints an
// error in that body once for each type of number. So after one failure no other type of number is
// tried.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include "etude/diff/internal/explain_type.h"
#include "etude/diff/internal/replace_scalars.h"
#include "etude/diff/mixed_numbers.h"
#include "etude/diff/operator_arguments.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Arguments with numbers, arguments excluded by no_derivative, and no other leaves.
template <class X>
concept HasScalar = !std::is_void_v<typename ScalarIn<std::remove_cvref_t<X>>::type>;
template <class... X>
concept ScalarArguments = (HasScalar<X> || ...) && (kMayBeArgument<X> && ...) &&
                          ((HasScalar<X> || std::is_same_v<tangent_t<X>, NoTangent>)&&...) &&
                          !(mentions_other_leaf<std::remove_cvref_t<X>>() || ...);

// The common type of the numbers of all arguments. Of excluded arguments only numbers of an outer
// derivative count.
template <class X>
struct KeptScalar : std::type_identity<void> {};
template <class X>
requires(!std::floating_point<typename ScalarIn<X>::type>) struct KeptScalar<NoDerivative<X>>
    : ScalarIn<X> {
};
template <class... X>
using CommonScalar =
    typename decltype(common_scalar<typename ScalarInAll<TypeList<X...>>::type,
                                    typename ScalarInAll<
                                        TypeList<typename KeptScalar<X>::type...>>::type>())::type;

// The argument type for f in place of X: every number replaced by To; in excluded arguments every
// From.
template <class X, class From, class To>
struct LiftedArgument : ReplaceScalar<X, void, To> {};
template <class X, class From, class To>
struct LiftedArgument<NoDerivative<X>, From, To> : ReplaceScalar<X, From, To> {};
template <class X, class From, class To>
using lifted_t = typename LiftedArgument<std::remove_cvref_t<X>, From, To>::type;

// Whether the numbers of each argument can be replaced. Functions and structs on Real accept no
// others.
template <class To, class... X>
inline constexpr bool kAllLift = ((!HasScalar<X> ||
                                   !std::is_same_v<lifted_t<X, CommonScalar<X...>, To>, X>)&&...);
// A class that map_struct cannot construct.
struct NotMade {
  static constexpr bool explains = false;
  template <class T>
  static constexpr bool is_struct() {
    if constexpr (std::is_class_v<T> && !std::is_default_constructible_v<T>) {
      if constexpr (Struct<T> && HasScalar<T>) return !is_made_of_fields<T>();
    }
    return false;
  }
  template <class T>
  static constexpr bool is = is_struct<T>();
};
template <class X>
constexpr bool can_be_made() {
  if constexpr (Scalar<X> || !HasScalar<X>) {
    return true;
  } else {
    return !finds_kind<NotMade, Marked::kSkip, X>();
  }
}
// Whether all arguments can be constructed with other numbers.
template <class... X>
inline constexpr bool kCanBeMade = (can_be_made<X>() && ...);

// An F with one additional call operator. It matches better by its object, since it is not const,
// and worse by each argument. So a call is ambiguous if an operator of F accepts the arguments, and
// the compiler finds that out without compiling a body.
struct NotTaken {};
template <class F>
struct TakesProbe : F {
  using F::operator();
  NotTaken operator()(...);  // NOLINT(cert-dcl50-cpp): nothing calls it
};
enum class Takes { kYes, kNo, kIfNotConst };
template <class F, class... A>
constexpr Takes takes() {
  if constexpr (std::is_class_v<F> && !std::is_final_v<F>) {
    using Probe = TakesProbe<F>;
    if constexpr (!requires(Probe & probe, A & ... a) { probe(a...); }) {
      return Takes::kYes;
    } else if constexpr (requires(Probe & probe, A & ... a) {
                           { probe(a...) } -> std::same_as<NotTaken>;
                         }) {
      return Takes::kNo;
    } else {
      return Takes::kIfNotConst;
    }
  } else {
    return std::is_invocable_v<const F&, A&...> ? Takes::kYes : Takes::kNo;
  }
}
// Whether f has a call operator that accepts the arguments with their numbers as To.
template <class To, class F, class... X>
inline constexpr bool kReaches = kAllLift<To, X...>&& kCanBeMade<X...>&&
                                 takes<F, lifted_t<X, CommonScalar<X...>, To>...>() == Takes::kYes;

// Whether it also compiles. Uses the call itself instead of std::invoke, and few templates: they
// appear in each message about a body.
template <class To, class F, class... X>
constexpr bool takes_numbers() {
  if constexpr (!kReaches<To, F, X...>) {
    return false;
  } else if constexpr (std::is_class_v<F>) {
    // Checked twice: the first time clang returns true although the body has an error.
    if constexpr (requires(const F& f, lifted_t<X, CommonScalar<X...>, To>&... a) { f(a...); }) {
      return requires(const F& f, lifted_t<X, CommonScalar<X...>, To>&... a) { f(a...); };
    } else {
      return false;
    }
  } else {
    return true;  // checked before
  }
}
template <class To, class F, class... X>
inline constexpr bool kTakes = takes_numbers<To, F, X...>();

// The result type of f for these numbers.
template <class To, class F, class... X>
using ResultOn =
    std::remove_cvref_t<std::invoke_result_t<const F&, lifted_t<X, CommonScalar<X...>, To>&...>>;

// Converts to an A, but not to types that an A converts to.
template <class A>
struct Exact {
  operator A&() const;
};

// The reasons why a function cannot be called with numbers of a derivative.
enum class Fault {
  kNone,
  kBody,
  kMutable,
  kNotMade,
  kPlainStruct,
  kPlain,
  kConverts,
  kFewer,
  kMore,
  kOther,
  kSecondOrder,
  kReturnsNothing,
  kReturnsOther,
  kSaid  // the fault was reported where it was found
};

// Converts to the type of any parameter.
struct AnyArgument {
  template <class T>
  operator T&() const;
};
template <std::size_t>
using AnyArgumentAt = AnyArgument;
template <class F, std::size_t... I>
constexpr bool takes_count(std::index_sequence<I...>) {
  return takes<F, AnyArgumentAt<I>...>() != Takes::kNo;
}
// The number of arguments that f takes; more than kMostCounted if unknown.
inline constexpr std::size_t kMostCounted = 6;
template <class F, std::size_t n = 1>
constexpr std::size_t count_parameters() {
  if constexpr (n > kMostCounted || takes_count<F>(std::make_index_sequence<n>())) {
    return n;
  } else {
    return count_parameters<F, n + 1>();
  }
}

template <class To, class F, class... X>
constexpr Fault find_fault() {
  if constexpr (!kCanBeMade<X...>) {
    return Fault::kNotMade;
  } else if constexpr (takes<F, lifted_t<X, CommonScalar<X...>, To>...>() == Takes::kIfNotConst) {
    return Fault::kMutable;
  } else if constexpr (!kAllLift<To, X...>) {
    return Fault::kPlainStruct;
  } else if constexpr (kReaches<To, F, X...>) {
    return Fault::kBody;
  } else if constexpr (takes<F, Exact<X>...>() != Takes::kNo) {
    return Fault::kPlain;
  } else if constexpr (takes<F, X...>() != Takes::kNo) {
    return Fault::kConverts;
  } else {
    constexpr std::size_t kCount = count_parameters<F>();
    return kCount < sizeof...(X)    ? Fault::kFewer
           : kCount > kMostCounted  ? Fault::kOther
           : kCount == sizeof...(X) ? Fault::kOther
                                    : Fault::kMore;
  }
}

// Reports the fault of a function and its arguments, whose types the compiler prints.
template <Fault fault, class F, class... X>
struct FunctionHasNoDerivative {
  static constexpr bool compiles = fault != Fault::kBody;
  static_assert(compiles,
                "etude: this function does not compile with the numbers of a derivative, see the "
                "error before this one: keep them in auto or decltype(x), not in double; for a "
                "function of double that it calls write etude::derivative_of<&f>, and call "
                "etude::differentiable<&f>");
  static constexpr bool is_const = fault != Fault::kMutable;
  static_assert(
      is_const,
      "etude: a function that is differentiated is called as const: remove 'mutable', and "
      "capture by reference what it changes");
  static constexpr bool is_default_constructible = fault != Fault::kNotMade;
  static_assert(is_default_constructible,
                "etude: a class with ETUDE_FIELDS or with a C array is made by its default "
                "constructor, then its fields are set; give it one");
  static constexpr bool is_template = fault != Fault::kPlainStruct;
  static_assert(is_template,
                "etude: no derivative for this function: a struct that it takes has fields of type "
                "double, which keep no derivative: template the struct on its scalar, template "
                "<class T> struct S { T x; }, or hold etude::Real");
  static constexpr bool is_generic = fault != Fault::kPlain;
  static_assert(is_generic,
                "etude: no derivative for this function: write etude::derivative_of<&f>, mark it "
                "with ETUDE_DIFFERENTIABLE, or pass a generic callable (auto parameters, structs "
                "templated on their scalar), or one on etude::Real");
  static constexpr bool takes_them = fault != Fault::kConverts;
  static_assert(takes_them,
                "etude: no derivative for this function: it takes something that the arguments "
                "convert to: convert them first, as etude::Tensor(x), or make it generic (auto "
                "parameters)");
  static constexpr bool takes_all = fault != Fault::kFewer;
  static_assert(takes_all,
                "etude: this function takes fewer arguments than follow it; pass one for each of "
                "its parameters");
  static constexpr bool has_all = fault != Fault::kMore;
  static_assert(has_all,
                "etude: this function takes more arguments than follow it; pass one for each of "
                "its parameters, no_derivative(x) for a constant");
  static constexpr bool is_callable = fault != Fault::kOther;
  static_assert(is_callable,
                "etude: no derivative for this function: it takes neither these arguments nor the "
                "same with the numbers of a derivative in them; pass a generic callable (auto "
                "parameters, structs templated on their scalar), or one on etude::Real");
  static constexpr bool is_first_order = fault != Fault::kSecondOrder;
  static_assert(is_first_order,
                "etude: functions on etude::Real are differentiated once, in reverse mode; make "
                "this one generic (auto parameters) for second derivatives");
  static constexpr bool returns = fault != Fault::kReturnsNothing;
  static_assert(returns,
                "etude: gradient needs a function with one number as its result; this one returns "
                "nothing");
  static constexpr bool returns_number = fault != Fault::kReturnsOther;
  static_assert(returns_number,
                "etude: gradient needs a function whose result is one number, computed from its "
                "arguments; use pullback or jacobian for other results");
};

// The fault of a result type for a gradient.
template <class Result>
struct NumberOf : std::type_identity<Result> {};
template <class V, class A>
struct NumberOf<WithAux<V, A>> : NumberOf<V> {};
template <class Result, class To>
inline constexpr Fault kFaultOfResult =
    std::is_same_v<typename NumberOf<Result>::type, To> ? Fault::kNone
    : HoldsRefused<Result>                              ? Fault::kSaid
    : std::is_void_v<Result>                            ? Fault::kReturnsNothing
                                                        : Fault::kReturnsOther;

}  // namespace internal
}  // namespace etude
