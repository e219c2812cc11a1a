// SPDX-License-Identifier: Apache-2.0
// Calls of functions with other numbers than the numbers of the arguments, for scalar_operators.h,
// and the runs of forward mode. Reverse mode is in scalar_reverse.h.
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
#include "etude/diff/internal/function_checks.h"
#include "etude/diff/internal/replace_scalars.h"
#include "etude/diff/operator_arguments.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Whether an argument has plain numbers while another argument has numbers From of an outer
// derivative. Such an argument is converted first, so that its tangent has numbers From.
template <class From, class X>
inline constexpr bool kIsRaised = !std::floating_point<From> && HasScalar<X> &&
                                  !std::is_same_v<replace_scalar_t<X, void, From>, X>;
template <class From, class X>
constexpr decltype(auto) raised(const X& x) {
  if constexpr (kIsRaised<From, X>) {
    auto convert = [](const auto& v) { return From(v); };
    return map_scalars<replace_scalar_t<X, void, From>>(x, convert);
  } else {
    return static_cast<const X&>(x);
  }
}

template <class Values>
struct TakeTangents {
  const Values& values;
  std::size_t next;
  template <class S>
  constexpr tangent_t<S> operator()(const S& x) {
    if constexpr (Scalar<S>) {
      return S(values[next++]);
    } else if constexpr (std::is_same_v<tangent_t<S>, S>) {
      return zero_tangent(x);
    } else {
      static_cast<void>(sizeof(LeafIsErased<S>));
      return build_tangent(zero_tangent(x), *this);
    }
  }
};

// The tangents of x... from the values of their numbers, starting at `first`.
template <class Values, class... X>
constexpr auto tangents_of(const Values& values, std::size_t first, const X&... x) {
  TakeTangents<Values> take{values, first};
  return pick_tangents<X...>(std::tuple<tangent_t<X>...>{build_tangent(x, take)...});
}

// The maximum number of arguments of one forward run: less work than a tape, and no memory.
inline constexpr std::size_t kForwardCount = 4;

template <class... X>
inline constexpr std::size_t kCount = scalar_count<std::tuple<std::remove_cvref_t<X>...>>();
// The tag of dual numbers in a gradient, where the user did not request forward mode.
template <class F, class... X>
struct GradientTag {};
template <class F, class... X>
using GradientDual = Dual<CommonScalar<X...>, kCount<X...>, GradientTag<F, X...>>;
template <class S>
inline constexpr bool kIsGradientDual = false;
template <class T, std::size_t n, class F, class... X>
inline constexpr bool kIsGradientDual<Dual<T, n, GradientTag<F, X...>>> = true;

// Thrown by a call without forward mode on such numbers. The gradient then starts again on a tape.
// The exception carries the function for that, so that programs without such a call do not contain
// it.
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

// The first number type that f is called with.
template <class F, class... X>
struct FirstTry {
  static constexpr bool is_forward = kCount<X...> <= kForwardCount;
  using To = typename std::conditional_t<is_forward, std::type_identity<GradientDual<F, X...>>,
                                         std::type_identity<Active<CommonScalar<X...>>>>::type;
};
template <class F, class... X>
constexpr bool goes_forward() {
  using First = FirstTry<F, X...>;
  return First::is_forward && takes_numbers<typename First::To, F, X...>();
}
// Whether the first call was compiled and the compiler refused the body of f: no other number type
// is tried then.
template <class F, class... X>
constexpr bool fails_forward() {
  using First = FirstTry<F, X...>;
  return First::is_forward && kReaches<typename First::To, F, X...> && !goes_forward<F, X...>();
}

// Number k of the arguments, with the derivative 1 along direction k.
template <class To>
struct MakeUnits {
  std::size_t next = 0;
  constexpr To operator()(const typename To::Value& x) { return To::unit(x, next++); }
};
// The same for number `first` + k; the others have no derivative. A separate type, since the index
// check would slow down straight-line code by a third.
template <class To>
struct MakeSomeUnits {
  std::size_t first = 0, next = 0;
  constexpr To operator()(const typename To::Value& x) { return To::unit(x, next++ - first); }
};

// Converts to the result of make() without a copy: copying an array hides from the compiler which
// of its numbers are 0.
template <class Make>
struct MadeInPlace {
  Make make;
  constexpr operator std::invoke_result_t<const Make&>() const { return make(); }
};
template <class Make>
MadeInPlace(Make) -> MadeInPlace<Make>;

// x... with each number replaced by fn(number). Excluded arguments are converted.
template <class From, class To, class Fn, class... X>
constexpr auto lift_arguments(Fn& fn, const X&... x) {
  const auto lift = [&](const auto& a) {
    using A = std::remove_cvref_t<decltype(a)>;
    if constexpr (IsNoDerivative<A>::value) {
      auto convert = []<class S>(const S& v) {
        return std::conditional_t<std::is_same_v<S, From>, To, S>(v);
      };
      return map_scalars<lifted_t<A, From, To>>(a.value, convert);
    } else {
      return map_scalars<lifted_t<A, From, To>>(a, fn);
    }
  };
  using Out = std::tuple<decltype(lift(x))...>;
  if constexpr (sizeof...(X) == 1 && (IsArray<X>::value && ...)) {
    return Out{MadeInPlace{[&] { return (lift(x), ...); }}};
  } else {
    return Out{lift(x)...};
  }
}

// A result with plain numbers in place of numbers of the derivative.
template <class To, class From, class R>
constexpr auto plain_result(const R& result) {
  auto value = [](const To& v) -> From {
    if constexpr (std::is_same_v<From, To>) {
      return stop_gradient(v);
    } else {
      return v.value();
    }
  };
  return map_scalars<replace_scalar_t<R, To, From>>(result, value);
}
// The number whose gradient is computed: the result, or its part next to an auxiliary value.
template <class Result>
constexpr const auto& number_of(const Result& result) {
  if constexpr (IsWithAux<Result>::value) {
    return number_of(result.value);
  } else {
    return result;
  }
}

// The result of a refused gradient; its use causes no further message.
template <class... X>
constexpr auto refused_gradient(const X&... x) {
  return std::pair{CommonScalar<X...>(),
                   pick_tangents<X...>(std::tuple<tangent_t<X>...>{zero_tangent(x)...})};
}

template <class F, class... X>
ETUDE_INLINED constexpr auto run_forward(const F& f, const X&... x) {
  using To = GradientDual<F, X...>;
  MakeUnits<To> units;
  auto lifted = lift_arguments<CommonScalar<X...>, To>(units, x...);
  const auto result = call_with(f, lifted);
  return std::pair{plain_result<To, typename To::Value>(result),
                   tangents_of(number_of(result).derivatives(), 0, x...)};
}
template <class F, class... X>
ETUDE_INLINED constexpr auto forward_gradient(const F& f, const X&... x) {
  try {
    return run_forward(f, x...);
  } catch (const NeedsTape<GradientDual<F, X...>>& needs) {
    std::optional<decltype(run_forward(f, x...))> out;
    const std::tuple<const X&...> arguments(x...);
    needs.run(&f, &arguments, &out);
    return *std::move(out);
  }
}

template <class From, class R>
inline constexpr bool kIsPlainResult = std::floating_point<R> || std::is_same_v<R, From>;
// Whether f returns a number without derivative, such as a literal.
template <class F, class... X>
constexpr bool gives_plain() {
  using From = CommonScalar<X...>;
  using First = FirstTry<F, X...>;
  if constexpr (takes_numbers<typename First::To, F, X...>()) {
    return kIsPlainResult<From, ResultOn<typename First::To, F, X...>>;
  } else if constexpr (First::is_forward && !fails_forward<F, X...>()) {
    if constexpr (takes_numbers<Active<From>, F, X...>()) {
      return kIsPlainResult<From, ResultOn<Active<From>, F, X...>>;
    }
  }
  return false;
}
// The value of such an f and zeros. Calls f with numbers of the derivative, so that a body with a
// declared result of double is compiled with them.
template <class F, class... X>
constexpr auto plain_gradient(const F& f, const X&... x) {
  using From = CommonScalar<X...>;
  using First = FirstTry<F, X...>;
  using To = std::conditional_t<takes_numbers<typename First::To, F, X...>(), typename First::To,
                                Active<From>>;
  auto constant = [](const auto& v) { return To(From(v)); };
  auto lifted = lift_arguments<From, To>(constant, x...);
  return std::pair{From(call_with(f, lifted)),
                   pick_tangents<X...>(std::tuple<tangent_t<X>...>{zero_tangent(x)...})};
}

// Numbers with derivatives from a tangent, in order.
template <class To>
struct MakeDuals {
  const std::vector<typename To::Value>& directions;
  std::size_t next = 0;
  constexpr To operator()(const typename To::Value& x) { return To(x, {directions[next++]}); }
};

template <class Dual, class R>
constexpr auto split_dual(const R& result) {
  using T = typename Dual::Value;
  auto derivative = [](const Dual& v) { return v.derivatives()[0]; };
  return std::pair{plain_result<Dual, T>(result),
                   map_scalars<replace_scalar_t<R, Dual, T>>(result, derivative)};
}

// Whether f takes numbers, including functions that support only reverse mode or cannot be
// differentiated. A function of a type that a number converts to is left to other operators.
template <class F, class X>
inline constexpr bool kTakesNumbers = kTakes<Dual<X, 1, F>, F, X> ||
                                      takes<F, Active<X>>() != Takes::kNo
                                      || takes<F, Exact<X>>() != Takes::kNo;

template <class F, class... X>
struct GoesNotForward {
  static constexpr bool is_generic = sizeof...(X) == 0;
  static_assert(is_generic,
                "etude: forward mode needs a generic function (auto parameters, or a struct "
                "templated on its scalar)");
};
// The refusal of an f without forward mode.
template <class To, class F, class... X>
constexpr auto refusal_of_forward() {
  if constexpr (kReaches<To, F, X...> || !kReaches<Active<CommonScalar<X...>>, F, X...>) {
    return std::type_identity<FunctionHasNoDerivative<find_fault<To, F, X...>(), F, X...>>();
  } else {
    return std::type_identity<GoesNotForward<F, X...>>();
  }
}
template <class To, class F, class... X>
using RefusalOfForward = typename decltype(refusal_of_forward<To, F, X...>())::type;

}  // namespace internal
}  // namespace etude
