// SPDX-License-Identifier: Apache-2.0
// Loops whose derivative is compiled: scan. The body is run once on symbols while the program is
// compiled; its derivative is straight code then, and a loop keeps nothing but its states.
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
#include "etude/diff/custom_call.h"
#include "etude/diff/scan_program.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The numbers of a structure in a row.
template <class T, std::size_t n>
struct ToRow {
  std::array<T, n>& row;
  std::size_t next = 0;
  template <class S>
  constexpr S operator()(const S& x) {
    row[next++] = T(x);
    return x;
  }
};
template <class T, class X>
constexpr std::array<T, scalar_count<X>()> to_row(const X& x) {
  std::array<T, scalar_count<X>()> row{};
  ToRow<T, scalar_count<X>()> fill{row};
  static_cast<void>(map_scalars<X>(x, fill));
  return row;
}
template <class Body, class State, class Params, class... X>
constexpr void check_scan() {
  static_assert(std::is_empty_v<Body> && std::is_default_constructible_v<Body>,
                "etude: the body of scan must capture nothing; pass what it reads as parameters or "
                "as sequences");
  static_assert(HasTangent<State>,
                "etude: derivative of 'scan' needs Differentiable<State>; State has no tangent "
                "type");
  static_assert(scalar_count<State>() != kUnknownCount && scalar_count<Params>() != kUnknownCount &&
                    ((scalar_count<X>() != kUnknownCount) && ...),
                "etude: scan needs states, parameters and elements with a number of numbers that "
                "their types say; use std::array for std::vector");
}

[[noreturn]] inline void throw_scan_length(std::size_t steps, std::size_t length) {
  throw Error(ErrorCode::kInvalidArgument, "scan: a sequence has " + std::to_string(length) +
                                               " elements for " + std::to_string(steps) +
                                               " steps. Give one for each step");
}

// A recorded loop: its states, and the numbers that all steps read.
template <class T, class Program, class Sequences>
class ScanCall final : public ScalarNote<T> {
 public:
  static constexpr std::size_t kState = Program::kState, kParams = Program::kParams;
  using State = std::array<T, kState>;

  ScanCall(std::size_t steps, Sequences sequences)
      : count(steps),
        states(std::make_unique_for_overwrite<State[]>(steps + 1)),
        sequences_(std::move(sequences)) {}

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
      const auto x = sequences_.row(step);
      typename Program::template Sweep<T> sweep(states[step], fixed, x);
      std::array<T, Program::kX> of_x;
      sweep.reverse(ct, totals, of_x);
      sequences_.add(step, of_x, cotangents);
    }
    for (std::size_t i = 0; i < kState; ++i) add(cotangents, state_slots[i], ct[i]);
    Program::reverse_fixed(fixed, totals);
    for (std::size_t i = 0; i < kParams; ++i) add(cotangents, param_slots[i], totals[kState + i]);
  }

  const Sequences& sequences() const { return sequences_; }

  std::size_t count;                // of steps
  std::unique_ptr<State[]> states;  // before each step, and the last
  typename Program::template Nodes<T> fixed;  // values that are the same in all steps
  std::array<std::uint32_t, kState> state_slots, results;
  std::array<std::uint32_t, kParams> param_slots;

 private:
  static void add(std::vector<T>& cotangents, std::uint32_t slot, const T& ct) {
    if (slot != 0) cotangents[slot] += ct;
  }
  Sequences sequences_;
};

// Sequences by value: the plain numbers of each step in a row, and the slots of those that vary.
template <class T, std::size_t width>
class ScanSequences {
 public:
  template <class... X>
  ScanSequences(std::size_t steps, const ScalarTape<T>& tape, const X&... x) {
    if constexpr (width > 0) {
      rows_.resize(steps);
      for (std::size_t i = 0; i < steps; ++i) {
        std::size_t column = 0;
        (take(tape, i, column, x[i]), ...);
      }
    }
  }
  const std::array<T, width>& row(std::size_t step) const {
    static constexpr std::array<T, width> none{};
    if constexpr (width == 0) {
      return none;
    } else {
      return rows_[step];
    }
  }
  void add(std::size_t step, const std::array<T, width>& ct, std::vector<T>& cotangents) const {
    if (slots_.empty()) return;
    for (std::size_t c = 0; c < width; ++c) {
      if (slots_[step * width + c] != 0) cotangents[slots_[step * width + c]] += ct[c];
    }
  }

 private:
  template <class E>
  void take(const ScalarTape<T>& tape, std::size_t step, std::size_t& column, const E& element) {
    auto each = [&](const auto& v) {
      using V = std::remove_cvref_t<decltype(v)>;
      if constexpr (std::is_same_v<V, Active<T>>) {
        slots_.resize(rows_.size() * width);
        slots_[step * width + column] = v.slot_on(tape);
        rows_[step][column++] = v.value();
      } else {
        rows_[step][column++] = static_cast<T>(v);
      }
      return v;
    };
    static_cast<void>(map_scalars<E>(element, each));
  }
  std::vector<std::array<T, width>> rows_;
  std::vector<std::uint32_t> slots_;
};

template <class T, class X>
auto slots_in(const ScalarTape<T>& tape, const X& x) {
  std::array<std::uint32_t, scalar_count<X>()> slots{};
  std::size_t next = 0;
  auto each = [&](const auto& v) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(v)>, Active<T>>) {
      slots[next] = v.slot_on(tape);
    }
    ++next;
    return v;
  };
  static_cast<void>(map_scalars<X>(x, each));
  return slots;
}

// A loop on active numbers of T, a plain one.
template <class T, class Body, class State, class Params, class... X>
auto recorded_scan(ScalarTape<T>& tape, std::size_t steps, const State& state, const Params& params,
                   const X&... x) {
  using S = Active<T>;
  using Program = ScanProgram<Body, plain_argument_t<S, State>, plain_argument_t<S, Params>,
                              plain_argument_t<S, std::remove_cvref_t<decltype(x[0])>>...>;
  using Sequences = ScanSequences<T, Program::kX>;
  using Call = ScanCall<T, Program, Sequences>;
  auto call = std::make_unique<Call>(steps, Sequences(steps, tape, x...));
  call->state_slots = slots_in(tape, state);
  call->param_slots = slots_in(tape, params);
  const auto plain = plain_argument<S>(state);
  call->fixed = Program::fixed_values(to_row<T>(plain_argument<S>(params)));
  const Sequences& rows = call->sequences();
  auto* states = call->states.get();
  states[0] = to_row<T>(plain);
  for (std::size_t i = 0; i < steps; ++i) {
    const typename Program::template Sweep<T> sweep(states[i], call->fixed, rows.row(i));
    states[i + 1] = sweep.results();
  }
  std::size_t next = 0;
  const auto& last = states[steps];
  auto input = [&](const T&) {
    const S made = S::input(last[next], tape);
    call->results[next++] = made.slot_on(tape);
    return made;
  };
  using Plain = plain_argument_t<S, State>;
  auto out = map_scalars<replace_scalar_t<Plain, T, S>>(plain, input);
  tape.append_note(std::move(call));
  return out;
}

}  // namespace internal

// state = body(state, params, x[i]...) for i = 0 .. steps-1; gives the last one. State, parameters
// and elements are numbers, arrays, pairs, tuples and structs templated on their scalar; x are
// sequences with operator[] and size(), of constants or of numbers that a derivative is taken by.
//
// The body captures nothing and is generic. To have its derivative compiled it is run on symbols:
// it takes no decision by values but with select(condition, a, b), and its loops have constant
// bounds.
//
// throws: kInvalidArgument if a sequence does not have `steps` elements.
// cost: a derivative keeps the states, and the elements of sequences, and goes back with one run of
// the body and of its derivative for each step.
template <class State, class Params, class Body, class... X>
auto scan(std::size_t steps, const State& state, const Params& params, const Body& body,
          const X&... x) {
  internal::check_scan<Body, State, Params, std::remove_cvref_t<decltype(x[0])>...>();
  [[maybe_unused]] const auto check = [steps](std::size_t length) {
    if (length != steps) internal::throw_scan_length(steps, length);
  };
  (check(std::size(x)), ...);
  using S = internal::DeepestScalar<State, Params, std::remove_cvref_t<decltype(x[0])>...>;
  using First = typename internal::FirstScalar<State>::type;
  using Moving = internal::replace_scalar_t<State, First, S>;
  const auto by_steps = [&] {
    auto convert = [](const auto& v) { return S(v); };
    Moving at = internal::map_scalars<Moving>(state, convert);
    for (std::size_t i = 0; i < steps; ++i) at = body(at, params, x[i]...);
    return at;
  };
  if constexpr (internal::kDepth<S> == 1 && internal::IsActive<S>::value) {
    using T = typename S::Value;
    internal::ScalarTape<T>* tape = internal::ScalarTape<T>::current();
    if (tape != nullptr) {
      return internal::recorded_scan<T, Body>(*tape, steps, state, params, x...);
    }
  }
  return by_steps();
}

}  // namespace etude
