// SPDX-License-Identifier: Apache-2.0
// Makes a program on numbers (number_programs.h) smaller, as long as it fails. Used by
// random_numbers_test.cc.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tests/property/number_programs.h"

namespace etude::programs {

// Change number n of all that make a program smaller, in the order in which it is walked.
class Shrinker {
 public:
  explicit Shrinker(int change) : left_(change) {}

  // False: there are no more.
  bool change(Program& program) {
    if (program.results != Results::kNumber && is_turn()) {
      program.results = Results::kNumber;
      return true;
    }
    return change(program.body);
  }

 private:
  bool is_turn() { return left_-- == 0; }

  bool change(std::vector<Stmt>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto at = list.begin() + static_cast<std::ptrdiff_t>(i);
      if (is_turn()) {
        list.erase(at);
        return true;
      }
      if (!list[i].body.empty() && is_turn()) {
        const std::vector<Stmt> body = std::move(list[i].body);
        list.insert(list.erase(at), body.begin(), body.end());
        return true;
      }
      if (change(list[i])) return true;
    }
    return false;
  }
  bool change(Stmt& s) {
    if (s.settles && is_turn()) {
      s.settles = false;
      return true;
    }
    if (s.kind == Stmt::kFor && s.count > 1 && is_turn()) {
      s.count /= 2;
      return true;
    }
    if (change(s.target) || change(s.second)) return true;
    for (Expr& e : s.args) {
      if (change(e, 0)) return true;
    }
    return change(s.body) || change(s.otherwise);
  }
  bool change(Place& place) {
    if (place.kind == Place::kRegister || !is_turn()) return false;
    place = {Place::kRegister, place.index % kRegisters};
    return true;
  }
  bool change(Expr& e, int depth) {
    if (e.kind == Expr::kPlace && change(e.place)) return true;
    for (std::size_t i = 0; i < e.args.size(); ++i) {
      if (!is_turn()) continue;
      const Expr part = std::move(e.args[i]);
      e = part;
      return true;
    }
    const bool is_leaf = e.kind == Expr::kNumber || e.kind == Expr::kInput;
    if (depth > 0 && !is_leaf && e.kind != Expr::kPlace && is_turn()) {
      e = Expr{Expr::kInput};
      return true;
    }
    if (e.kind == Expr::kNumber && e.number != 1 && is_turn()) {
      e.number = 1;
      return true;
    }
    for (Expr& part : e.args) {
      if (change(part, depth + 1)) return true;
    }
    return false;
  }

  int left_;
};

// `fails(program)` is asked at most so often.
template <class Fails>
Program smallest(Program program, const Fails& fails, int most = 4000) {
  for (int change = 0, asked = 0; asked < most;) {
    Program candidate = program;
    if (!Shrinker(change).change(candidate)) break;
    ++asked;
    if (fails(candidate)) {
      program = std::move(candidate);
      change = 0;
    } else {
      ++change;
    }
  }
  return program;
}

}  // namespace etude::programs
