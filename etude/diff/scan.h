// SPDX-License-Identifier: Apache-2.0
// scan: loops with a compiled derivative. The body runs once on symbols, at compile time. The
// derivative of the body is straight-line code. For the reverse pass, a loop stores at most its
// states and the elements of its sequences.
//
//   // Newton's law of cooling, by steps.
//   double cooled(double start, double rate) {
//     const auto step = [](auto heat, auto rate) { return heat - 0.01 * rate * heat; };
//     return scan(1000, start, rate, step);
//   }
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/diff/first_calls.h"
#include "etude/diff/internal/custom_call.h"
#include "etude/diff/internal/scan/scan_checks.h"
#include "etude/diff/internal/scan/scan_rows.h"
#include "etude/diff/internal/scan/scan_sum.h"
#include "etude/diff/internal/tape/scalar_reverse.h"
#include "etude/diff/scan_program.h"
#include "etude/diff/std_functions.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

[[noreturn]] inline void throw_scan_length(std::size_t steps, std::size_t length) {
  throw Error(ErrorCode::kInvalidArgument, "scan: a sequence has " + std::to_string(length) +
                                               " elements for " + std::to_string(steps) +
                                               " steps. Give one for each step");
}

// A loop recorded on a tape: its states, and the numbers that are the same in all steps.
template <class T, class Program, class Sequences>
class ScanCall final : public ScalarNote<T> {
 public:
  static constexpr std::size_t kState = Program::kState, kParams = Program::kParams;
  using State = std::array<T, kState>;

  ScanCall(std::size_t steps, Sequences sequences)
      : count(steps), states(steps + 1), sequences_(std::move(sequences)) {}

  void reverse(std::vector<T>& cotangents) const override {
    using scalar_math::is_exact_zero;
    State ct;
    bool arrived = false;
    for (std::size_t i = 0; i < kState; ++i) {
      ct[i] = std::exchange(cotangents[results[i]], T(0));  // earlier calls may use the slot
      arrived |= !is_exact_zero(ct[i]);
    }
    if (!arrived) return;
    typename Program::template Nodes<T> totals{};
    for (std::size_t step = count; step-- > 0;) {
      typename Program::template Sweep<T> sweep(states[step], fixed, sequences_.row(step));
      std::array<T, Program::kX> of_x;
      sweep.reverse(ct, totals, of_x);
      sequences_.add(step, of_x, cotangents);
    }
    for (std::size_t i = 0; i < kState; ++i) add(cotangents, state_slots[i], ct[i]);
    Program::reverse_fixed(fixed, totals);
    for (std::size_t i = 0; i < kParams; ++i) add(cotangents, param_slots[i], totals[kState + i]);
  }

  const Sequences& sequences() const { return sequences_; }

  std::size_t count;                          // number of steps
  KeptArray<State> states;                    // the state before each step; then the last state
  typename Program::template Nodes<T> fixed;  // values that are the same in all steps
  std::array<uint32_t, kState> state_slots, results;
  std::array<uint32_t, kParams> param_slots;

 private:
  static void add(std::vector<T>& cotangents, uint32_t slot, const T& ct) {
    if (slot != 0) cotangents[slot] += ct;
  }
  Sequences sequences_;
};

// Copies of the sequences of a recorded loop. Each step has a row of plain numbers, and the tape
// slots of the numbers that may vary.
template <class T, class... X>
class ScanSequences {
 public:
  static constexpr std::size_t kAll = (std::size_t{0} + ... + kWidth<X>);
  static constexpr bool kVary = (kMayVary<X> || ...);
  using Row = std::array<T, kAll>;
  using Slots = std::array<uint32_t, kAll>;

  ScanSequences(std::size_t steps, const ScalarTape<T>& tape, const X&... x)
      : rows_(kAll > 0 ? steps : 0), slots_(kVary ? steps : 0) {
    for (std::size_t i = 0; i < (kAll > 0 ? steps : 0); ++i) {
      read(i, tape, rows_[i], slots_.data() + (kVary ? i : 0), x...);
    }
  }
  const Row& row(std::size_t step) const {
    static constexpr Row none{};
    if constexpr (kAll == 0) {
      return none;
    } else {
      return rows_[step];
    }
  }
  void add(std::size_t step, const Row& ct, std::vector<T>& cotangents) const {
    if constexpr (kVary) {
      pass(slots_[step], ct, cotangents.data());
      cotangents[0] = T(0);
    }
  }

 private:
  // The numbers of one step, and the slots of the numbers that may vary.
  [[gnu::always_inline]] static void read(std::size_t step, const ScalarTape<T>& tape, Row& row,
                                          Slots* slots, const X&... x) {
    std::size_t column = 0;
    [[maybe_unused]] const auto one = [&]<class Y>(const Y& y) {
      const auto& element = y[step];
      fill_row(element, row.data() + column);
      if constexpr (kMayVary<Y>) fill_slots(tape, element, slots->data() + column);
      column += kWidth<Y>;
    };
    (one(x), ...);
  }
  // Adds the cotangents of one step to the slots of the numbers that may vary. Slot 0 collects the
  // cotangents of constants; add() clears it.
  [[gnu::always_inline]] static void pass(const Slots& slots, const Row& ct, T* to) {
    std::size_t column = 0;
    [[maybe_unused]] const auto one = [&]<class Y>(std::type_identity<Y>) {
      if constexpr (kMayVary<Y>) {
        for (std::size_t c = column; c < column + kWidth<Y>; ++c) to[slots[c]] += ct[c];
      }
      column += kWidth<Y>;
    };
    (one(std::type_identity<X>()), ...);
  }

  KeptArray<Row> rows_;
  KeptArray<Slots> slots_;
};

template <class Body, class State, class Params, class... X>
using PlainProgram = ScanProgram<Body, ScanVaries<false, (sizeof(X) == 0)...>, State, Params, X...>;

// A loop on active numbers of T.
template <class T, class Body, class State, class Params, class... X>
auto recorded_scan(ScalarTape<T>& tape, std::size_t steps, const State& state, const Params& params,
                   const X&... x) {
  using S = Active<T>;
  using Varies = ScanVaries<kHoldsActive<Params>, kHoldsActive<element_t<X>>...>;
  using Program = ScanProgram<Body, Varies, plain_argument_t<S, State>, plain_argument_t<S, Params>,
                              plain_argument_t<S, element_t<X>>...>;
  if constexpr (Program::kTerms.is_sum) {
    // summed_scan() allocates one cotangent per number on the tape. So the tape must be short, or
    // the loop long.
    if (tape.size() <= 1024 || tape.size() / 16 <= steps)
      return summed_scan<Program>(tape, steps, state, params, x...);
  }
  using Sequences = ScanSequences<T, X...>;
  using Call = ScanCall<T, Program, Sequences>;
  auto call = std::make_unique<Call>(steps, Sequences(steps, tape, x...));
  call->state_slots = slots_of(tape, state);
  call->param_slots = slots_of(tape, params);
  call->fixed = Program::fixed_values(row_of<T>(params));
  const Sequences& rows = call->sequences();
  auto* states = call->states.data();
  states[0] = row_of<T>(state);
  if constexpr (Program::kTerms.is_sum) {  // the steps do not read the state
    T sums[kScanSums] = {states[0][0]};
    for (std::size_t i = 0; i < steps; ++i) {
      const typename Program::template Sweep<T> sweep({sums[i % kScanSums]}, call->fixed,
                                                      rows.row(i));
      states[i] = {T(0)};
      sums[i % kScanSums] = sweep.results()[0];
    }
    states[steps] = {sum_of(sums)};
  } else {
    for (std::size_t i = 0; i < steps; ++i) {
      const typename Program::template Sweep<T> sweep(states[i], call->fixed, rows.row(i));
      states[i + 1] = sweep.results();
    }
  }
  auto out = results_of(tape, plain_argument<S>(state), states[steps], call->results);
  tape.append_note(std::move(call));
  return out;
}

// adds_up(): whether the state is one number and each step only adds a term to it. The result does
// not depend on the scalar type, so the test uses double.
template <class X, class First = typename ScalarIn<X>::type>
struct PlainNumbers : std::type_identity<replace_scalar_t<X, First, double>> {};
template <class X>
struct PlainNumbers<X, void> : std::type_identity<X> {};
template <class Body, class State, class Params, class... X>
constexpr bool adds_up() {
  if constexpr (Scalar<State>) {
    return PlainProgram<Body, double, typename PlainNumbers<Params>::type,
                        typename PlainNumbers<X>::type...>::kTerms.is_sum;
  } else {
    return false;
  }
}

// Whether adds_up() is true and all numbers of the loop are plain numbers of type T.
template <class T, class Body, class State, class Params, class... X>
constexpr bool adds_plain_numbers() {
  const auto is_plain = []<class Y>(std::type_identity<Y>) {
    using First = typename ScalarIn<Y>::type;
    return std::is_void_v<First> || std::is_same_v<First, T>;
  };
  if constexpr (std::is_floating_point_v<T> && std::is_same_v<State, T>) {
    if constexpr (is_plain(std::type_identity<Params>()) &&
                  (is_plain(std::type_identity<X>()) && ...)) {
      return PlainProgram<Body, State, Params, X...>::kTerms.is_sum;
    }
  }
  return false;
}

// Whether P, the type of the third argument of scan, is a body instead of parameters. A body is an
// empty class, such as a lambda, or a class without a tangent, such as a lambda with captures.
// Tuples and reflectable structs are parameters.
template <class P>
inline constexpr bool kIsScanBody = std::is_class_v<P> && !TupleLike<P> && !Reflectable<P> &&
                                    (std::is_empty_v<P> || !HasTangent<P>);

template <class Body>
struct WithoutParams {
  template <class State, class... X>
  constexpr auto operator()(const State& state, std::tuple<>, const X&... x) const {
    return Body{}(state, x...);
  }
};

template <class State, class Params, class Body, class... X>
auto run_scan(std::size_t steps, const State& state, const Params& params, const Body& body,
              const X&... x) {
  [[maybe_unused]] const auto check = [steps](std::size_t length) {
    if (length != steps) throw_scan_length(steps, length);
  };
  (check(std::size(x)), ...);
  using S = DeepestScalar<State, Params, element_t<X>...>;
  using First = typename ScalarIn<State>::type;
  using Moving = replace_scalar_t<State, First, S>;
  const auto by_steps = [&] {
    auto convert = [](const auto& v) { return S(v); };
    Moving at = map_scalars<Moving>(state, convert);
    if constexpr (adds_up<Body, State, Params, element_t<X>...>()) {
      Moving sums[kScanSums] = {at};
      for (std::size_t i = 0; i < steps; ++i) {
        Moving& sum = sums[i % kScanSums];
        sum = body(sum, params, x[i]...);
      }
      return sum_of(sums);
    } else {
      for (std::size_t i = 0; i < steps; ++i) at = body(at, params, x[i]...);
      return at;
    }
  };
  if constexpr (kDepth<S> == 1 && IsActive<S>::value) {
    using T = typename S::Value;
    ScalarTape<T>* tape = ScalarTape<T>::current();
    if (tape != nullptr) {
      return recorded_scan<T, Body>(*tape, steps, state, params, x...);
    }
  }
  if constexpr (adds_plain_numbers<S, Body, State, Params, element_t<X>...>()) {
    return plain_sum<PlainProgram<Body, State, Params, element_t<X>...>>(steps, state, params,
                                                                         x...);
  }
  return by_steps();
}

// Y with symbols in place of its numbers.
template <class Y>
using symbols_t = replace_scalar_t<Y, typename ScalarIn<Y>::type, scalar::Symbol>;
// Instantiates the body for symbols. The type is ill-formed for every result, so the compiler drops
// the overload (first_calls.h).
template <class Body, class... Y>
using FirstStep = typename NoOverload<decltype(std::declval<const Body&>()(
    std::declval<const symbols_t<Y>&>()...))>::type;

}  // namespace internal

template <class State, class Params, class Body, class... X>
requires(!internal::kIsScanBody<Params> &&
         internal::ScanNeeds<Body, State, Params, internal::element_t<X>...>::are_met)
    internal::FirstStep<Body, State, Params, internal::element_t<X>...> scan(std::size_t steps,
                                                                             const State& state,
                                                                             const Params& params,
                                                                             const Body& body,
                                                                             const X&... x);
template <class State, class Body, class... X>
requires(internal::kIsScanBody<Body>&&
             internal::ScanNeeds<Body, State, std::tuple<>, internal::element_t<X>...>::are_met)
    internal::FirstStep<Body, State, internal::element_t<X>...> scan(std::size_t steps,
                                                                     const State& state,
                                                                     const Body&, const X&... x);

// Runs state = body(state, params, x[i]...) for i = 0 .. steps-1 and returns the last state. State,
// parameters and elements are numbers, arrays, pairs, tuples and structs templated on their scalar.
// x are sequences with operator[] and size(), of constants or of differentiable numbers.
//
// The body is generic and captures nothing. The body runs on symbols at compile time. It must
// select with where(condition, a, b) instead of branching on values. Its loops must have constant
// bounds. All functions that it calls must be constexpr.
//
// throws: kInvalidArgument if a sequence does not have `steps` elements.
// cost: a derivative keeps the states and the elements of sequences. The reverse pass runs the body
// and its derivative once for each step. Values that depend on parameters only are computed once. A
// summing loop, in which each step only adds a term to one number, stores nothing for its steps and
// computes several steps at once. In all modes, a summing loop adds to eight partial sums in turn,
// so the last digits of the result differ from a plain loop. A summing loop reads windows
// (windows.h) fastest.
template <class State, class Params, class Body, class... X>
requires(!internal::kIsScanBody<Params>) auto scan(std::size_t steps, const State& state,
                                                   const Params& params, const Body& body,
                                                   const X&... x) {
  using Needs = internal::ScanNeeds<Body, State, Params, internal::element_t<X>...>;
  if constexpr (Needs::are_met) {
    return internal::run_scan(steps, state, params, body, x...);
  } else {
    static_cast<void>(
        sizeof(internal::ScanRefused<Body, State, Params, internal::element_t<X>...>));
    return state;
  }
}

// The same without parameters: state = body(state, x[i]...).
template <class State, class Body, class... X>
requires internal::kIsScanBody<Body>
auto scan(std::size_t steps, const State& state, const Body&, const X&... x) {
  using Needs = internal::ScanNeeds<Body, State, std::tuple<>, internal::element_t<X>...>;
  if constexpr (Needs::are_met) {
    return internal::run_scan(steps, state, std::tuple<>(), internal::WithoutParams<Body>{}, x...);
  } else {
    static_cast<void>(
        sizeof(internal::ScanRefused<Body, State, std::tuple<>, internal::element_t<X>...>));
    return state;
  }
}

}  // namespace etude
