// SPDX-License-Identifier: Apache-2.0
// Calls of users' functions whose results have to be values. `return b.at(0);` from a function with
// a deduced result is a TensorSlice, which refers to the variable b: when the function has returned
// there is none. So all that calls functions of users calls them by call_owned, or asks
// require_owned where it keeps them as a std::function.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/core/tensor.h"
#include "etude/diff/mixed_numbers.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class F>
struct ResultRefersToVariable {
  static constexpr bool is_value = sizeof(F*) == 0;
  static_assert(is_value,
                "etude: the function returns x.at(..), which refers to its variable x and not to "
                "a value; return Tensor(x.at(..)), or write `-> Tensor` behind its parameters");
};
template <class Result>
inline constexpr bool kIsSlice = std::is_same_v<std::decay_t<Result>, TensorSlice>;
template <class F, class... X>
inline constexpr bool kReturnsSlice = [] {
  if constexpr (std::is_invocable_v<F, X...>) return kIsSlice<std::invoke_result_t<F, X...>>;
  return false;
}();

// What stands for the result of a function: a Tensor for one that is refused, so that compilers
// have nothing more to say.
template <class Result>
using owned_t = std::conditional_t<kIsSlice<Result>, Tensor, std::decay_t<Result>>;

// Refuses at compile time a function that returns what refers to a variable of its own.
template <class F, class... X>
constexpr void require_owned() {
  if constexpr (kReturnsSlice<F, X...>) {
    static_cast<void>(kRefused<ResultRefersToVariable<std::remove_cvref_t<F>>>);
  }
}

// f(x...), whose result is a value.
template <class F, class... X>
decltype(auto) call_owned(F&& f, X&&... x) {
  if constexpr (kReturnsSlice<F, X...>) {
    static_cast<void>(kRefused<ResultRefersToVariable<std::remove_cvref_t<F>>>);
    return Tensor();
  } else {
    return std::invoke(std::forward<F>(f), std::forward<X>(x)...);
  }
}

// The same with the members of a tuple.
template <class F, class... X>
decltype(auto) apply_owned(const F& f, std::tuple<X...>& x) {
  if constexpr (kReturnsSlice<const F&, X&...>) {
    static_cast<void>(kRefused<ResultRefersToVariable<F>>);
    return Tensor();
  } else {
    return std::apply(f, x);
  }
}

}  // namespace internal
}  // namespace etude
