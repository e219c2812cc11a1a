// SPDX-License-Identifier: Apache-2.0
// Calls with a custom rule (derivative.h, custom_gradient.h) on active scalars or dual numbers. The
// rule gets plain numbers. Its derivative is recorded on the tape, or multiplied with the
// directions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/diff/internal/tape/scalar_reverse.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Calls with leaves other than numbers; autodiff/ specialises it for tensors.
template <class... X>
struct OtherLeaves;

// The number of nested derivatives that a scalar belongs to.
template <class S>
inline constexpr int kDepth = -1;
template <std::floating_point S>
inline constexpr int kDepth<S> = 0;
template <class T>
inline constexpr int kDepth<Active<T>> = kDepth<T> + 1;
template <class T, std::size_t n, class Tag>
inline constexpr int kDepth<Dual<T, n, Tag>> = kDepth<T> + 1;

// The scalar of the innermost derivative among the numbers of the arguments; void without numbers.
template <class... S>
struct DeepestOf {
  using type = void;
};
template <class S, class... Rest>
struct DeepestOf<S, Rest...> {
  using Other = typename DeepestOf<Rest...>::type;
  using type = std::conditional_t<(kDepth<S> >= kDepth<Other>), S, Other>;
};
template <class... X>
using DeepestScalar = typename DeepestOf<typename ScalarIn<std::remove_cvref_t<X>>::type...>::type;

// Whether a call has an argument of a derivative that is being computed.
template <class... X>
inline constexpr bool kIsActiveCall = (kDepth<DeepestScalar<X...>>) > 0;

// x with each S replaced by its plain value. An x without any S is passed through.
template <class S, class X>
constexpr decltype(auto) plain_argument(const X& x) {
  if constexpr (std::is_same_v<replace_scalar_t<X, S, typename S::Value>, X>) {
    return static_cast<const X&>(x);
  } else {
    auto value = [](const auto& v) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(v)>, S>) {
        return v.value();
      } else {
        return v;
      }
    };
    return map_scalars<replace_scalar_t<X, S, typename S::Value>>(x, value);
  }
}
template <class S, class X>
using plain_argument_t = std::remove_cvref_t<decltype(plain_argument<S>(std::declval<const X&>()))>;

// Calls a pullback and returns the tangents of X.... The pullback adds into zeros, or returns one
// bare tangent or a tuple.
template <class Pull, class R, class... X>
std::tuple<tangent_t<X>...> call_pullback(const Pull& pull, const tangent_t<R>& cotangent,
                                          const std::tuple<X...>& x) {
  if constexpr (std::is_invocable_v<const Pull&, const tangent_t<R>&, tangent_t<X>&...>) {
    std::tuple<tangent_t<X>...> sums = std::apply(
        [](const X&... at) { return std::tuple<tangent_t<X>...>{zero_tangent(at)...}; }, x);
    std::apply([&](auto&... sum) { pull(cotangent, sum...); }, sums);
    return sums;
  } else {
    static_assert(std::is_invocable_v<const Pull&, const tangent_t<R>&>,
                  "etude: the pullback of a rule must take the result's tangent, and either "
                  "return the tangents of the arguments or add them into one reference each");
    using Given = std::decay_t<decltype(pull(cotangent))>;
    if constexpr (IsTuple<Given>::value) {
      return pull(cotangent);
    } else {
      constexpr std::size_t moving = (std::size_t{0} + ... + (Differentiable<X> ? 1 : 0));
      static_assert(moving == 1,
                    "etude: the pullback of a rule with several arguments must return a tuple of "
                    "their tangents");
      Given given = pull(cotangent);
      const auto pick = [&]<class Y>(const Y&) -> tangent_t<Y> {
        if constexpr (Differentiable<Y>) {
          return std::move(given);
        } else {
          return {};
        }
      };
      return std::apply([&](const X&... at) { return std::tuple<tangent_t<X>...>{pick(at)...}; },
                        x);
    }
  }
}

template <class T>
struct TakeSlots {
  const std::vector<T>& cotangents;
  const uint32_t* next;
  template <class Leaf>
  T operator()(const Leaf&) {
    return cotangents[*next++];
  }
};

[[noreturn]] inline void throw_rule_size(std::size_t got, std::size_t needed) {
  throw Error(ErrorCode::kInvalidArgument,
              "the pullback of a rule gave " + std::to_string(got) +
                  " numbers as the tangents of its arguments, which have " +
                  std::to_string(needed) + ". Make them with zero_tangent(x)");
}

// A recorded call: its pullback, and the slots of its numbers on the tape.
template <class T, class R, class Pull, class... X>
class PulledCall final : public ScalarNote<T> {
 public:
  PulledCall(Pull pull, R value, std::tuple<X...> x)
      : pull_(std::move(pull)), value_(std::move(value)), x_(std::move(x)) {}

  void reverse(std::vector<T>& cotangents) const override {
    using scalar_math::is_exact_zero;
    bool arrived = false;
    for (const uint32_t slot : results) arrived |= !is_exact_zero(cotangents[slot]);
    if (!arrived) return;
    TakeSlots<T> take{cotangents, results.data()};
    const auto given = call_pullback<Pull, R, X...>(pull_, build_tangent(value_, take), x_);
    for (const uint32_t slot : results)
      cotangents[slot] = T(0);  // an earlier call may have written it
    std::size_t count = 0;
    auto add = [&](const T& leaf) {
      if (count < arguments.size() && arguments[count] != 0) cotangents[arguments[count]] += leaf;
      ++count;
    };
    std::apply([&](const auto&... each) { (each_leaf(each, add), ...); }, given);
    if (count != arguments.size()) throw_rule_size(count, arguments.size());
  }

  std::vector<uint32_t> results, arguments;

 private:
  Pull pull_;
  R value_;
  std::tuple<X...> x_;
};

// The slots of all numbers of the arguments, in the order of the leaves of their tangents; 0 for a
// number that is a constant of this derivative.
template <class T>
struct CollectSlots {
  const ScalarTape<T>& tape;
  std::vector<uint32_t>& slots;
  void operator()(const Active<T>& leaf) { slots.push_back(leaf.slot_on(tape)); }
  template <class Other>
  void operator()(const Other&) {
    slots.push_back(0);
  }
};

template <class T, class R>
auto as_inputs(const R& value, ScalarTape<T>* tape, std::vector<uint32_t>& slots) {
  auto input = [&](const T& v) {
    if (tape == nullptr) return Active<T>(v);
    const Active<T> made = Active<T>::input(v, *tape);
    slots.push_back(made.slot_on(*tape));
    return made;
  };
  return map_scalars<replace_scalar_t<R, T, Active<T>>>(value, input);
}

// Runs rule(x...), which returns a pair of the value and a pullback, and records the pullback.
template <class T, class Rule, class... X>
auto reverse_custom(const Rule& rule, const X&... x) {
  using S = Active<T>;
  std::tuple<plain_argument_t<S, X>...> plain(plain_argument<S>(x)...);
  auto made = std::apply(rule, plain);
  using R = std::decay_t<decltype(made.first)>;
  using Pull = std::decay_t<decltype(made.second)>;
  ScalarTape<T>* tape = ScalarTape<T>::current();
  std::vector<uint32_t> arguments, results;
  bool varies = false;
  if (tape != nullptr) {
    CollectSlots<T> collect{*tape, arguments};
    (each_leaf(x, collect), ...);
    for (const uint32_t slot : arguments) varies |= slot != 0;
  }
  auto lifted = as_inputs<T>(made.first, varies ? tape : nullptr, results);
  if (varies) {
    auto call = std::make_unique<PulledCall<T, R, Pull, plain_argument_t<S, X>...>>(
        std::move(made.second), std::move(made.first), std::move(plain));
    call->results = std::move(results);
    call->arguments = std::move(arguments);
    tape->append_note(std::move(call));
  }
  return lifted;
}

// A rule with few numbers and a scalar result: the pullback runs at once on the cotangent 1, and
// the resulting partial derivatives are recorded.
template <class T, class R, class... X>
inline constexpr bool kIsStatement = std::is_same_v<R, T> && (Scalar<X> && ...);
template <class T, class Rule, class... X>
Active<T> reverse_statement(const Rule& rule, const X&... x) {
  using S = Active<T>;
  std::tuple<plain_argument_t<S, X>...> plain(plain_argument<S>(x)...);
  auto made = std::apply(rule, plain);
  ScalarTape<T>* tape = ScalarTape<T>::current();
  if (tape == nullptr) return made.first;
  std::array<uint32_t, sizeof...(X)> slots{};
  std::size_t next = 0;
  const auto slot_of = [&]<class Y>(const Y& y) {
    if constexpr (std::is_same_v<Y, S>) slots[next] = y.slot_on(*tape);
    ++next;
  };
  (slot_of(x), ...);
  if (std::all_of(slots.begin(), slots.end(), [](auto s) { return s == 0; })) return made.first;
  using Pull = std::decay_t<decltype(made.second)>;
  const auto slopes = call_pullback<Pull, T, plain_argument_t<S, X>...>(made.second, T(1), plain);
  const uint32_t target = tape->new_slot();
  tape->set(target, T(0), 0);  // an earlier call may have written the slot
  next = 0;
  const auto add = [&](const T& slope) {
    if (slots[next] != 0) tape->add(target, slope, slots[next]);
    ++next;
  };
  std::apply([&](const auto&... each) { (add(T(each)), ...); }, slopes);
  return Active<T>::computed(made.first, *tape, target);
}

// Adds the products of tangent leaves with the derivatives of the arguments' leaves.
template <class S>
struct AddProducts {
  using Derivatives = std::remove_cvref_t<decltype(std::declval<S>().derivatives())>;
  Derivatives& sums;
  template <class Leaf, class D>
  void operator()(const Leaf& leaf, const D& partial) {
    using scalar_math::strong_product;
    if constexpr (std::is_same_v<Leaf, S>) {
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += strong_product(leaf.derivatives()[i], partial);
      }
    }
  }
};
// Pairs the leaves of x with the leaves of a tangent of the plain x.
template <class S>
struct ListLeaves {
  std::vector<typename S::Value>& out;
  template <class D>
  void operator()(const D& leaf) {
    out.push_back(typename S::Value(leaf));
  }
};

// The same for dual numbers: the pullback is called once for each number of the result.
template <class S, class Rule, class... X>
auto forward_custom(const Rule& rule, const X&... x) {
  using T = typename S::Value;
  std::tuple<plain_argument_t<S, X>...> plain(plain_argument<S>(x)...);
  const auto made = std::apply(rule, plain);
  using R = std::decay_t<decltype(made.first)>;
  using Pull = std::decay_t<decltype(made.second)>;
  std::size_t row = 0;
  const auto slopes = [&] {
    std::size_t number = 0;
    auto unit = [&](const auto&) { return T(number++ == row ? 1.0 : 0.0); };
    const auto given = call_pullback<Pull, R, plain_argument_t<S, X>...>(
        made.second, build_tangent(made.first, unit), plain);
    std::vector<T> partials;
    ListLeaves<S> list{partials};
    std::apply([&](const auto&... each) { (each_leaf(each, list), ...); }, given);
    typename AddProducts<S>::Derivatives sums{};
    AddProducts<S> add{sums};
    std::size_t next = 0;
    auto pair = [&](const auto& leaf) {
      if (next < partials.size()) add(leaf, partials[next]);
      ++next;
    };
    (each_leaf(x, pair), ...);
    if (next != partials.size()) throw_rule_size(partials.size(), next);
    ++row;
    return sums;
  };
  auto lift = [&](const T& v) { return S(v, slopes()); };
  return map_scalars<replace_scalar_t<R, T, S>>(made.first, lift);
}

// rule.jvp(x..., dx...) returns the value and its tangent.
template <class S, class Rule, class... X>
auto forward_by_jvp(const Rule& rule, const X&... x) {
  using T = typename S::Value;
  constexpr std::size_t n = std::tuple_size_v<typename AddProducts<S>::Derivatives>;
  const auto along = [&](std::size_t i) {
    const auto tangent = [i]<class Y>(const Y& y) {
      auto direction = [i](const auto& leaf) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, S>) {
          return leaf.derivatives()[i];
        } else {
          return std::remove_cvref_t<decltype(leaf)>(0);
        }
      };
      if constexpr (HasScalar<Y>) {
        return map_scalars<tangent_t<plain_argument_t<S, Y>>>(y, direction);
      } else {
        return NoTangent{};
      }
    };
    return rule.jvp(plain_argument<S>(x)..., tangent(x)...);
  };
  std::array<decltype(along(0)), n> runs = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<decltype(along(0)), n>{along(I)...};
  }
  (std::make_index_sequence<n>());
  using R = std::decay_t<decltype(runs[0].first)>;
  if constexpr (std::is_same_v<R, T>) {
    typename AddProducts<S>::Derivatives slopes{};
    for (std::size_t i = 0; i < n; ++i) slopes[i] = runs[i].second;
    return S(runs[0].first, slopes);
  }
  std::array<std::vector<T>, n> tangents;
  for (std::size_t i = 0; i < n; ++i) {
    ListLeaves<S> list{tangents[i]};
    each_leaf(runs[i].second, list);
  }
  std::size_t number = 0;
  auto lift = [&](const T& v) {
    typename AddProducts<S>::Derivatives slopes{};
    for (std::size_t i = 0; i < n; ++i) slopes[i] = tangents[i].at(number);
    ++number;
    return S(v, slopes);
  };
  return map_scalars<replace_scalar_t<R, T, S>>(runs[0].first, lift);
}

// A call in the mode of its numbers, with the derivative by rule(x...). If the rule is a pure
// function, its partial derivatives may be computed at once.
template <bool is_function, class Rule, class... X>
auto custom_call(const Rule& rule, const X&... x) {
  using S = DeepestScalar<X...>;
  if constexpr (IsActive<S>::value) {
    using T = typename S::Value;
    using R = decltype(rule(plain_argument<S>(x)...).first);
    if constexpr (is_function && kIsStatement<T, R, X...>) {
      return reverse_statement<T>(rule, x...);
    } else {
      return reverse_custom<T>(rule, x...);
    }
  } else {
    return forward_custom<S>(rule, x...);
  }
}

}  // namespace internal
}  // namespace etude
