// SPDX-License-Identifier: Apache-2.0
// Runs programs on numbers (number_programs.h) of any kind: plain, active, dual, nested. Numbers
// are used as in plain C++: expressions pass results on, statements change places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/property/number_values.h"

namespace etude::programs {

enum class Flow { kNext, kBreak, kContinue, kReturn };

// A block of statements as a function of the array.
struct Block {
  const std::vector<Stmt>* statements;
  Trace* trace;
  template <class T>
  std::vector<T> operator()(const std::vector<T>& array) const;
};

template <class T>
class Machine {
 public:
  Machine(const T& x0, const T& x1, const T& x2, Trace* trace) : values_(x0, x1, x2, trace) {}

  std::vector<T> run(const Program& program) {
    run(program.body);
    std::vector<T> out;
    if (returned_) out.push_back(*returned_);
    const Results results = program.results;
    if (results == Results::kNumber) out.push_back(values_.registers[0]);
    if (results == Results::kRegisters || results == Results::kAll) {
      for (const T& r : values_.registers) out.push_back(r);
    }
    if (results == Results::kAll) {
      for (int i = 0; i < kFields; ++i) out.push_back(values_.body.at(i));
    }
    if (results == Results::kArray || results == Results::kAll) {
      out.insert(out.end(), values_.array.begin(), values_.array.end());
    }
    return out;
  }
  // The array that statements make of another one.
  std::vector<T> run(const std::vector<Stmt>& statements, const std::vector<T>& array) {
    values_.array = array;
    run(statements);
    return std::move(values_.array);
  }

 private:
  static constexpr int kMostSteps = 1000;
  static constexpr std::size_t kMostElements = 10;

  void update(const Stmt& s, T& target, const Expr& e) {
    values_.with(e, [&](auto&& v) { update_by(s.which, target, std::forward<decltype(v)>(v)); });
  }
  template <class V>
  [[gnu::noinline]] static void update_by(int which, T& target, V&& v) {
    if (which == 0) target += std::forward<V>(v);
    if (which == 1) target -= std::forward<V>(v);
    if (which == 2) target *= std::forward<V>(v);
    if (which == 3) target /= positive(v);
    if (which == 4) target /= named(positive(v));
  }

  void run_on_place(const Stmt& s) {
    T& target = values_.place(s.target);
    T& second = values_.place(s.second);
    switch (s.kind) {
      case Stmt::kSet:
        target = values_.eval(s.args[0]);
        break;
      case Stmt::kUpdate:
        update(s, target, s.args[0]);
        break;
      case Stmt::kItself:
        update_by(s.which, target, std::as_const(target));
        break;
      case Stmt::kStep:
        s.which == 0 ? ++target : --target;
        break;
      case Stmt::kFork: {
        const T before = target;
        update(s, target, s.args[0]);
        second += before;
        break;
      }
      case Stmt::kMove: {
        T next = values_.eval(s.args[0]);
        T taken = std::move(target);
        target = std::move(next);
        second = std::move(taken);
        break;
      }
      case Stmt::kTake:
        take(s, target, second);
        break;
      case Stmt::kPass:
        pass(s, target, second);
        break;
      default:
        std::swap(target, second);
    }
    values_.settle(s, target);
    values_.settle(s, second);
  }
  // `taken` gets a new value afterwards; args[0] does not read it.
  void take(const Stmt& s, T& target, T& taken) {
    T next = values_.eval(s.args[1]);
    values_.with(s.args[0], [&](auto&& v) {
      using V = decltype(v);
      if (s.count == 0) target = combine(s, std::move(taken), std::forward<V>(v));
      if (s.count == 1) target = combine(s, std::forward<V>(v), std::move(taken));
      if (s.count == 2) target = std::move(taken) * 0.5 + std::forward<V>(v);
      if (s.count == 3) update_by(s.which, target, std::move(taken));
      if (s.count == 4) target = combine(s, std::move(taken), std::as_const(taken));
    });
    taken = std::move(next);
  }
  template <class A, class B>
  static T combine(const Stmt& s, A&& a, B&& b) {
    return Values<T>::template combine<T>(s.which, std::forward<A>(a), std::forward<B>(b));
  }
  void pass(const Stmt& s, T& target, T& second) {
    if (s.which == 0) trade(target, second, values_.eval(s.args[0]));
    if (s.which == 1) turn(target, second, values_.eval(s.args[0]));
    if (s.which == 2) {
      values_.with_named(s.args[0], [&](const T& v) { gather(target, second, v); });
    }
  }

  Flow run_declare(const Stmt& s) {
    if (s.which == 0) {
      T made = values_.eval(s.args[0]);
      return run_with(made, s);
    }
    if (s.which == 1) {
      T made = s.args[1].number;
      values_.with(s.args[0],
                   [&](auto&& v) { update_by(s.count, made, std::forward<decltype(v)>(v)); });
      return run_with(made, s);
    }
    T& place = values_.place(s.second);
    if (s.which == 2) return run_with(place, s);
    T taken = std::move(place);
    place = s.args[1].number;
    return run_with(taken, s);
  }
  // A block with one more local. Exceptions end it as well.
  Flow run_with(T& local, const Stmt& s) {
    struct Scope {
      std::vector<T*>& locals;
      ~Scope() { locals.pop_back(); }
    };
    values_.locals.push_back(&local);
    const Scope scope{values_.locals};
    return run(s.body);
  }

  void run_append(const Stmt& s) {
    if (values_.array.size() >= kMostElements) return;
    if (s.which == 0) values_.array.push_back(values_.eval(s.args[0]));
    if (s.which == 1) values_.array.push_back(values_.array[0]);
    if (s.which == 2) values_.array.insert(values_.array.begin(), values_.eval(s.args[0]));
  }
  void run_remove(const Stmt& s) {
    if (s.which == 2) values_.array.resize(3);
    if (values_.array.size() < 3) return;
    if (s.which == 0) values_.array.pop_back();
    if (s.which == 1) values_.array.erase(values_.array.begin());
  }
  void run_copy(const Stmt& s) {
    const Expr& e = s.args[0];
    if (s.which == 0) {
      auto b = values_.array;
      values_.array[0] *= values_.eval(e);
      b[1] += values_.array[0];
      std::swap(values_.array, b);
    } else if (s.which == 1) {
      const T by = values_.eval(e);
      auto b = std::move(values_.array);
      b[0] -= by;
      values_.array = b;
    } else if (s.which == 2) {
      auto t = values_.body;
      values_.body.mass /= positive(values_.eval(e));
      t.spring += values_.body.mass;
      values_.body = t;
    } else {
      const T by = values_.eval(e);
      auto t = std::move(values_.body);
      t.position[0] += by;
      values_.body = std::move(t);
    }
  }
  void run_algorithm(const Stmt& s) {
    const auto begin = values_.array.begin(), end = values_.array.end();
    if (s.which < 2 || s.which == 9) note_order(s);
    switch (s.which) {
      case 0:
        return std::sort(begin, end);
      case 1:
        return std::sort(begin, end, [](const T& a, const T& b) { return a > b; });
      case 2:
        return std::reverse(begin, end);
      case 3:
        std::rotate(begin, begin + 1, end);
        return;
      case 4:
        std::partial_sum(begin, end, begin);
        return;
      case 5:
        std::adjacent_difference(begin, end, begin);
        return;
      case 6:
        std::transform(begin, end, begin, [](const T& v) { return v * v; });
        return;
      case 7:
        for (T& v : values_.array) v *= 0.5;
        return;
      case 8:
        return std::iter_swap(begin, end - 1);
      default:
        return std::nth_element(begin, begin + 1, end);
    }
  }

  void note_order(const Stmt& s) {
    const std::vector<T>& a = values_.array;
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        values_.note(&s, static_cast<double>(100 * i + 10 * j) + (a[i] < a[j] ? 1 : 0));
      }
    }
  }
  void run_on_array(const Stmt& s) {
    if (s.kind == Stmt::kAppend) run_append(s);
    if (s.kind == Stmt::kRemove) run_remove(s);
    if (s.kind == Stmt::kCopy) run_copy(s);
    if (s.kind == Stmt::kAlgorithm) run_algorithm(s);
    if (s.kind == Stmt::kBlock) run_block(s);
    if (s.kind == Stmt::kStruct) {
      values_.body = {values_.eval(s.args[0]),
                      values_.eval(s.args[1]),
                      {values_.body.mass, values_.body.spring}};
    }
    for (T& v : values_.array) values_.settle(s, v);
    for (int i = 0; i < kFields; ++i) values_.settle(s, values_.body.at(i));
  }
  // A plain run makes the decisions, and a run by operators shows the noise of rounding. Later runs
  // record nothing.
  void run_block(const Stmt& s) {
    if constexpr (kIsOracle<T>) {
      values_.array = Block{&s.body, values_.trace}(values_.array);
      if (s.which == 2) values_.array = Block{&s.body, nullptr}(values_.array);
    } else {
      run_by_operator(s);
    }
  }
  void run_by_operator(const Stmt& s) {
    if (values_.trace != nullptr) {
      std::vector<decltype(etude::value_of(std::declval<T>()))> plain;
      for (const T& v : values_.array) plain.push_back(etude::value_of(v));
      Block{&s.body, values_.trace}(plain);
      Trace inner = *values_.trace;
      auto moved = Block{&s.body, &inner}(values_.array);
      values_.trace->largest = inner.largest;
      if (inner.noise != 0) return values_.array.swap(moved);
    }
    const Block block{&s.body, nullptr};
    const auto rule = [block](const auto& a) { return value_with_pullback(block, a); };
    const auto step = [block](std::size_t, const auto& a) { return block(a); };
    std::vector<T>& array = values_.array;
    if (s.which == 0) array = recompute_grad(block)(array);
    if (s.which == 1) array = custom_gradient(block, rule)(array);
    if (s.which == 2) array = checkpointed(2, array, step);
  }

  Flow run(const std::vector<Stmt>& statements) {
    for (const Stmt& s : statements) {
      if (++steps_ > kMostSteps) return Flow::kReturn;
      if (values_.trace != nullptr) ++values_.trace->steps;
      const Flow flow = run(s);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }
  Flow run(const Stmt& s) {
    if (s.kind <= Stmt::kPass) {
      run_on_place(s);
    } else if (s.kind <= Stmt::kAlgorithm || s.kind == Stmt::kBlock) {
      run_on_array(s);
    } else if (s.kind == Stmt::kFor || s.kind == Stmt::kForByValue || s.kind == Stmt::kWhile) {
      return run_loop(s);
    } else if (s.kind == Stmt::kDeclare) {
      return run_declare(s);
    } else if (s.kind == Stmt::kTry) {
      return run_try(s);
    } else {
      return run_if(s);
    }
    return Flow::kNext;
  }
  Flow run_if(const Stmt& s) {
    const bool holds = values_.compare(&s, s.which, s.args);
    if (s.kind == Stmt::kIf) return run(holds ? s.body : s.otherwise);
    if (!holds) return Flow::kNext;
    if (s.kind == Stmt::kBreak) return Flow::kBreak;
    if (s.kind == Stmt::kContinue) return Flow::kContinue;
    if (s.kind == Stmt::kThrow) throw Thrown<T>{values_.eval(s.args[2])};
    returned_ = values_.eval(s.args[2]);
    return Flow::kReturn;
  }
  Flow run_try(const Stmt& s) {
    const int count = values_.count;
    try {
      return run(s.body);
    } catch (const Thrown<T>& thrown) {
      values_.note(&s, 1);
      values_.count = count;
      values_.place(s.target) = thrown.value;
      return run(s.otherwise);
    }
  }
  // Whether a loop goes on.
  bool goes_on(const Stmt& s, int rounds) {
    bool holds = values_.count < rounds;
    if (s.kind == Stmt::kWhile) holds = holds && values_.place(s.target) < 2;
    values_.note(&s, holds ? 1 : 0);
    return holds;
  }
  Flow run_loop(const Stmt& s) {
    int rounds = 4;
    if (s.kind == Stmt::kFor) rounds = s.count;
    if (s.kind == Stmt::kForByValue) {
      rounds = std::abs(static_cast<int>(8 * small(values_.eval(s.args[0])))) % 4;
    }
    const int outer = std::exchange(values_.count, 0);
    Flow flow = Flow::kNext;
    for (; goes_on(s, rounds); ++values_.count) {
      flow = run(s.body);
      if (flow == Flow::kBreak || flow == Flow::kReturn) break;
      if (s.kind != Stmt::kWhile) continue;
      values_.place(s.target) += positive(values_.eval(s.args[0]));
      values_.settle(s, values_.place(s.target));
    }
    values_.count = outer;
    return flow == Flow::kReturn ? flow : Flow::kNext;
  }

  Values<T> values_;
  std::optional<T> returned_;
  int steps_ = 0;
};

template <class T>
std::vector<T> Block::operator()(const std::vector<T>& array) const {
  return Machine<T>(array[0], array[0], array[0], trace).run(*statements, array);
}

}  // namespace etude::programs
