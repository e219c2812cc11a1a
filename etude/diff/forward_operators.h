// SPDX-License-Identifier: Apache-2.0
// Forward-mode operators on functions of numbers: value_with_tangent, derivative, jvp and
// differential. Part of scalar_operators.h.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/diff/dual.h"
#include "etude/diff/first_calls.h"
#include "etude/diff/internal/tape/scalar_runs.h"
#include "etude/diff/refusals.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Returns f(x...) and its tangent along by..., computed in one forward-mode run. `x` is the tuple
// of arguments, and `by` the tuple of their tangents.
template <class F, class... X, class... U>
constexpr auto forward_tangent(const F& f, const std::tuple<X...>& x, const std::tuple<U...>& by) {
  using T = CommonScalar<std::remove_cvref_t<X>..., std::remove_cvref_t<U>...>;
  using To = Dual<T, 1, F>;
  static_assert(sizeof...(X) == sizeof...(U), "etude: jvp needs a tangent for each argument");
  if constexpr (!kTakes<To, F, std::remove_cvref_t<X>...>) {
    static_cast<void>(sizeof(RefusalOfForward<To, F, std::remove_cvref_t<X>...>));
    return Refused();
  } else {
    std::vector<T> directions;
    const auto collect = [&](const auto& t) { directions.push_back(T(t)); };
    const auto collect_beside = [&](const auto&, const auto& t) { each_leaf(t, collect); };
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto add = [&](const auto& at, const auto& along) {
        const auto& from = raised<T>(at);
        auto whole = zero_tangent(from);  // a tangent may lack entries
        named("jvp", [&] { etude::move(whole, raised<T>(along)); });
        zip_leaves(from, std::as_const(whole), collect_beside);  // skips frozen leaves
      };
      (add(std::get<I>(x), std::get<I>(by)), ...);
      MakeDuals<To> duals{directions};
      auto lifted = lift_arguments<T, To>(duals, std::get<I>(x)...);
      return split_dual<To>(call_with(f, lifted));
    }
    (std::index_sequence_for<X...>());
  }
}
// Returns fn(first half of a..., second half of a...). Each half is a tuple of references.
template <class Fn, class... A>
constexpr auto with_halves(const Fn& fn, const A&... a) {
  const auto all = std::tie(a...);
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return fn(std::tie(std::get<I>(all)...), std::tie(std::get<sizeof...(I) + I>(all)...));
  }
  (std::make_index_sequence<sizeof...(A) / 2>());
}

}  // namespace internal

// Returns f(x) and its tangent along `by`, computed in one forward-mode run.
//
// throws: kInvalidArgument if the tangent does not fit x; exceptions of f.
template <class F, class X>
requires internal::ScalarArguments<X>
constexpr auto value_with_tangent(const F& f, const X& x, const tangent_t<X>& by) {
  return internal::forward_tangent(f, std::tie(x), std::tie(by));
}

// Returns the value and the derivative of f at the number x, in forward mode. f may return any
// structure of numbers.
template <class F, internal::Scalar X>
requires(internal::kTakesNumbers<F, X>) ETUDE_INLINED
    constexpr auto value_with_derivative(const F& f, const X& x) {
  using To = Dual<X, 1, F>;
  if constexpr (internal::kTakes<To, F, X>) {
    To lifted(x, {X(1)});
    return internal::split_dual<To>(std::invoke(f, lifted));
  } else {
    static_cast<void>(sizeof(internal::RefusalOfForward<To, F, X>));
    return internal::Refused();
  }
}
template <class F, internal::Scalar X>
requires(internal::kTakesNumbers<F, X>) ETUDE_INLINED
    constexpr auto derivative(const F& f, const X& x) {
  return value_with_derivative(f, x).second;
}

// Returns the value of f and its tangent along `tangents`, computed in one forward-mode run.
// Several arguments are passed as a tuple.
//
// throws: kInvalidArgument if a tangent does not fit its argument; exceptions of f.
template <class F, class X>
requires internal::ScalarArguments<X>
constexpr auto jvp(const F& f, const X& primals, const tangent_t<X>& tangents,
                   CallSite = CallSite::here()) {
  if constexpr (internal::IsTuple<X>::value) {
    return internal::forward_tangent(f, primals, tangents);
  } else {
    return internal::forward_tangent(f, std::tie(primals), std::tie(tangents));
  }
}
// The same with separate arguments, followed by their tangents: jvp(f, x, y, dx, dy).
template <class F, class... A>
requires(internal::are_with_tangents<A...>()) constexpr auto jvp(const F& f, const A&... a) {
  return internal::with_halves(
      [&](const auto& x, const auto& by) { return internal::forward_tangent(f, x, by); }, a...);
}

// Maps tangents of the arguments to the tangent of f(x...). Holds copies of f and of the arguments.
template <class F, class... X>
class DifferentialOf {
 public:
  constexpr explicit DifferentialOf(const F& f, const X&... x) : f_(f), x_(x...) {}
  // throws: kInvalidArgument if a tangent does not fit its argument.
  constexpr auto operator()(const tangent_t<X>&... by, CallSite where = CallSite::here()) const {
    if constexpr (internal::ScalarArguments<X...>) {
      return internal::forward_tangent(f_, x_, std::tie(by...)).second;
    } else {  // other leaves: in autodiff/
      return jvp(f_, x_, std::tuple<tangent_t<X>...>(by...), where).second;
    }
  }

 private:
  F f_;
  std::tuple<X...> x_;
};
template <class F, class... X>
constexpr auto differential(const F& f, const X&... x) {
  return DifferentialOf<F, X...>(f, x...);
}
// Returns the value of f and its differential. Each call of the differential runs f again.
template <class F, class... X>
constexpr auto value_with_differential(const F& f, const X&... x) {
  return std::pair{std::invoke(f, internal::pass(x)...), etude::differential(f, x...)};
}

}  // namespace etude
