// SPDX-License-Identifier: Apache-2.0
// The values of programs on numbers (number_programs.h), and the evaluation of their expressions,
// for numbers of any kind. Statements: number_machine.h.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/property/number_calls.h"
#include "tests/property/number_programs.h"

namespace etude::programs {

// The decisions of a run: branches, rounds, indices, the sides of kinks. Two runs with equal
// decisions went through the same smooth function. Expressions decide in any order: a sum does not
// see it.
struct Trace {
  uint64_t decisions = 0;
  int steps = 0;
  double largest = 1;  // of the derivatives of assigned values
  uint64_t assigned = 0;
  double noise = 0;  // by how much all that is assigned moves by itself, up or down

  void add(const void* where, double decision) {
    uint64_t h = reinterpret_cast<uintptr_t>(where) * 31 + static_cast<uint64_t>(steps);
    h = (h ^ std::bit_cast<uint64_t>(decision + 0.0)) * 0x9e3779b97f4a7c15u;
    decisions += (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
  }
};

// Numbers of the oracle (number_oracle.h), which go through no derivative operator.
template <class T>
inline constexpr bool kIsOracle = false;

template <class T>
class Values {
 public:
  Values(const T& x0, const T& x1, const T& x2, Trace* where)
      : inputs{x0, x1, x2},
        registers{x0, x1, x2, T(1)},
        array{x0, x1, x2, 0.5},
        body{x0 * x1, T(2), {x2, x0}},
        trace(where) {}

  void note(const void* where, double decision) const {
    if (trace != nullptr) trace->add(where, decision);
  }
  // Whether v is above, at or below 0.
  void note_sign(const void* where, const T& v) const { note(where, v > 0 ? 1 : v < 0 ? -1 : 0); }

  T& place(const Place& at) {
    const auto i = static_cast<std::size_t>(at.index);
    switch (at.kind) {
      case Place::kRegister:
        return registers[i];
      case Place::kLocal:
        return locals.empty() ? registers[i % kRegisters] : *locals[i % locals.size()];
      case Place::kElement:
        return array[i % array.size()];
      case Place::kElementAtCount:
        return array[(i + static_cast<std::size_t>(count)) % array.size()];
      case Place::kElementAtValue: {
        const int n = std::abs(static_cast<int>(4 * registers[i]));
        note(&at, n);
        return array[static_cast<std::size_t>(n) % array.size()];
      }
      case Place::kField:
        break;
    }
    return body.at(at.index);
  }

  // fn(e), without a copy where e names a number that stays: a place, a constant, a result with a
  // name. Else e is a result without a name, which is left to fn.
  template <class Fn>
  auto with(const Expr& e, const Fn& fn) {
    if (e.kind == Expr::kPlace) return fn(std::as_const(place(e.place)));
    if (e.kind == Expr::kInput) return fn(inputs[static_cast<std::size_t>(e.which)]);
    if (e.kind == Expr::kChoice && is_lasting(e)) {
      return fn(std::as_const(place(e.args[chosen(e)].place)));
    }
    if (e.kind == Expr::kNamed) {
      const T kept = eval(e.args[0]);
      return fn(kept);
    }
    return fn(eval(e));
  }
  // The same as an operand that stays, whatever it is.
  template <class Fn>
  auto with_named(const Expr& e, const Fn& fn) {
    return with(e, [&](const T& v) { return fn(v); });
  }
  static bool is_lasting(const Expr& choice) {
    return choice.args[2].kind == Expr::kPlace && choice.args[3].kind == Expr::kPlace;
  }
  std::size_t chosen(const Expr& choice) { return compare(&choice, 0, choice.args) ? 2 : 3; }

  // Not inlined, for the sake of the time that compilers take.
  [[gnu::noinline]] T eval(const Expr& e) {
    switch (e.kind) {
      case Expr::kNumber:
        return T(e.number);
      case Expr::kInput:
        return inputs[static_cast<std::size_t>(e.which)];
      case Expr::kPlace:
        return place(e.place);
      case Expr::kNamed:
        return eval(e.args[0]);
      case Expr::kNegate:
        return with(e.args[0], [](auto&& v) { return T(-std::forward<decltype(v)>(v)); });
      case Expr::kArithmeticCall:
        return e.args.size() == 2 ? arithmetic(e) : with_number(e);
      case Expr::kSmooth:
        return with_named(e.args[0], [&](const T& v) { return smooth(e, v); });
      case Expr::kKinked:
      case Expr::kRounded:
        return with_named(e.args[0], [&](const T& v) { return kinked(e, v); });
      case Expr::kChoice:
        return eval(e.args[chosen(e)]);
      default:
        break;
    }
    if (e.args.empty()) return of_array(e);
    return with_named(e.args[0], [&](const T& u) {
      return with_named(e.args[1], [&](const T& v) { return of_two(e, u, v); });
    });
  }

  T arithmetic(const Expr& e) {
    return with(e.args[0], [&](auto&& a) {
      return with(e.args[1], [&](auto&& b) {
        return combine<T>(e.which, std::forward<decltype(a)>(a), std::forward<decltype(b)>(b));
      });
    });
  }
  template <class R, class A, class B>
  [[gnu::noinline]] static R combine(int which, A&& a, B&& b) {
    switch (which) {
      case 0:
        return std::forward<A>(a) + std::forward<B>(b);
      case 1:
        return std::forward<A>(a) - std::forward<B>(b);
      case 2:
        return std::forward<A>(a) * std::forward<B>(b);
      case 3:
        return std::forward<A>(a) / positive(b);
      default:
        return std::forward<A>(a) / named(positive(b));
    }
  }
  T with_number(const Expr& e) {
    const double n = e.number;
    const bool first = e.place.index == 0;
    return with(e.args[0], [&](auto&& v) {
      if (e.which == 3 && first) return T(n / positive(v));
      if (e.which == 4) return T(std::forward<decltype(v)>(v) / 1.5);
      if (first) return combine_plain(e.which, n, std::forward<decltype(v)>(v));
      return combine_plain(e.which, std::forward<decltype(v)>(v), n == 0 && e.which == 3 ? 1.5 : n);
    });
  }
  template <class A, class B>
  [[gnu::noinline]] static T combine_plain(int which, A&& a, B&& b) {
    switch (which) {
      case 0:
        return std::forward<A>(a) + std::forward<B>(b);
      case 1:
        return std::forward<A>(a) - std::forward<B>(b);
      case 2:
        return std::forward<A>(a) * std::forward<B>(b);
      default:
        return std::forward<A>(a) / std::forward<B>(b);
    }
  }

  T smooth(const Expr& e, const T& at) {
    const auto v = [&]() -> const T& { return at; };
    int next = 0;
#define ETUDE_CALL(f, argument) \
  if (e.which == next++) {      \
    using std::f;               \
    return f(argument);         \
  }
    ETUDE_SMOOTH_CALLS(ETUDE_CALL)
#undef ETUDE_CALL
    return T(0);
  }
  T kinked(const Expr& e, const T& v) {
    int next = 0;
    if (e.kind == Expr::kKinked) {
      note_sign(&e, v);
#define ETUDE_CALL(f)      \
  if (e.which == next++) { \
    using std::f;          \
    return f(v);           \
  }
      ETUDE_KINKED_CALLS(ETUDE_CALL)
#undef ETUDE_CALL
    }
#define ETUDE_CALL(f)      \
  if (e.which == next++) { \
    using std::f;          \
    const T y = f(v);      \
    note(&e, plain(y));    \
    return y;              \
  }
    ETUDE_ROUNDED_CALLS(ETUDE_CALL)
#undef ETUDE_CALL
    return T(0);
  }
  T of_two(const Expr& e, const T& u, const T& v) {
    if (e.kind == Expr::kCall) return call(e, u, v);
    return e.kind == Expr::kKinkedPair && e.which < 2 ? pair(e, u, positive(v)) : pair(e, u, v);
  }
  void note_sides(const Expr& e, const T& u, const T& v) {
    using etude::value_of;
    using std::rint, std::trunc;
    const auto ratio = value_of(u) / value_of(v);
    if (e.which < 2) {
      note(&e, static_cast<double>(e.which == 0 ? trunc(ratio) : rint(ratio)));
    } else {
      note_sign(&e, u - v);
      note_sign(&e.args, u);
      note_sign(&e.which, v);
    }
  }
  T pair(const Expr& e, const T& first_of, const T& second_of) {
    const auto u = [&]() -> const T& { return first_of; };
    const auto v = [&]() -> const T& { return second_of; };
    const auto two = [&] { return static_cast<int>(e.args.size()); };
    int next = 0;
#define ETUDE_CALL(f, first, second) \
  if (e.which == next++) {           \
    using std::f;                    \
    return f(first, second);         \
  }
    if (e.kind == Expr::kPair) {
      ETUDE_PAIR_CALLS(ETUDE_CALL)
    } else {
      note_sides(e, first_of, second_of);
      ETUDE_KINKED_PAIR_CALLS(ETUDE_CALL)
    }
#undef ETUDE_CALL
    return T(0);
  }

  T call(const Expr& e, const T& u, const T& v) {
    using std::fma, std::lerp;
    switch (e.which) {
      case kRecursion:
        return power(u, 3) - v;
      case kClosure:
        return by_closure(u, v);
      case kErased:
        return by_function(u, v);
      case kPassOn:
        return pass_on(u) * pass_on(pass_on(v));
      case kMean:
        return mean(u, v);
      case kFma:
        return fma(u, v, u);
      case kLerp:
        return lerp(u, v, T(0.25));
      case kClamp: {
        note_sign(&e, u + 1.0);
        note_sign(&e.args, std::max(u, T(-1)) - v);
        return std::min(std::max(u, T(-1)), v);
      }
      default:
        break;
    }
    if constexpr (kIsOracle<T>) {
      return without_operators(e.which, u, v);
    } else {
      return by_rule(e.which, u, v);
    }
  }
  T by_rule(int which, const T& u, const T& v) {
    switch (which) {
      case kCustom:
        return custom_gradient(CustomRule())(u, v);
      case kHook:
        return with_derivative(u, [](const auto& ct) { return ct; }) * v;
      case kRecompute:
        return recompute_grad(Recomputed())(u, v);
      case kRule:
        return T(differentiable<&damped>(u, v));
      case kJointRule:
        return T(differentiable<&waved>(u, v));
      case kInnerDerivative:
        return inner_derivative(u, v);
      case kInnerGradient:
        return inner_gradient(u, v);
      default:
        return inner_pullback(u, v);
    }
  }
  // The results of the calls of rules and operators, written out.
  static T without_operators(int which, const T& u, const T& v) {
    switch (which) {
      case kCustom:
        return u * u * sin(v) + u;
      case kHook:
        return u * v;
      case kRecompute:
        return Recomputed()(u, v);
      case kRule:
        return damped_of(u, v);
      case kJointRule:
        return waved_of(u, v);
      case kInnerDerivative:
        return 2.0 * u * sin(u) + u * u * cos(u) + v;
      case kInnerGradient: {  // of u^2 v (1 + cos v): du v - dv
        const T by_u = 2.0 * u * v * (1.0 + cos(v));
        return by_u * v - u * u * (1.0 + cos(v) - v * sin(v));
      }
      default: {  // of (u v + v - sin u, u v (v - sin u)), with cotangents (1, v) and (u, 0)
        const T w = v - sin(u);
        const T by_u = v - cos(u) + v * (v * w - u * v * cos(u));
        const T by_v = u + 1.0 + v * (u * w + u * v);
        return by_u + by_v * 0.5 - u * (v - cos(u)) * (u * (u + 1.0));
      }
    }
  }
  T of_array(const Expr& e) {
    if (e.which == kAccumulate) return std::accumulate(array.begin(), array.end(), T(0));
    if (e.which == kProduct) {
      return std::inner_product(array.begin(), array.end(), array.begin(), T(0)) * 0.125;
    }
    const auto most = std::max_element(array.begin(), array.end());
    note(&e, static_cast<double>(most - array.begin()));
    return *most;
  }

  bool compare(const void* where, int which, const std::vector<Expr>& args) {
    const bool holds = with_named(args[0], [&](const T& left) {
      return with_named(args[1], [&](const T& right) {
        return which == 0   ? left < right
               : which == 1 ? left > right
               : which == 2 ? left <= right
                            : left >= right;
      });
    });
    note(where, holds ? 1 : 0);
    return holds;
  }

  // Keeps numbers small, and records how much they move.
  void settle(const Stmt& s, T& v) {
    if (s.settles) {
      note(&s, v > 6 || v < -6 ? 1 : 0);
      programs::settle(v);
    }
    if constexpr (requires { v.derivatives(); }) {
      if (trace != nullptr) record(v);
    }
  }

  void record(T& v) {
    auto d = v.derivatives();
    if (trace->noise == 0) {
      for (const auto& e : d) trace->largest = std::max(trace->largest, std::abs(plain(e)));
    } else {
      const uint64_t mixed = ++trace->assigned * 0x9e3779b97f4a7c15u;
      // Of sizes that differ, so that no two cancel.
      const double noise = trace->noise * (1 + static_cast<double>(mixed >> 11) * 0x1p-53);
      d[0] += mixed % 2 == 0 ? noise : -noise;
      v = T(v.value(), d);
    }
  }
  template <class U>
  static double plain(const U& v) {
    using etude::value_of;
    return static_cast<double>(value_of(v));
  }

  std::array<T, kInputs> inputs;
  std::array<T, kRegisters> registers;
  std::vector<T> array;
  Body<T> body;
  std::vector<T*> locals;  // of the blocks around a statement
  int count = 0;           // rounds of the innermost loop
  Trace* trace;
};

}  // namespace etude::programs
