// SPDX-License-Identifier: Apache-2.0
// Calls of a function with a derivative_of, on numbers of derivatives and on plain numbers. Derives
// missing members of the rule from the others. Used by derivative.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/diff/internal/custom_call.h"
#include "etude/diff/internal/override_check.h"
#include "etude/diff/internal/rule_checks.h"
#include "etude/diff/scalar_operators.h"
#include "etude/version.h"

namespace ETUDE_API etude {

template <auto F>
struct RuledFunction;

namespace internal {

// joint as a rule with a pullback: the gradient is computed together with the value.
template <class D>
struct VjpOfJoint {
  template <class... X>
  auto operator()(const X&... x) const {
    std::tuple<tangent_t<X>...> partials{zero_tangent(x)...};
    auto value = std::apply([&](auto&... dx) { return D::joint(x..., dx...); }, partials);
    return std::pair{value, [partials = std::move(partials)](const auto& dy) {
                       auto scale = partials;
                       auto each = [&](auto& leaf) {
                         using scalar_math::strong_product;
                         leaf = strong_product(leaf, std::remove_reference_t<decltype(leaf)>(dy));
                       };
                       each_leaf(scale, each);
                       return scale;
                     }};
  }
};
template <class D>
struct VjpOfRule {
  template <class... X>
  auto operator()(const X&... x) const {
    return D::vjp(x...);
  }
};
template <class D>
struct JvpOfRule {
  template <class... X>
  static auto jvp(const X&... x) {
    return D::jvp(x...);
  }
};
// A reverse rule from a forward rule: one run for each number of the arguments.
template <class D>
struct VjpOfJvp {
  template <class... X>
  auto operator()(const X&... x) const {
    auto value = D::jvp(x..., zero_tangent(x)...).first;
    return std::pair{value, [... x = x](const auto& dy) {
                       std::tuple<tangent_t<X>...> out{zero_tangent(x)...};
                       std::tuple<tangent_t<X>...> along{zero_tangent(x)...};
                       auto each = [&](auto& sum, auto& direction) {
                         direction = 1;
                         const auto dr = std::apply(
                             [&](const auto&... dx) { return D::jvp(x..., dx...).second; }, along);
                         direction = 0;
                         auto add = [&](const auto& a, const auto& b) { sum += a * b; };
                         zip_leaves(dr, dy, add);
                       };
                       zip_leaves(out, along, each);
                       return out;
                     }};
  }
};

// Rules of plain numbers on numbers of an outer derivative: jvp and pull are called as functions
// that have a rule themselves.
template <class D>
concept HasRuledJvp = requires {
  sizeof(derivative_of<&D::jvp>);
};
template <class D>
concept HasRuledPull = requires {
  sizeof(derivative_of<&D::pull>);
};
template <class D>
struct RuledJvp {
  template <class... X>
  static auto jvp(const X&... x) {
    return RuledFunction<&D::jvp>()(x...);
  }
};
template <auto F>
struct VjpOfRuledPull {
  template <class... X>
  auto operator()(const X&... x) const {
    return std::pair{RuledFunction<F>()(x...), [... x = x](const auto& dy) {
                       return RuledFunction<&derivative_of<F>::pull>()(x..., dy);
                     }};
  }
};
template <auto F, class S, class... X>
auto ruled_outer_call(const X&... x) {
  using D = derivative_of<F>;
  if constexpr (IsDual<S>::value && HasRuledJvp<D>) {
    return forward_by_jvp<S>(RuledJvp<D>(), x...);
  } else if constexpr (HasRuledPull<D>) {
    return custom_call<true>(VjpOfRuledPull<F>(), x...);
  } else {
    return custom_call<true>(VjpOfJvp<RuledJvp<D>>(), x...);
  }
}

// Whether a call goes by jvp: one run for each direction. A joint returns all partial derivatives
// by one run.
template <class S, bool has_joint>
inline constexpr bool kGoesByJvp = false;
template <class T, std::size_t n, class Tag, bool has_joint>
inline constexpr bool kGoesByJvp<Dual<T, n, Tag>, has_joint> = n == 1 || !has_joint;
// A call with numbers of a derivative among the arguments.
template <auto F, class... X>
auto ruled_call(const X&... x) {
  require_no_override<F>(x...);
  using D = derivative_of<F>;
  using S = DeepestScalar<X...>;
  constexpr bool by_joint = CallsJoint<D, plain_argument_t<S, X>...>;
  constexpr bool by_vjp = CallsVjp<D, plain_argument_t<S, X>...>;
  constexpr bool by_jvp = CallsJvp<D, plain_argument_t<S, X>...>;
  if constexpr (!has_right_rule<F>()) {
    return kRefused<RefusalOfRule<F, X...>>;
  } else if constexpr (!(by_joint || by_vjp || by_jvp)) {
    if constexpr (!std::floating_point<typename S::Value> && (HasRuledJvp<D> || HasRuledPull<D>)) {
      return ruled_outer_call<F, S>(x...);
    } else {
      static_cast<void>(sizeof(RuleHasNoSecondDerivative<D, X...>));
      return S();
    }
  } else if constexpr (by_jvp && kGoesByJvp<S, by_joint>) {
    return forward_by_jvp<S>(JvpOfRule<D>(), x...);
  } else if constexpr (by_joint && (!by_vjp || (Scalar<X> && ...))) {
    return custom_call<true>(VjpOfJoint<D>(), x...);
  } else if constexpr (by_vjp) {
    return custom_call<true>(VjpOfRule<D>(), x...);
  } else {
    return custom_call<true>(VjpOfJvp<D>(), x...);
  }
}

// A call with tensors: uses the rule like custom_gradient.
template <auto F, class... X>
auto ruled_other_call(const X&... x) {
  require_no_override<F>(x...);
  using D = derivative_of<F>;
  if constexpr (!has_right_rule<F>()) {
    return kRefused<RefusalOfRule<F, X...>>;
  } else if constexpr (!CallsVjp<D, X...> && !CallsJvp<D, X...>) {
    return kRefused<RuleTakesNot<D, X...>>;
  } else {
    return OtherLeaves<X...>::template ruled<D>(F, x...);
  }
}
// Whether F has tensors in its parameters, or is called with tensors if its signature is unknown.
template <auto F, class... X>
constexpr bool takes_other_leaves() {
  if constexpr (HasSignature<decltype(F)>) {
    return holds_other_leaf<typename Signatures<decltype(F)>::Arguments>();
  } else {
    return (holds_other_leaf<X>() || ...);
  }
}
// The same with arguments that convert to the parameters, such as x.at(0) or a Variable.
template <auto F, class... X>
auto ruled_converted_call(const X&... x) {
  if constexpr (HasSignature<decltype(F)>) {
    return [&]<class... A>(std::tuple<A...>*) {
      return ruled_other_call<F>(static_cast<const A&>(x)...);
    }(static_cast<typename Signatures<decltype(F)>::Arguments*>(nullptr));
  } else {
    return ruled_other_call<F>(x...);
  }
}

// Whether the rule itself takes the arguments: plain numbers, and structs that hold them.
template <auto F, class... X>
inline constexpr bool kRuleTakes =
    !(holds_other_leaf<X>() || ...) &&
    (CallsVjp<derivative_of<F>, X...> || CallsJoint<derivative_of<F>, X...> ||
     CallsJvp<derivative_of<F>, X...>);
// The value and a pullback for call_pullback().
template <auto F, class... X>
auto run_rule(const X&... x) {
  require_no_override<F>(x...);
  using D = derivative_of<F>;
  if constexpr (CallsVjp<D, X...>) {
    return D::vjp(x...);
  } else if constexpr (CallsJoint<D, X...>) {
    return VjpOfJoint<D>()(x...);
  } else {
    return VjpOfJvp<D>()(x...);
  }
}
// `by` as a tangent of x; its lengths are checked.
template <class X, class U>
tangent_t<X> fitting_tangent(const char* op, const X& x, const U& by) {
  tangent_t<X> whole = zero_tangent(x);
  if constexpr (!std::is_same_v<tangent_t<X>, NoTangent>) {
    named(op, [&] { etude::move(whole, tangent_t<X>(by)); });
  }
  return whole;
}
// The run of a rule that a PullbackOf holds.
template <class R, class Pull, class... X>
struct RuledRun {
  using Result = R;
  auto pull(const tangent_t<R>& cotangent, CallSite) const {
    return pick_tangents<X...>(call_pullback<Pull, R, X...>(
        back, fitting_tangent("pullback", value, cotangent), arguments));
  }
  Pull back;
  R value;
  std::tuple<X...> arguments;
};
// The value and the tangent, by the rule.
template <auto F, class... X, class... U>
auto ruled_tangent(const std::tuple<const X&...>& x, const std::tuple<const U&...>& by) {
  using D = derivative_of<F>;
  if constexpr ((holds_other_leaf<X>() || ...)) {
    // In autodiff/, found by its arguments.
    return jvp(RuledFunction<F>(), std::tuple<X...>(x), std::tuple<tangent_t<X>...>(by));
  } else if constexpr (CallsJvp<D, X...>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      require_no_override<F>(std::get<I>(x)...);
      return D::jvp(std::get<I>(x)..., fitting_tangent("jvp", std::get<I>(x), std::get<I>(by))...);
    }
    (std::index_sequence_for<X...>());
  } else if constexpr (!kAllLift<Dual<CommonScalar<X...>, 1, RuledFunction<F>>, X...>) {
    return kRefused<RuleNeedsJvp<D, X...>>;
  } else {
    return forward_tangent(RuledFunction<F>(), x, by);
  }
}
template <class R>
inline constexpr R kOneAndZero[] = {R(1), R(0)};
// The Hessian times a direction. A rule of plain numbers has a derivative of pull, or of jvp.
template <auto F, class... X, class... U>
auto ruled_second_tangent(const std::tuple<const X&...>& x, const std::tuple<const U&...>& by) {
  using D = derivative_of<F>;
  if constexpr ((holds_other_leaf<X>() || ...)) {
    return hvp(RuledFunction<F>(), std::tuple<X...>(x), std::tuple<tangent_t<X>...>(by));
  } else if constexpr (kAllLift<Dual<CommonScalar<X...>, 1, RuledFunction<F>>, X...>) {
    return forward_tangent(partial_of(RuledFunction<F>(), x), x, by).second;
  } else if constexpr (HasRuledPull<D>) {
    using R = typename Signatures<decltype(F)>::Result;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return pick_tangents<X...>(
          ruled_tangent<&D::pull>(std::tie(std::get<I>(x)..., kOneAndZero<R>[0]),
                                  std::tie(std::get<I>(by)..., kOneAndZero<R>[1]))
              .second);
    }
    (std::index_sequence_for<X...>());
  } else if constexpr (HasRuledJvp<D>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      using Along = std::tuple<X..., tangent_t<X>...>;
      using Both = std::pair<typename Signatures<decltype(F)>::Result,
                             tangent_t<typename Signatures<decltype(F)>::Result>>;
      const Along at(std::get<I>(x)..., fitting_tangent("hvp", std::get<I>(x), std::get<I>(by))...);
      auto made = std::apply([](const auto&... a) { return run_rule<&D::jvp>(a...); }, at);
      using Pull = std::decay_t<decltype(made.second)>;
      auto all = [&]<class... Y>(std::tuple<Y...>*) {
        return call_pullback<Pull, Both, Y...>(made.second, tangent_t<Both>{0, 1}, at);
      }(static_cast<Along*>(nullptr));
      return pick_tangents<X...>(std::tuple<tangent_t<X>...>(std::get<I>(std::move(all))...));
    }
    (std::index_sequence_for<X...>());
  } else {
    return kRefused<RuleHasNoSecondDerivative<D, X...>>;
  }
}

}  // namespace internal
}  // namespace etude
