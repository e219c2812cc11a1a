// SPDX-License-Identifier: Apache-2.0
// Runs of reverse mode on numbers, for scalar_operators.h: calls a function with active numbers,
// which record on a tape.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/base/internal/type_name.h"
#include "etude/diff/active.h"
#include "etude/diff/internal/explain_type.h"
#include "etude/diff/internal/tape/scalar_runs.h"
#include "etude/diff/internal/tape/scalar_tape.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The number type of the tape, and the argument type for f.
template <class F, class... X>
struct ReverseTypes {
  using From = CommonScalar<X...>;
  static constexpr bool is_generic = kTakes<Active<From>, F, X...>;
  // A function on Real whose arguments are Real already.
  static constexpr bool is_real = !is_generic && IsActive<From>::value;
  static constexpr bool is_usable = is_generic || is_real;
  using To = std::conditional_t<is_real, From, Active<From>>;
  using Number = typename To::Value;
};

// Whether the result of f, which can be recorded, has a tangent.
template <class Types, class F, class... X>
constexpr bool has_pullback() {
  using To = typename Types::To;
  if constexpr (std::is_void_v<ResultOn<To, F, X...>>) {
    return false;
  } else {
    return Differentiable<replace_scalar_t<ResultOn<To, F, X...>, To, typename Types::From>>;
  }
}
template <class Result>
struct ResultDoesNotMove {
  static constexpr bool returns = !std::is_void_v<Result>;
  static_assert(returns,
                "etude: the result type is not Differentiable: this function returns nothing");
  static constexpr bool moves = !returns;
  static_assert(moves,
                "etude: the result type is not Differentiable: integers and texts do not move");
};
// The refusal of a result without a tangent.
template <class Types, class F, class... X>
constexpr auto refusal_of_result() {
  using To = typename Types::To;
  using R = ResultOn<To, F, X...>;
  if constexpr (HoldsRefused<R>) {
    return std::type_identity<RefusedBefore>();
  } else if constexpr (std::is_void_v<R>) {
    return std::type_identity<ResultDoesNotMove<R>>();
  } else {
    using Plain = replace_scalar_t<R, To, typename Types::From>;
    if constexpr (HasTangent<Plain>) {
      return std::type_identity<ResultDoesNotMove<Plain>>();
    } else {
      return refusal_of_type<InResult, Plain>();
    }
  }
}
template <class Types, class F, class... X>
using RefusalOfResult = typename decltype(refusal_of_result<Types, F, X...>())::type;

// Makes a tape the current tape of its thread while alive.
template <class T>
class RecordingScope {
 public:
  explicit RecordingScope(ScalarTape<T>& tape) : tape_(tape) { tape_.start(); }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
  ~RecordingScope() { tape_.stop(); }

 private:
  ScalarTape<T>& tape_;
};

// Cotangents by slot, in memory that the thread reuses.
template <class T>
class Cotangents {
 public:
  explicit Cotangents(std::size_t size) { values().assign(size, T(0)); }
  Cotangents(const Cotangents&) = delete;
  Cotangents& operator=(const Cotangents&) = delete;
  std::vector<T>& values() { return memory_.elements(); }

 private:
  KeptVector<T> memory_;
};

[[noreturn]] inline void throw_second_order() {
  throw Error(ErrorCode::kInvalidArgument,
              "gradient: an argument belongs to an outer derivative, and functions on Real are "
              "differentiated once. Make the inner function generic (auto parameters)");
}

// x as a T. For functions on Real, x may be a Real of a T.
// throws: kInvalidArgument if x depends on an argument of an outer derivative.
template <class T, class S>
T number_as(const S& x) {
  if constexpr (std::is_convertible_v<const S&, T>) {
    return static_cast<T>(x);
  } else {
    if (x.varies()) throw_second_order();
    return x.value();
  }
}

// The inputs of a tape that is recording, in the order of the leaves of the arguments: slots 1, 2,
// ...
template <class To, class T>
struct MakeInputs {
  ScalarTape<T>& tape;
  uint32_t next;  // 0: the tape's next slot

  template <class... X>
  explicit MakeInputs(ScalarTape<T>& on, const X&... x) : tape(on), next(0) {
    if constexpr ((holds_manifold<X>() || ...)) {  // lifting a manifold computes, which uses slots
      std::size_t count = 0;
      CountNumbers numbers{count};
      (static_cast<void>(build_tangent(x, numbers)), ...);
      next = tape.new_inputs(count);
    }
  }
  template <class S>
  To operator()(const S& x) {
    if constexpr (std::is_same_v<S, To>) {
      if (x.varies_around(tape)) throw_second_order();
      return input(x.value());
    } else {
      return input(x);
    }
  }

 private:
  To input(const T& value) {
    return next == 0 ? To::input(value, tape) : To::input(value, tape, next++);
  }
};

[[noreturn]] inline void throw_cotangent_size(std::size_t got, std::size_t needed) {
  throw Error(ErrorCode::kInvalidArgument, "pullback: the cotangent has " + std::to_string(got) +
                                               " numbers, but the result has " +
                                               std::to_string(needed) +
                                               ". Make it with zero_tangent(value)");
}

// The state of a pullback: the tape, and the slots of its results and arguments.
template <class T, class R, class... X>
struct PulledScalars {
  using Result = R;

  auto pull(const tangent_t<R>& cotangent, CallSite /*where*/) const {
    Cotangents<T> cotangents(tape.size());
    std::size_t count = 0;
    const auto number = [&](const auto&) { ++count; };
    each_leaf(cotangent, number);
    if (count != slots.size()) throw_cotangent_size(count, slots.size());
    const uint32_t* slot = slots.data();
    const auto seed = [&](const auto&, const auto& ct) {
      cotangents.values()[*slot++] += number_as<T>(ct);
    };
    named("pullback", [&] { zip_leaves(value, cotangent, seed); });
    cotangents.values()[0] = T(0);
    tape.reverse(cotangents.values());
    return std::apply([&](const X&... x) { return tangents_of(cotangents.values(), 1, x...); },
                      arguments);
  }

  ScalarTape<T> tape;
  std::vector<uint32_t> slots;  // of the numbers of the result
  R value;                      // for the shapes of its cotangents
  std::tuple<X...> arguments;   // for the shapes of their tangents
};

// Warns, once for each function, that the result does not depend on an argument. `last` is the call
// that ended the dependence of a number, if known.
[[gnu::cold, gnu::noinline]] inline void warn_independent(std::string_view function,
                                                          std::size_t argument,
                                                          std::string_view type,
                                                          const char* last = nullptr) {
  const std::string name = "argument " + std::to_string(argument);
  diagnose(diagnostics().independent_result, name + std::string(function), [&] {
    std::string text = "gradient of '";
    text.append(function).append("': the result does not depend on ").append(name).append(" (");
    text.append(type).append("); its gradient is zero");
    if (last != nullptr) text.append("; last dependent value: ").append(last);
    return text.append(". Pass it as no_derivative(x) if that is meant");
  });
}
// Reports each argument that the result does not depend on. `first` is the slot of the first input.
template <class F, class T, class X>
void check_dependence(const ScalarTape<T>& tape, uint32_t result, const std::vector<T>& cotangents,
                      uint32_t& first, std::size_t& argument, const X& x) {
  if constexpr (Differentiable<X>) {
    std::size_t count = 0;
    CountNumbers numbers{count};
    static_cast<void>(build_tangent(x, numbers));
    const uint32_t end = first + static_cast<uint32_t>(count);
    using scalar_math::is_exact_zero;
    bool zero = true;
    for (uint32_t s = first; zero && s < end; ++s) zero = is_exact_zero(cotangents[s]);
    if (zero && count > 0 && !tape.depends(result, first, end))
      warn_independent(type_name<F>(), argument, type_name<X>(), tape.last_end());
    first = end;
  }
  ++argument;
}

// Not inlined: a call is cheap compared with the tape, and compilers would optimise each inlined
// copy again.
template <class F, class... X>
[[gnu::noinline]] auto reverse_gradient(const F& f, const X&... x) {
  using Types = ReverseTypes<F, X...>;
  using T = typename Types::Number;
  using To = typename Types::To;
  ScalarTape<T> tape;
  const auto result = [&] {
    const RecordingScope<T> scope(tape);
    MakeInputs<To, T> inputs(tape, x...);
    auto lifted = lift_arguments<typename Types::From, To>(inputs, x...);
    auto made = call_with(f, lifted);
    static_cast<void>(number_of(made).slot_on(tape));  // before outer tapes become unknown
    return made;
  }();
  const uint32_t slot = number_of(result).slot_on(tape);
  Cotangents<T> cotangents(tape.size());
  cotangents.values()[slot] = T(1);
  tape.reverse(cotangents.values());
  uint32_t first = 1;
  std::size_t argument = 0;
  (check_dependence<F>(tape, slot, cotangents.values(), first, argument, x), ...);
  return std::pair{plain_result<To, typename Types::From>(result),
                   tangents_of(cotangents.values(), 1, x...)};
}

// The reason why f has no gradient at these arguments.
template <class F, class... X>
constexpr Fault gradient_fault() {
  if constexpr (goes_forward<F, X...>()) {
    using To = typename FirstTry<F, X...>::To;
    return kFaultOfResult<ResultOn<To, F, X...>, To>;
  } else if constexpr (fails_forward<F, X...>()) {
    return Fault::kBody;
  } else if constexpr (ReverseTypes<F, X...>::is_usable) {
    using To = typename ReverseTypes<F, X...>::To;
    return kFaultOfResult<ResultOn<To, F, X...>, To>;
  } else {
    return find_fault<typename ReverseTypes<F, X...>::To, F, X...>();
  }
}

}  // namespace internal
}  // namespace etude
