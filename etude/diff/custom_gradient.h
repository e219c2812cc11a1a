// SPDX-License-Identifier: Apache-2.0
// Callables with a custom derivative: custom_gradient, with_derivative, recompute_grad and
// checkpointed. This header is for numbers; autodiff/ extends the same names to tensors. For named
// functions see derivative.h.
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
#include "etude/diff/internal/custom_call.h"
#include "etude/diff/scalar_operators.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Whether the arguments of a call hold no leaves other than numbers.
template <class... X>
inline constexpr bool kOnlyNumbers = (kIsActiveCall<X...> || ScalarArguments<X...> ||
                                      (std::is_same_v<tangent_t<X>, NoTangent> && ...));

// The rule of recompute_grad. It calls f, and its pullback runs f again.
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

// A function with a custom derivative: rule(x...) returns std::pair{value, pullback}. pullback(dy)
// returns the tangent of x for one argument, and a tuple of tangents for several. If the value is a
// tuple of tensors, the pullback is called as pullback(dy...). For Variables see
// autodiff/custom_gradient.h. The rule is called with plain values. A second derivative
// differentiates the bodies of the rule and of the pullback. Forward mode calls the pullback once
// for each number of the result.
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
  CallSite where_;  // for errors of the rule
};
template <class Rule>
auto custom_gradient(Rule rule, CallSite where = CallSite::here()) {
  return CustomGradient<Rule>(std::move(rule), where);
}
// The same with a separate function f, which is called if no derivative is computed.
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

// Returns x. A reverse pass replaces the cotangent of x by hook(cotangent). The hook returns a
// value of the tangent type of x. A hook may print, clip, scale or count cotangents. The hook runs
// once in each reverse pass of a pullback, of vjp and of a gradient. A gradient with respect to at
// most four numbers starts in forward mode, and starts again in reverse mode at a hook. In forward
// mode (jvp) the hook must be linear.
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

// Returns a function like f whose calls store only their arguments. When a cotangent arrives, f
// runs again (rematerialisation). For tensors, the second run has the same random numbers and the
// same values of Variables, and does not assign Variables. Tensors that f captures by value are
// kept and differentiated like arguments. Objects that f captures by reference must stay alive and
// unchanged until the second run.
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

// Runs state = step(i, state) for i = 0 .. n-1. Each block of sqrt(n) steps runs in recompute_grad.
// A derivative stores about 2 sqrt(n) states instead of n, and runs each step once more.
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
