// SPDX-License-Identifier: Apache-2.0
// What programs on numbers (number_programs.h) hold, and how their expressions are evaluated, for
// numbers of any kind. Statements: number_machine.h.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/property/number_calls.h"
#include "tests/property/number_programs.h"

namespace etude::programs {

// What a run decided: branches, rounds, indices, the sides of kinks. Two runs with equal decisions
// went through the same smooth function. Expressions decide in any order: a sum does not see it.
struct Trace {
  uint64_t decisions = 0;
  int steps = 0;
  double largest = 1;  // of the derivatives of what was assigned
  uint64_t assigned = 0;
  double noise = 0;  // by how much all that is assigned moves by itself, up or down

  void add(const void* where, double decision) {
    uint64_t h = reinterpret_cast<uintptr_t>(where) * 31 + static_cast<uint64_t>(steps);
    h = (h ^ std::bit_cast<uint64_t>(decision + 0.0)) * 0x9e3779b97f4a7c15u;
    decisions += (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
  }
};

template <class T>
struct Body {
  T mass, spring;
  std::array<T, 2> position;

  T& at(int i) {
    return i == 0 ? mass : i == 1 ? spring : position[static_cast<std::size_t>(i - 2)];
  }
};

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

  // Not inlined, for the sake of the time that compilers take.
  [[gnu::noinline]] T eval(const Expr& e) {
    switch (e.kind) {
      case Expr::kNumber:
        return T(e.number);
      case Expr::kInput:
        return inputs[static_cast<std::size_t>(e.which)];
      case Expr::kPlace:
        return place(e.place);
      case Expr::kNegate:
        return -eval(e.args[0]);
      case Expr::kArithmeticCall:
        return e.args.size() == 2 ? arithmetic(e) : with_number(e);
      case Expr::kSmooth:
        return smooth(e);
      case Expr::kKinked:
      case Expr::kRounded:
        return kinked(e);
      case Expr::kPair:
        return pair(e);
      case Expr::kKinkedPair:
        return kinked_pair(e);
      case Expr::kChoice:
        return eval(e.args[compare(&e, 0, e.args) ? 2 : 3]);
      case Expr::kCall:
        break;
    }
    return call(e);
  }

  // Results are passed on without a name, which is what leaves them to the next call.
  T arithmetic(const Expr& e) {
    const Expr &a = e.args[0], &b = e.args[1];
    switch (e.which) {
      case 0:
        return eval(a) + eval(b);
      case 1:
        return eval(a) - eval(b);
      case 2:
        return eval(a) * eval(b);
      default:
        return eval(a) / positive(eval(b));
    }
  }
  T with_number(const Expr& e) {
    const Expr& a = e.args[0];
    const double n = e.number;
    const bool first = e.place.index == 0;
    switch (e.which) {
      case 0:
        return first ? n + eval(a) : eval(a) + n;
      case 1:
        return first ? n - eval(a) : eval(a) - n;
      case 2:
        return first ? n * eval(a) : eval(a) * n;
      default:
        return first ? n / positive(eval(a)) : eval(a) / n;
    }
  }

  T smooth(const Expr& e) {
    const auto v = [&] { return eval(e.args[0]); };
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
  T kinked(const Expr& e) {
    const T v = eval(e.args[0]);
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
  T pair(const Expr& e) {
    const auto u = [&] { return eval(e.args[0]); };
    const auto v = [&] { return eval(e.args[1]); };
    const auto two = [&] { return static_cast<int>(e.args.size()); };
    int next = 0;
#define ETUDE_CALL(f, first, second) \
  if (e.which == next++) {           \
    using std::f;                    \
    return f(first, second);         \
  }
    ETUDE_PAIR_CALLS(ETUDE_CALL)
#undef ETUDE_CALL
    return T(0);
  }
  T kinked_pair(const Expr& e) {
    using std::rint, std::trunc;
    const T u = eval(e.args[0]);
    const T v = e.which < 2 ? positive(eval(e.args[1])) : eval(e.args[1]);
    const auto ratio = etude::value_of(u) / etude::value_of(v);
    if (e.which < 2) {
      note(&e, static_cast<double>(e.which == 0 ? trunc(ratio) : rint(ratio)));
    } else {
      note_sign(&e, u - v);
      note_sign(&e.args, u);
      note_sign(&e.which, v);
    }
    int next = 0;
#define ETUDE_CALL(f)      \
  if (e.which == next++) { \
    using std::f;          \
    return f(u, v);        \
  }
    ETUDE_KINKED_PAIR_CALLS(ETUDE_CALL)
#undef ETUDE_CALL
    return T(0);
  }

  T call(const Expr& e) {
    const auto u = [&] { return eval(e.args[0]); };
    const auto v = [&] { return eval(e.args[1]); };
    switch (e.which) {
      case kRecursion:
        return power(u(), 3) - v();
      case kClosure:
        return by_closure(u(), v());
      case kErased:
        return by_function(u(), v());
      case kCustom:
        return custom_gradient(CustomRule())(u(), v());
      case kHook:
        return with_derivative(u(), [](const auto& ct) { return ct; }) * v();
      case kRecompute:
        return recompute_grad(Recomputed())(u(), v());
      case kRule:
        return T(differentiable<&damped>(u(), v()));
      case kJointRule:
        return T(differentiable<&waved>(u(), v()));
      case kInnerDerivative:
        return inner_derivative(u(), v());
      case kInnerGradient:
        return inner_gradient(u(), v());
      case kInnerPullback:
        return inner_pullback(u(), v());
      case kClamp: {
        const T x = u(), high = v();
        note_sign(&e, x + 1.0);
        note_sign(&e.args, std::max(x, T(-1)) - high);
        return std::min(std::max(x, T(-1)), high);
      }
      default:
        return of_array(e);
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
    const T left = eval(args[0]), right = eval(args[1]);
    const bool holds = which == 0   ? left < right
                       : which == 1 ? left > right
                       : which == 2 ? left <= right
                                    : left >= right;
    note(where, holds ? 1 : 0);
    return holds;
  }

  // Keeps numbers small, and records how much they move.
  void settle(const Stmt& s, T& v) {
    const bool wild = v > 6 || v < -6;
    note(&s, wild ? 1 : 0);
    if (wild) v /= 1.0 + 0.0625 * v * v;
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
      d[0] += (mixed >> 40) % 2 == 0 ? trace->noise : -trace->noise;
      v = T(v.value(), d);
    }
  }
  template <class U>
  static double plain(const U& v) {
    return static_cast<double>(etude::value_of(v));
  }

  std::array<T, kInputs> inputs;
  std::array<T, kRegisters> registers;
  std::vector<T> array;
  Body<T> body;
  int count = 0;  // rounds of the innermost loop
  Trace* trace;
};

}  // namespace etude::programs
