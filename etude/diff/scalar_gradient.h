// SPDX-License-Identifier: Apache-2.0
// Differential operators on functions of numbers, and of containers and structs of numbers:
//
//   gradient([](auto x, auto y) { return x * y; }, 3.0, 4.0);          // (4, 3)
//   derivative([](auto x) { return sin(x); }, 0.0);                    // 1
//
// The function is generic (auto parameters, a template, structs templated on their scalar) or takes
// Real. An operator calls the function once, with active scalars (reverse mode) or dual numbers
// (forward mode). A gradient in forward mode starts again in reverse mode if the function calls
// with_derivative or makes a tensor from the numbers. All C++ control flow is supported: branches,
// loops, recursion, early returns, mutation, exceptions, standard algorithms. Functions of <cmath>
// may be called with or without std::.
//
// Arguments without a tangent, and arguments wrapped in no_derivative, are excluded from the
// derivative. For one differentiable argument the result is the tangent of the argument. For
// several it is a tuple of tangents. Operators nest: for a derivative of a derivative, call an
// operator inside a differentiated function. An inner function may capture numbers of outer
// derivatives. Its own argument must then be made from a number of the innermost captured
// derivative, not from a plain number.
//
// threads: thread-safe; a derivative is recorded on the thread that computes it.
// cost: reverse mode runs the function once and records 32 bytes for each call on doubles. The
// reverse pass reads the record once. A thread keeps the memory for its next derivative.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/diff/first_calls.h"
#include "etude/diff/internal/tape/scalar_reverse.h"
#include "etude/diff/internal/tape/scalar_runs.h"
#include "etude/diff/refusals.h"
#include "etude/diff/std_functions.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Returns the value of f(x...), which must be one number, and its gradient, computed in one run of
// f. For at most four numbers the gradient uses forward mode. For more numbers, and for functions
// on Real, it uses reverse mode. Reverse mode warns once for each function if the result does not
// depend on an argument (set_diagnostics). An auxiliary value from with_aux is returned too.
//
// throws: exceptions of f. No tape stays active after an exception.
template <class F, class... X>
requires(internal::ScalarArguments<X...> && !internal::gives_plain<F, X...>()) ETUDE_INLINED
    constexpr auto value_with_gradient(const F& f, const X&... x) {
  using From = internal::CommonScalar<X...>;
  constexpr internal::Fault fault = internal::gradient_fault<F, X...>();
  if constexpr (fault != internal::Fault::kNone) {
    static_cast<void>(sizeof(internal::FunctionHasNoDerivative<fault, F, X...>));
    return internal::refused_gradient(x...);
  } else if constexpr ((internal::kIsRaised<From, X> || ...)) {
    return value_with_gradient(f, internal::raised<From>(x)...);
  } else if constexpr (internal::goes_forward<F, X...>()) {
    return internal::forward_gradient(f, x...);
  } else {
    return internal::reverse_gradient(f, x...);
  }
}
template <class F, class... X>
requires(internal::ScalarArguments<X...>&& internal::gives_plain<F, X...>()) [[deprecated(
    "etude: the result does not depend on the differentiated arguments; the gradient is "
    "zero")]] constexpr auto value_with_gradient(const F& f, const X&... x) {
  return internal::plain_gradient(f, x...);
}

// Returns the gradient of f at x....
template <class F, class... X>
requires(internal::ScalarArguments<X...> && !internal::gives_plain<F, X...>()) ETUDE_INLINED
    constexpr auto gradient(const F& f, const X&... x) {
  constexpr internal::Fault fault = internal::gradient_fault<F, X...>();
  if constexpr (fault != internal::Fault::kNone) {
    static_cast<void>(sizeof(internal::FunctionHasNoDerivative<fault, F, X...>));
    return internal::refused_gradient(x...).second;
  } else {
    return value_with_gradient(f, x...).second;
  }
}
template <class F, class... X>
requires(internal::ScalarArguments<X...>&& internal::gives_plain<F, X...>()) [[deprecated(
    "etude: the result does not depend on the differentiated arguments; the gradient is "
    "zero")]] constexpr auto gradient(const F& f, const X&... x) {
  return internal::plain_gradient(f, x...).second;
}

namespace internal {

// Operators on arguments with leaves other than numbers: implemented in autodiff/ for tensors.
template <class... X>
struct OtherGradients;

}  // namespace internal

// Returns a function that computes the gradient of f.
template <class F>
auto gradient(const F& f, CallSite where = CallSite::here()) {
  // A function is held by pointer: references to functions do not match const F& on clang.
  return [f = std::decay_t<const F&>(f), where]<class... X>(const X&... at) {
    if constexpr (internal::ScalarArguments<X...>) {
      return etude::gradient(f, at...);
    } else if constexpr (internal::RefusedArguments<X...>) {
      return internal::kRefused<internal::RefusalOf<X...>>;
    } else {
      return internal::OtherGradients<X...>::gradient(f, where, at...);
    }
  };
}

// Returns x with all numbers as constants for all derivatives that are being computed.
template <class X>
requires(internal::ScalarArguments<X> && !internal::Scalar<X>) X stop_gradient(const X& x) {
  auto stop = [](const auto& v) { return stop_gradient(v); };
  return internal::map_scalars<X>(x, stop);
}

// Maps a cotangent of the result to the cotangents of the arguments. A pullback is self-contained
// and may outlive the arguments. For tensors, it keeps the values that the derivatives read until
// it is destroyed. If a later write to one of these values copies, explain_copy() names the
// pullback.
//
// threads: thread-safe; concurrent calls are allowed.
template <class Run>
class PullbackOf {
 public:
  using Cotangent = tangent_t<typename Run::Result>;
  explicit PullbackOf(std::shared_ptr<Run> run) : run_(std::move(run)) {}

  template <class Other>
  requires(!std::is_convertible_v<const Other&, Cotangent>) auto operator()(const Other&) const
      -> internal::Refused {
    return internal::kRefused<internal::CotangentDoesNotFit<Other, Cotangent>>;
  }
  // throws: kInvalidArgument if the cotangent does not fit the result.
  auto operator()(const Cotangent& cotangent, CallSite where = CallSite::here()) const {
    return run_->pull(cotangent, where);
  }

 private:
  std::shared_ptr<Run> run_;
};

namespace internal {

template <class F, class... X>
auto pulled_scalars(const F& f, const X&... x) {
  using Types = ReverseTypes<F, X...>;
  using To = typename Types::To;
  using T = typename Types::Number;
  if constexpr (!Types::is_usable) {
    static_cast<void>(sizeof(FunctionHasNoDerivative<find_fault<To, F, X...>(), F, X...>));
    return Refused();
  } else if constexpr (!has_pullback<Types, F, X...>()) {
    return kRefused<RefusalOfResult<Types, F, X...>>;
  } else {
    ScalarTape<T> tape;
    const auto result = [&] {
      const RecordingScope<T> scope(tape);
      MakeInputs<To, T> inputs(tape, x...);
      auto lifted = lift_arguments<typename Types::From, To>(inputs, x...);
      auto made = call_with(f, lifted);
      auto check = [&](const auto& leaf) { static_cast<void>(leaf.slot_on(tape)); };
      each_leaf(made, check);  // before outer derivatives become unknown
      return made;
    }();
    auto value = plain_result<To, typename Types::From>(result);
    using R = decltype(value);
    std::vector<uint32_t> slots;
    auto collect = [&](const auto& leaf) { slots.push_back(leaf.slot_on(tape)); };
    each_leaf(result, collect);
    using Run = PulledScalars<T, R, X...>;
    auto run = std::make_shared<const Run>(
        Run{std::move(tape), std::move(slots), value, std::tuple<X...>{x...}});
    return std::pair{std::move(value), PullbackOf(std::move(run))};
  }
}

}  // namespace internal

// Returns the value of f(x...), of any differentiable type, and its pullback.
template <class F, class... X>
requires internal::ScalarArguments<X...>
auto value_with_pullback(const F& f, const X&... x) {
  return internal::pulled_scalars(f, internal::raised<internal::CommonScalar<X...>>(x)...);
}
template <class F, class... X>
requires internal::ScalarArguments<X...>
auto pullback(const F& f, const X&... x) {
  // Like value_with_pullback, with one template less in compiler messages about the body of f.
  return internal::pulled_scalars(f, internal::raised<internal::CommonScalar<X...>>(x)...).second;
}

// Returns the value of f, and the cotangents of the arguments for a cotangent of the value. Several
// arguments are passed as a tuple.
template <class F, class X, class Cotangent>
requires internal::ScalarArguments<X>
auto vjp(const F& f, const X& primals, const Cotangent& cotangent, CallSite = CallSite::here()) {
  if constexpr (internal::IsTuple<X>::value) {
    auto both =
        std::apply([&](const auto&... x) { return etude::value_with_pullback(f, x...); }, primals);
    auto tangents = both.second(cotangent);
    return std::pair{std::move(both.first), std::move(tangents)};
  } else {
    auto both = internal::pulled_scalars(f, primals);
    auto tangents = both.second(cotangent);
    return std::pair{std::move(both.first), std::move(tangents)};
  }
}

}  // namespace etude
