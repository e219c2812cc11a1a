// SPDX-License-Identifier: Apache-2.0
// Callables with a derivative of their own: custom_gradient, with_derivative, recompute_grad and
// checkpoints along a chain. For numbers here; runtime/ makes the same names hold for tensors. For
// named functions: derivative.h.
//
//   auto square = custom_gradient([](auto x) {
//     return std::pair{x * x, [x](auto dy) { return 2.0 * dy * x; }};
//   });
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/diff/custom_call.h"
#include "etude/diff/scalar_operators.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Whether a call has nothing but numbers and what cannot move.
template <class... X>
inline constexpr bool kOnlyNumbers = (kIsActiveCall<X...> || ScalarArguments<X...> ||
                                      (std::is_same_v<tangent_t<X>, NoTangent> && ...));

// f and its pullback as a rule whose pullback runs f again.
template <class F>
struct RunAgain {
  F f;
  template <class... X>
  auto operator()(const X&... x) const {
    return std::pair{std::invoke(f, x...),
                     [f = f, ... x = x](const auto& dy) { return etude::pullback(f, x...)(dy); }};
  }
};

}  // namespace internal

// A function with a derivative of its own: rule(x...) gives std::pair{value, pullback}, where
// pullback(dy) gives the tangents of x..., one bare or several in a tuple. For tensors, a tuple as
// the value gives pullback(dy...), and runtime/custom_gradient.h says what holds for Variables. The
// rule is called with plain values in place of the numbers of the derivative. A second derivative
// is taken of the rule's own calls. Forward mode calls the pullback once for each number of the
// result.
template <class Rule>
class CustomGradient {
 public:
  explicit CustomGradient(Rule rule, CallSite where = {}) : rule_(std::move(rule)), where_(where) {}

  template <class... X>
  auto operator()(const X&... x) const {
    if constexpr (internal::kIsActiveCall<X...>) {
      return internal::custom_call<false>(rule_, x...);
    } else if constexpr (internal::kOnlyNumbers<X...>) {
      return std::invoke(rule_, x...).first;
    } else {
      return internal::OtherLeaves<X...>::custom(where_, rule_, x...);
    }
  }

 private:
  Rule rule_;
  CallSite where_;  // that errors of the rule name
};
template <class Rule>
auto custom_gradient(Rule rule, CallSite where = CallSite::here()) {
  return CustomGradient<Rule>(std::move(rule), where);
}
// The same, with f where no derivative is asked for.
template <class F, class Rule>
requires(!std::is_same_v<Rule, CallSite>) auto custom_gradient(F f, Rule rule,
                                                               CallSite where = CallSite::here()) {
  return [f = std::move(f), rule = std::move(rule), where]<class... X>(const X&... x) {
    if constexpr (internal::kIsActiveCall<X...>) {
      return internal::custom_call<false>(rule, x...);
    } else if constexpr (internal::kOnlyNumbers<X...>) {
      return std::invoke(f, x...);
    } else {
      return internal::OtherLeaves<X...>::custom(where, f, rule, x...);
    }
  };
}

// x itself. In a reverse pass the cotangent of x is replaced by hook(cotangent), of the tangent
// type of x: to print, clip, scale or count it. The hook runs once in each reverse pass: of a
// pullback, of vjp, of a gradient. A gradient of up to four numbers runs in forward mode; where it
// comes to a hook, it begins again in reverse mode. In forward mode, as in jvp, the hook must be
// linear.
template <class X, class Hook>
auto with_derivative(const X& x, Hook hook, CallSite where = CallSite::here()) {
  using S = internal::DeepestScalar<X>;
  if constexpr (internal::kIsGradientDual<S>) {
    internal::require_tape<S>();
    return x;
  } else {
    return custom_gradient(
        [hook = std::move(hook)](const auto& v) {
          return std::pair{v, hook};
        },
        where)(x);
  }
}

// A function like f that keeps nothing of its calls but its arguments: when a cotangent arrives, f
// runs once more. With tensors, with the same random numbers and the same values of Variables,
// which the second run does not assign; tensors that f captures are kept, and have derivatives, as
// arguments do. What f captures by reference has to live, unchanged, until then.
template <class F>
auto recompute_grad(F f) {
  return [f = std::move(f)]<class... X>(const X&... x) {
    if constexpr (internal::kOnlyNumbers<X...>) {
      return custom_gradient(internal::RunAgain<F>{f})(x...);
    } else {
      return internal::OtherLeaves<X...>::recompute(f, x...);
    }
  };
}

// state = step(i, state) for i = 0 .. n-1, in blocks of the square root of n that recompute_grad
// runs again: about 2 sqrt(n) states are kept at once in place of n, for one run more.
//
// cost: each step runs twice forward and once backward.
template <class State, class Step>
State checkpointed(std::size_t n, State state, const Step& step) {
  if (n == 0) return state;
  const auto block = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t end = begin + block < n ? begin + block : n;
    state = recompute_grad([begin, end, step](auto inner) {
      for (std::size_t i = begin; i < end; ++i) inner = step(i, inner);
      return inner;
    })(state);
  }
  return state;
}

}  // namespace etude
