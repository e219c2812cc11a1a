// SPDX-License-Identifier: Apache-2.0
// Argument handling that all differential operators share: excludes some arguments from the
// derivative and returns the tangents of the others. Used by scalar_operators.h and the operators
// on tensors.
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/base/error.h"
#include "etude/diff/internal/inlining.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Excludes an argument from the derivative. The function receives the plain value.
template <class T>
constexpr NoDerivative<T> no_derivative(T value) {
  return {std::move(value)};
}

// The result of a function that returns a number together with an auxiliary value. The gradient is
// the gradient of the number. value_with_gradient also returns the auxiliary value, without
// derivatives:
//
//   const auto loss = [&](const auto& p) {
//     auto errors = errors_at(p);
//     return with_aux(dot(errors, errors), errors);
//   };
//   auto [result, slopes] = value_with_gradient(loss, p);  // result.value, result.aux
template <class V, class A>
struct WithAux {
  V value;
  A aux;
};
template <class V, class A>
constexpr WithAux<V, A> with_aux(V value, A aux) {
  return {std::move(value), std::move(aux)};
}

namespace internal {

template <class T>
struct IsWithAux : std::false_type {};
template <class V, class A>
struct IsWithAux<WithAux<V, A>> : std::true_type {};

template <class T>
constexpr const T& pass(const T& x) {
  return x;
}
template <class T>
constexpr const T& pass(const NoDerivative<T>& x) {
  return x.value;
}

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};

// Runs fn(), and adds the name of the operator to errors of fn.
template <class Fn>
constexpr void named(const char* op, Fn&& fn) {
  try {
    fn();
  } catch (Error& error) {
    error.name_op(op);
    throw;
  }
}

// Returns f(members of the tuple...), as std::apply does, but forces inlining. Otherwise compilers
// inline level by level, and optimise the body of f again at each level.
template <class F, class... A, std::size_t... I>
ETUDE_INLINED constexpr decltype(auto) call_with(const F& f, std::tuple<A...>& all,
                                                 std::index_sequence<I...>) {
  if constexpr (std::is_class_v<F>) {
    ETUDE_INLINED_CALL return f(std::get<I>(all)...);
  } else {
    return std::invoke(f, std::get<I>(all)...);
  }
}
template <class F, class... A>
ETUDE_INLINED constexpr decltype(auto) call_with(const F& f, std::tuple<A...>& all) {
  return call_with(f, all, std::index_sequence_for<A...>());
}

// Returns fn(x). If x is a tuple, returns fn(members of the tuple...).
template <class X, class Fn>
constexpr auto spread(const X& x, Fn&& fn) {
  if constexpr (IsTuple<X>::value) {
    return std::apply(fn, x);
  } else {
    return fn(x);
  }
}

// Returns the tangents of the differentiable arguments among X...: the tangent itself for one such
// argument, else a tuple of tangents.
template <class... X, class Tangents>
constexpr auto pick_tangents(Tangents&& all) {
  auto kept = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple_cat([&] {
      using T = std::tuple_element_t<I, std::remove_cvref_t<Tangents>>;
      if constexpr (std::is_same_v<T, NoTangent>) {
        return std::tuple<>();
      } else {
        return std::tuple<T>(std::get<I>(std::forward<Tangents>(all)));
      }
    }()...);
  }
  (std::index_sequence_for<X...>());
  if constexpr (std::tuple_size_v<decltype(kept)> == 1) {
    return std::get<0>(std::move(kept));
  } else {
    return kept;
  }
}

}  // namespace internal
}  // namespace etude
