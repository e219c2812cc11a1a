// SPDX-License-Identifier: Apache-2.0
// How scalar_operators.h calls functions with other numbers than those of the arguments, and the
// runs of forward mode. Those of reverse mode are in scalar_reverse.h.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/diff/differentiable.h"
#include "etude/diff/dual.h"
#include "etude/diff/operator_arguments.h"
#include "etude/diff/replace_scalars.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Arguments that hold a number, arguments that are kept out, and no other leaf.
template <class X>
concept HasScalar = !std::is_void_v<typename FirstScalar<std::remove_cvref_t<X>>::type>;
template <class... X>
concept ScalarArguments = (HasScalar<X> || ...) &&
                          ((HasScalar<X> || std::is_same_v<tangent_t<X>, NoTangent>)&&...) &&
                          !(mentions_other_leaf<std::remove_cvref_t<X>>() || ...);

template <class... X>
using CommonScalar = typename FirstOfAll<X...>::type;

// How f is called: with every Scalar of X... replaced by To. What NoDerivative holds is passed as
// it is.
template <class X, class From, class To>
using lifted_t =
    replace_scalar_t<std::remove_cvref_t<decltype(pass(std::declval<const X&>()))>, From, To>;

// Whether f takes the arguments with their numbers as To; functions and structs on Real take no
// others.
template <class To, class F, class... X>
inline constexpr bool kTakes =
    ((!HasScalar<X> || !std::is_same_v<lifted_t<X, CommonScalar<X...>, To>, X>)&&...) &&
    std::is_invocable_v<const F&, lifted_t<X, CommonScalar<X...>, To>&...>;

// True; where it is false it says so, once for all ways to ask for a derivative.
template <bool is_known>
constexpr bool check_derivative() {
  static_assert(is_known,
                "etude: no derivative for this function: write etude::derivative_of<&f>, mark it "
                "with ETUDE_DIFFERENTIABLE, or pass a generic callable (auto parameters, structs "
                "templated on their scalar), or one on etude::Real");
  return true;
}
template <bool is_known>
inline constexpr bool kHasDerivative = check_derivative<is_known>();

template <class Values>
struct TakeTangents {
  const Values& values;
  std::size_t next;
  template <class S>
  constexpr tangent_t<S> operator()(const S& x) {
    if constexpr (Scalar<S>) {
      return S(values[next++]);
    } else {
      return build_tangent(zero_tangent(x), *this);
    }
  }
};

// The tangents of x... from those of their numbers, which begin at `first`.
template <class Values, class... X>
constexpr auto tangents_of(const Values& values, std::size_t first, const X&... x) {
  TakeTangents<Values> take{values, first};
  return pick_tangents<X...>(std::tuple<tangent_t<X>...>{build_tangent(x, take)...});
}

// Up to so many numbers are differentiated in one forward run: less work than a tape, and no
// memory.
inline constexpr std::size_t kForwardCount = 4;

template <class... X>
inline constexpr std::size_t kCount = scalar_count<std::tuple<std::remove_cvref_t<X>...>>();
// Tells the numbers of a gradient that goes forward: the user asked for no forward mode.
template <class F, class... X>
struct GradientTag {};
template <class F, class... X>
using GradientDual = Dual<CommonScalar<X...>, kCount<X...>, GradientTag<F, X...>>;
template <class S>
inline constexpr bool kIsGradientDual = false;
template <class T, std::size_t n, class F, class... X>
inline constexpr bool kIsGradientDual<Dual<T, n, GradientTag<F, X...>>> = true;

// What is thrown where such numbers meet a call that goes forward in no way, so that the gradient
// begins again on a tape. It brings the run along: a program that never does this has none.
template <class S>
struct NeedsTape {
  // f, a tuple of references to the arguments, and the optional result.
  void (*run)(const void* f, const void* x, void* out);
};
template <class F, class... X>
auto reverse_gradient(const F& f, const X&... x);
template <class F, class... X>
constexpr auto run_forward(const F& f, const X&... x);
template <class S>
struct RunOnTape;
template <class T, std::size_t n, class F, class... X>
struct RunOnTape<Dual<T, n, GradientTag<F, X...>>> {
  static void run(const void* f, const void* x, void* out) {
    using Result = decltype(run_forward(std::declval<const F&>(), std::declval<const X&>()...));
    const auto take = [&](const X&... at) {
      return reverse_gradient(*static_cast<const F*>(f), at...);
    };
    static_cast<std::optional<Result>*>(out)->emplace(
        std::apply(take, *static_cast<const std::tuple<const X&...>*>(x)));
  }
};
template <class S>
[[noreturn, gnu::cold, gnu::noinline]] void require_tape() {
  throw NeedsTape<S>{&RunOnTape<S>::run};
}

template <class F, class... X>
constexpr bool goes_forward() {
  constexpr std::size_t count = kCount<X...>;
  if constexpr (count > kForwardCount) {
    return false;
  } else {
    return kTakes<GradientDual<F, X...>, F, X...>;
  }
}

// Number k of the arguments, with a derivative of 1 along direction k.
template <class To>
struct MakeUnits {
  std::size_t next = 0;
  template <class T>
  constexpr To operator()(const T& x) {
    std::remove_cvref_t<decltype(std::declval<To>().derivatives())> unit{};
    unit[next++] = T(1);
    return To(x, unit);
  }
};

// x... with each number as fn(number); those kept out are converted.
template <class From, class To, class Fn, class... X>
constexpr auto lift_arguments(Fn& fn, const X&... x) {
  (check_traits<std::remove_cvref_t<X>>(), ...);
  const auto lift = [&](const auto& a) {
    using A = std::remove_cvref_t<decltype(a)>;
    if constexpr (IsNoDerivative<A>::value) {
      auto convert = [](const auto& v) { return To(v); };
      return map_scalars<lifted_t<A, From, To>>(a.value, convert);
    } else {
      return map_scalars<lifted_t<A, From, To>>(a, fn);
    }
  };
  return std::tuple<decltype(lift(x))...>{lift(x)...};
}

template <class Result, class To>
constexpr void require_number() {
  static_assert(std::is_same_v<Result, To>,
                "etude: gradient needs a function with one number as its result that is computed "
                "from its arguments; use pullback or jacobian for other results");
}

template <class F, class... X>
constexpr auto run_forward(const F& f, const X&... x) {
  using To = GradientDual<F, X...>;
  MakeUnits<To> units;
  auto lifted = lift_arguments<CommonScalar<X...>, To>(units, x...);
  const auto result = std::apply(f, lifted);
  require_number<std::remove_cvref_t<decltype(result)>, To>();
  return std::pair{result.value(), tangents_of(result.derivatives(), 0, x...)};
}
template <class F, class... X>
constexpr auto forward_gradient(const F& f, const X&... x) {
  try {
    return run_forward(f, x...);
  } catch (const NeedsTape<GradientDual<F, X...>>& needs) {
    std::optional<decltype(run_forward(f, x...))> out;
    const std::tuple<const X&...> arguments(x...);
    needs.run(&f, &arguments, &out);
    return *std::move(out);
  }
}

// Whether f gives a number that is none of the derivative, such as a literal.
template <class F, class... X>
constexpr bool gives_plain() {
  using From = CommonScalar<X...>;
  using To = std::conditional_t<goes_forward<F, X...>(), GradientDual<F, X...>, Active<From>>;
  if constexpr (kTakes<To, F, X...>) {
    using R = std::remove_cvref_t<std::invoke_result_t<const F&, lifted_t<X, From, To>&...>>;
    return std::floating_point<R> || std::is_same_v<R, From>;
  } else {
    return false;
  }
}
template <class F, class... X>
concept ResultIsPlain = gives_plain<F, X...>();
template <class F, class... X>
constexpr auto plain_gradient(const F& f, const X&... x) {
  return std::pair{CommonScalar<X...>(f(pass(x)...)),
                   pick_tangents<X...>(std::tuple<tangent_t<X>...>{zero_tangent(x)...})};
}

// Numbers with the derivatives that a tangent gives them, in order.
template <class To>
struct MakeDuals {
  const std::vector<typename To::Value>& directions;
  std::size_t next = 0;
  To operator()(const typename To::Value& x) { return To(x, {directions[next++]}); }
};

template <class Dual, class R>
constexpr auto split_dual(const R& result) {
  using Plain = replace_scalar_t<R, Dual, typename Dual::Value>;
  auto value = [](const Dual& v) { return v.value(); };
  auto derivative = [](const Dual& v) { return v.derivatives()[0]; };
  return std::pair{map_scalars<Plain>(result, value), map_scalars<Plain>(result, derivative)};
}

// Whether f is meant for numbers, be it in reverse mode only: a function of something else that a
// number converts to belongs to other operators.
template <class F, class X>
inline constexpr bool kTakesNumbers =
    kTakes<Dual<X, 1, F>, F, X> || std::is_invocable_v<const F&, Active<X>&>;

template <class To, class F, class X>
constexpr void require_generic() {
  static_assert(kTakes<To, F, X>,
                "etude: forward mode needs a generic function (auto parameters, or a struct "
                "templated on its scalar)");
}

}  // namespace internal
}  // namespace etude
