// SPDX-License-Identifier: Apache-2.0
// Marks an ordinary function as differentiable. The mark declares its derivatives as plain
// functions; their definitions are elsewhere, written by hand or by a generator.
//
//   double energy(const Spring& s, double x);
//   ETUDE_DIFFERENTIABLE(energy);           // at global scope, before any operator uses energy
//   gradient<&energy>(Spring{2, 1}, 3.0);
//
// declares these members of etude::derivative_of<&energy>:
//
//   std::pair<double, double> jvp(const Spring& s, double x, const Spring& ds, double dx);
//   std::pair<double, Pullback> vjp(const Spring& s, double x);
//   double joint(const Spring& s, double x, Spring& ds, double& dx);
//   std::tuple<Spring, double> pull(const Spring& s, double x, double dy);
//
//   jvp     the value, and its tangent along tangents of the parameters
//   vjp     the value, and its pullback, which takes dy and adds into a reference for each
//           parameter. A tensor in a tuple dy is absent if no cotangent arrives for it
//   joint   only for functions that return a number: the value; adds the gradient. A single sweep
//   pull    the cotangents of the parameters for the cotangent dy, as a function like any other
//
// Forward mode calls jvp, or joint for several directions at once. Reverse mode calls joint if the
// arguments and the result are numbers, else vjp. gradient<&f> calls joint if it is declared. A
// member that is called and not defined is an error of the linker, which names it.
//
// Second derivatives of numbers need a derivative of a derivative: mark jvp or pull in turn,
//
//   ETUDE_DIFFERENTIABLE(etude::derivative_of<&energy>::pull);
//
// With jvp marked, forward mode inside another derivative is one run for each direction, and
// reverse mode there one run for each number of the arguments. With pull marked, reverse mode is
// one run. Functions of tensors need no further mark: their derivatives are ops.
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
// The parameter of the joint of a function that returns no number: nothing calls it.
class NoNumber;

// Refuse the mark of a function whose derivative cannot be declared.
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
// The forms, or a refusal and forms that nothing calls, so that there is one message.
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

// Declares the derivative of f. The type selects an overload:
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
