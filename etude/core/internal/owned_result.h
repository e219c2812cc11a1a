// SPDX-License-Identifier: Apache-2.0
// Calls of user functions that must return values. `return b.at(0);` in a function with a deduced
// result type returns a TensorSlice, which refers to the local variable b and dangles after the
// return. All calls of user functions go through call_owned, or through require_owned if the
// function is stored as a std::function.
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
                "etude: the function returns x.at(..), which refers to its variable x and not to a "
                "value; return Tensor(x.at(..)), or write `-> Tensor` after its parameters");
};
template <class Result>
inline constexpr bool kIsSlice = std::is_same_v<std::decay_t<Result>, TensorSlice>;
template <class F, class... X>
inline constexpr bool kReturnsSlice = [] {
  if constexpr (std::is_invocable_v<F, X...>) return kIsSlice<std::invoke_result_t<F, X...>>;
  return false;
}();

// The result type of a function, or Tensor for a refused function, so that compilers report no
// further errors.
template <class Result>
using owned_t = std::conditional_t<kIsSlice<Result>, Tensor, std::decay_t<Result>>;

// Refuses at compile time a function that returns a reference to its own variable.
template <class F, class... X>
constexpr void require_owned() {
  if constexpr (kReturnsSlice<F, X...>) {
    static_cast<void>(kRefused<ResultRefersToVariable<std::remove_cvref_t<F>>>);
  }
}

// Calls f(x...). The result must be a value.
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
