// SPDX-License-Identifier: Apache-2.0
// Makes up programs on numbers (number_programs.h): program n is made from seed n alone. Used by
// random_numbers_test.cc.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/property/number_programs.h"

namespace etude::programs {

class Maker {
 public:
  explicit Maker(uint64_t seed) : engine_(seed) {}

  Program program() {
    Program out;
    out.body = block(3, 6 + below(10), {});
    out.results = static_cast<Results>(below(4));
    return out;
  }
  // A number within 2 of 0 that no program's constant equals.
  double input() { return static_cast<double>(engine_() >> 11) * 0x1p-53 * 4 - 2; }
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

 private:
  // The surroundings of a statement, which decide its possible kinds.
  struct Around {
    bool loop = false, handler = false, block = false;
    int loops = 0;
  };

  double constant() { return (below(17) - 8) * 0.25; }

  // A place, but none that is banned or may be another name of it.
  Place place() {
    for (;;) {
      const Place made = any_place();
      const bool by_name = made.kind == Place::kRegister || made.kind == Place::kElementAtValue;
      const bool is_banned = made.kind == Place::kLocal || (by_name && made.index == banned_);
      if (banned_ < 0 || !is_banned) return made;
    }
  }
  Place any_place() {
    const int kind = below(100);
    if (locals_ > 0 && kind < 30) return {Place::kLocal, below(locals_)};
    if (kind < 60) return {Place::kRegister, below(kRegisters)};
    if (kind < 70) return {Place::kElement, below(4)};
    if (kind < 78) return {Place::kElementAtCount, below(3)};
    if (kind < 84) return {Place::kElementAtValue, below(kRegisters)};
    return {Place::kField, below(kFields)};
  }
  // A place that no statement moves to other memory.
  Place lasting_place() {
    const Place made = place();
    return made.kind == Place::kField || made.kind == Place::kLocal
               ? made
               : Place{Place::kRegister, below(kRegisters)};
  }

  Expr of(Expr::Kind kind, std::size_t choices, std::vector<Expr> args) {
    Expr out{kind};
    out.which = below(static_cast<int>(choices));
    out.args = std::move(args);
    return out;
  }
  Expr leaf() {
    Expr out{Expr::kPlace};
    const int kind = below(100);
    if (kind < 15) {
      out.kind = Expr::kNumber;
      out.number = constant();
      if (chance(30)) return of(Expr::kNamed, 1, {out});
    } else if (kind < 25) {
      out.kind = Expr::kInput;
      out.which = below(kInputs);
    } else {
      out.place = place();
    }
    return out;
  }
  Expr arithmetic(int depth) {
    if (chance(75)) return of(Expr::kArithmeticCall, 5, {expr(depth), expr(depth)});
    Expr out = of(Expr::kArithmeticCall, 4, {expr(depth)});
    out.place.index = below(2);
    out.number = constant();
    if (out.which == 3 && out.place.index == 1) out.number = 1.5;
    return out;
  }
  Expr expr(int depth) {
    const int kind = below(100);
    if (depth <= 0 || kind < 20) return leaf();
    --depth;
    if (kind < 57) return arithmetic(depth);
    if (kind < 60) return of(Expr::kNegate, 1, {expr(depth)});
    if (kind < 64) return of(Expr::kNamed, 1, {expr(depth)});
    if (kind < 76) return of(Expr::kSmooth, kSmoothCalls, {expr(depth)});
    if (kind < 78) return of(Expr::kKinked, kKinkedCalls, {expr(depth)});
    if (kind < 79) return of(Expr::kRounded, kRoundedCalls, {expr(depth)});
    if (kind < 84) return of(Expr::kPair, kPairCalls, {expr(depth), expr(depth)});
    if (kind < 87) return of(Expr::kKinkedPair, kKinkedPairCalls, {expr(depth), expr(depth)});
    if (kind < 90) return of(Expr::kChoice, 1, {leaf(), leaf(), expr(depth), expr(depth)});
    Expr out = of(Expr::kCall, kCalls, {expr(depth), expr(depth)});
    if (out.which >= kAccumulate) out.args.clear();
    return out;
  }
  Expr constant_expr() {
    Expr out;
    out.number = constant();
    return out;
  }

  std::vector<Stmt> block(int depth, int count, const Around& around) {
    std::vector<Stmt> out;
    for (int i = 0; i < count; ++i) out.push_back(statement(depth, around));
    return out;
  }

  Stmt made(Stmt::Kind kind, int choices, std::vector<Expr> args) {
    Stmt out{kind};
    out.which = below(choices);
    out.target = place();
    out.second = place();
    out.args = std::move(args);
    return out;
  }
  Stmt statement(int depth, const Around& around) {
    const int kind = below(100);
    if (depth > 0 && kind < 30) return control(depth - 1, around);
    if (kind < 42) return made(Stmt::kSet, 1, {expr(3)});
    if (kind < 58) return made(Stmt::kUpdate, 5, {expr(3)});
    if (kind < 61) return made(Stmt::kItself, 5, {});
    if (kind < 64) return made(Stmt::kStep, 2, {});
    if (kind < 69) return made(Stmt::kFork, 5, {expr(2)});
    if (kind < 72) return made(Stmt::kMove, 1, {expr(2)});
    if (kind < 77) return take();
    if (kind < 80) return made(Stmt::kSwap, 1, {});
    if (kind < 84) return made(Stmt::kPass, 3, {expr(2)});
    if (kind < 87) return made(Stmt::kAppend, 3, {expr(2)});
    if (kind < 89) return made(Stmt::kRemove, 3, {});
    if (kind < 92) return made(Stmt::kCopy, kCopies, {expr(2)});
    if (kind < 94) return made(Stmt::kStruct, 1, {expr(2), expr(1)});
    if (kind < 96) return made(Stmt::kAlgorithm, kAlgorithms, {});
    return leaves(around);
  }
  // The operand that is taken appears once.
  Stmt take() {
    banned_ = below(kRegisters);
    Stmt out = made(Stmt::kTake, 5, {expr(2), expr(1)});
    out.second = {Place::kRegister, banned_};
    banned_ = -1;
    out.count = below(5);
    return out;
  }
  Stmt declare(int depth, const Around& around) {
    Stmt out = made(Stmt::kDeclare, 4, {expr(2), constant_expr()});
    out.count = below(4);
    out.second = lasting_place();
    ++locals_;
    out.body = block(depth, 1 + below(4), around);
    --locals_;
    return out;
  }
  // A statement that may leave its loop, handler or block.
  Stmt leaves(const Around& around) {
    const int kind = below(100);
    if (around.handler && kind < 50) return made(Stmt::kThrow, 4, {expr(1), leaf(), expr(2)});
    if (around.loop && kind < 70) return made(Stmt::kBreak, 4, {expr(1), leaf()});
    if (around.loop) return made(Stmt::kContinue, 4, {expr(1), leaf()});
    if (around.block || kind < 50) return made(Stmt::kUpdate, 5, {expr(2)});
    return made(Stmt::kReturn, 4, {expr(1), leaf(), expr(2)});
  }
  Stmt control(int depth, Around around) {
    const int kind = below(100);
    const int length = 1 + below(3);
    if (kind < 25) return declare(depth, around);
    if (kind < 45 || (kind < 75 && around.loops == 2)) {
      Stmt out = made(Stmt::kIf, 4, {expr(1), leaf()});
      out.body = block(depth, length, around);
      if (chance(50)) out.otherwise = block(depth, 1 + below(2), around);
      return out;
    }
    if (kind < 75) {
      const auto form = kind < 60 ? Stmt::kFor : kind < 68 ? Stmt::kForByValue : Stmt::kWhile;
      Stmt out = made(form, 1, {expr(1)});
      const bool is_long = form == Stmt::kFor && around.loops == 0 && chance(15);
      out.count = is_long ? 20 + below(400) : below(5);
      around.loop = true;
      ++around.loops;
      out.body = block(is_long ? 0 : depth, length, around);
      return out;
    }
    if (kind < 90) {
      Stmt out = made(Stmt::kTry, 1, {});
      if (chance(50)) out.otherwise = block(depth, 1, around);
      around.handler = true;
      out.body = block(depth, length + 1, around);
      out.body.push_back(made(Stmt::kThrow, 4, {expr(1), leaf(), expr(2)}));
      return out;
    }
    Stmt out = made(Stmt::kBlock, kBlocks, {});
    if (around.block) out.which = 0;
    around = {false, false, true, around.loops};
    const int locals = std::exchange(locals_, 0);  // those around it are no arguments
    out.body = block(depth, length, around);
    locals_ = locals;
    return out;
  }

  std::mt19937_64 engine_;
  int locals_ = 0, banned_ = -1;
};

}  // namespace etude::programs
