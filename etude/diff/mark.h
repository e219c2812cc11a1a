// SPDX-License-Identifier: Apache-2.0
// Marks an ordinary function as differentiable. The mark declares the derivatives of the function
// as plain functions. The definitions are elsewhere, written by hand or by a generator.
//
//   double energy(const Spring& s, double x);
//   ETUDE_DIFFERENTIABLE(energy);           // at global scope, before any operator uses energy
//   gradient<&energy>(Spring{2, 1}, 3.0);
//
// This mark declares these members of etude::derivative_of<&energy>:
//
//   std::pair<double, double> jvp(const Spring& s, double x, const Spring& ds, double dx);
//   std::pair<double, Pullback> vjp(const Spring& s, double x);
//   double joint(const Spring& s, double x, Spring& ds, double& dx);
//   std::tuple<Spring, double> pull(const Spring& s, double x, double dy);
//
//   jvp     returns the value, and its tangent along tangents of the parameters
//   vjp     returns the value and a pullback. The pullback takes dy and a reference to one tangent
//           per parameter, and adds the cotangents to these tangents. In a tuple dy, a tensor
//           without a cotangent is absent
//   joint   only for functions that return a number. Returns the value and adds the gradient to ds
//           and dx, in a single sweep
//   pull    returns the cotangents of the parameters for the cotangent dy, without a pullback
//
// Forward mode calls jvp for one direction. For several directions it calls joint if the function
// returns a number. Reverse mode calls joint if the arguments and the result are numbers, else vjp.
// gradient<&f> calls joint. If a called member has no definition, the linker reports its name.
//
// For second derivatives of numbers, also mark jvp or pull:
//
//   ETUDE_DIFFERENTIABLE(etude::derivative_of<&energy>::pull);
//
// With jvp marked, forward mode inside another derivative takes one run per direction. Reverse mode
// inside another derivative takes one run per number in the arguments. With pull marked, reverse
// mode inside another derivative takes a single run. Functions of tensors need no further mark,
// since their derivatives are ops.
#pragma once

#include <concepts>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/diff/internal/explain_type.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The derivative of function F: see derivative.h.
template <auto F>
struct derivative_of;

// The types in the derivative of a function.
template <class F>
struct Signatures;
template <class R, class... A>
struct Signatures<R (*)(A...)> {
  using Result = std::remove_cvref_t<R>;
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

namespace internal {

template <class F>
concept HasSignature = requires {
  typename Signatures<F>::Arguments;
};

// A tangent as a parameter: a number by value, all others by reference.
template <class T>
using passed_t =
    std::conditional_t<std::is_arithmetic_v<T> || std::is_same_v<T, NoTangent>, T, const T&>;
// The parameter of joint if the function does not return a number. Such a joint is never called.
class NoNumber;

// These two structs refuse a mark if the derivative of the function cannot be declared.
template <class... A>
struct ParametersAreRead {
  static constexpr bool are_read =
      !((std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>) || ...);
  static_assert(are_read,
                "etude: ETUDE_DIFFERENTIABLE: the function takes a reference that it may write: "
                "take the argument by value or by const reference, and return the new value");
};
template <class R>
struct ResultHasTangent {
  static constexpr bool is_differentiable = Differentiable<std::remove_cvref_t<R>>;
  static_assert(is_differentiable,
                "etude: ETUDE_DIFFERENTIABLE: the result of the function is not Differentiable: "
                "return floating-point numbers, tensors, or containers and structs of them");
};

template <class R, class... A>
struct FormsOf {
  using Result = std::remove_cvref_t<R>;
  using Pullback = std::function<void(passed_t<tangent_t<R>>, tangent_t<A>&...)>;
  using Jvp = std::pair<Result, tangent_t<R>>(A..., passed_t<tangent_t<A>>...);
  using Vjp = std::pair<Result, Pullback>(A...);
  using Pull = std::tuple<tangent_t<A>...>(A..., passed_t<tangent_t<R>>);
  using Joint = typename std::conditional_t<std::floating_point<Result>,
                                            std::type_identity<Result(A..., tangent_t<A>&...)>,
                                            std::type_identity<void(NoNumber&)>>::type;
};
struct NoForms {
  using Pullback = void;
  using Jvp = void(NoNumber&);
  using Vjp = Jvp;
  using Pull = Jvp;
  using Joint = Jvp;
};
// Returns the types of the members. Returns NoForms for a refused function, so that the compiler
// prints one message only.
template <class R, class... A>
constexpr auto checked_forms() {
  using Parameters = ParametersAreRead<A...>;
  using Returned = ResultHasTangent<R>;
  static_cast<void>(sizeof(Parameters) + sizeof(Returned));
  if constexpr (!(kMayBeArgument<std::remove_cvref_t<A>> && ...)) {
    static_cast<void>(sizeof(RefusalOf<std::remove_cvref_t<A>...>));  // names parameter and field
    return std::type_identity<NoForms>();
  } else if constexpr (!Parameters::are_read || !Returned::is_differentiable) {
    return std::type_identity<NoForms>();
  } else {
    return std::type_identity<FormsOf<R, A...>>();
  }
}

}  // namespace internal

// The functions that a mark declares for a function of type F.
template <class F>
struct DeclaredForms : internal::NoForms {
  static constexpr bool is_function = internal::HasSignature<F>;
  static_assert(
      is_function,
      "etude: ETUDE_DIFFERENTIABLE takes a function or a const member function: return the "
      "new object instead of writing to it");
};
template <class R, class... A>
struct DeclaredForms<R (*)(A...)> : decltype(internal::checked_forms<R, A...>())::type {};
template <class R, class... A>
struct DeclaredForms<R (*)(A...) noexcept> : DeclaredForms<R (*)(A...)> {};
template <class R, class C, class... A>
struct DeclaredForms<R (C::*)(A...) const> : DeclaredForms<R (*)(const C&, A...)> {};
template <class R, class C, class... A>
struct DeclaredForms<R (C::*)(A...) const noexcept> : DeclaredForms<R (*)(const C&, A...)> {};

// Declares the derivative of f. An optional type selects an overload:
// ETUDE_DIFFERENTIABLE(app::norm, double (*)(double)).
// NOLINTBEGIN(bugprone-macro-parentheses): &(S::f) is no pointer to a member
#define ETUDE_MARKED(f, ...) __VA_OPT__(static_cast<__VA_ARGS__>)(&f)
#define ETUDE_DIFFERENTIABLE(f, ...)                                                          \
  template <>                                                                                 \
  struct etude::derivative_of<ETUDE_MARKED(f __VA_OPT__(, ) __VA_ARGS__)> {                   \
    using Forms = etude::DeclaredForms<decltype(ETUDE_MARKED(f __VA_OPT__(, ) __VA_ARGS__))>; \
    using Pullback = Forms::Pullback;                                                         \
    static Forms::Jvp jvp;                                                                    \
    static Forms::Vjp vjp;                                                                    \
    static Forms::Joint joint;                                                                \
    static Forms::Pull pull;                                                                  \
  }
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace etude
