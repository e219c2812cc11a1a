// SPDX-License-Identifier: Apache-2.0
// Makes up programs on numbers (number_programs.h): program n is made from seed n alone. Used by
// random_numbers_test.cc.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
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
  // What may stand where a statement is made.
  struct Around {
    bool loop = false, handler = false, block = false;
    int loops = 0;
  };

  double constant() { return (below(17) - 8) * 0.25; }

  Place place() {
    const int kind = below(100);
    if (kind < 50) return {Place::kRegister, below(kRegisters)};
    if (kind < 65) return {Place::kElement, below(4)};
    if (kind < 75) return {Place::kElementAtCount, below(3)};
    if (kind < 82) return {Place::kElementAtValue, below(kRegisters)};
    return {Place::kField, below(kFields)};
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
    if (kind < 8) {
      out.kind = Expr::kNumber;
      out.number = constant();
    } else if (kind < 20) {
      out.kind = Expr::kInput;
      out.which = below(kInputs);
    } else {
      out.place = place();
    }
    return out;
  }
  Expr arithmetic(int depth) {
    if (chance(75)) return of(Expr::kArithmeticCall, 4, {expr(depth), expr(depth)});
    Expr out = of(Expr::kArithmeticCall, 4, {expr(depth)});
    out.place.index = below(2);
    out.number = constant();
    if (out.which == 3 && out.place.index == 1) out.number = 1.5;
    return out;
  }
  Expr expr(int depth) {
    const int kind = below(100);
    if (depth <= 0 || kind < 15) return leaf();
    --depth;
    if (kind < 55) return arithmetic(depth);
    if (kind < 58) return of(Expr::kNegate, 1, {expr(depth)});
    if (kind < 74) return of(Expr::kSmooth, std::size(Expr::kSmoothNames), {expr(depth)});
    if (kind < 76) return of(Expr::kKinked, std::size(Expr::kKinkedNames), {expr(depth)});
    if (kind < 77) return of(Expr::kRounded, std::size(Expr::kRoundedNames), {expr(depth)});
    if (kind < 84) return of(Expr::kPair, std::size(Expr::kPairNames), {expr(depth), expr(depth)});
    if (kind < 87) {
      return of(Expr::kKinkedPair, std::size(Expr::kKinkedPairNames), {expr(depth), expr(depth)});
    }
    if (kind < 90) return of(Expr::kChoice, 1, {leaf(), leaf(), expr(depth), expr(depth)});
    return of(Expr::kCall, kCalls, {expr(depth), expr(depth)});
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
    if (kind < 45) return made(Stmt::kSet, 1, {expr(3)});
    if (kind < 63) return made(Stmt::kUpdate, 4, {expr(3)});
    if (kind < 66) return made(Stmt::kItself, 4, {});
    if (kind < 69) return made(Stmt::kStep, 2, {});
    if (kind < 75) return made(Stmt::kFork, 4, {expr(2)});
    if (kind < 78) return made(Stmt::kMove, 1, {expr(2)});
    if (kind < 82) return made(Stmt::kSwap, 1, {});
    if (kind < 86) return made(Stmt::kAppend, 3, {expr(2)});
    if (kind < 88) return made(Stmt::kRemove, 3, {});
    if (kind < 91) return made(Stmt::kCopy, static_cast<int>(std::size(kCopies)), {expr(2)});
    if (kind < 93) return made(Stmt::kStruct, 1, {expr(2), expr(1)});
    if (kind < 96) return made(Stmt::kAlgorithm, static_cast<int>(std::size(kAlgorithms)), {});
    return leaves(around);
  }
  // A statement that may leave what is around it.
  Stmt leaves(const Around& around) {
    const int kind = below(100);
    if (around.handler && kind < 50) return made(Stmt::kThrow, 4, {expr(1), leaf(), expr(2)});
    if (around.loop && kind < 70) return made(Stmt::kBreak, 4, {expr(1), leaf()});
    if (around.loop) return made(Stmt::kContinue, 4, {expr(1), leaf()});
    if (around.block || kind < 50) return made(Stmt::kUpdate, 4, {expr(2)});
    return made(Stmt::kReturn, 4, {expr(1), leaf(), expr(2)});
  }
  Stmt control(int depth, Around around) {
    const int kind = below(100);
    const int length = 1 + below(3);
    if (kind < 35 || (kind < 75 && around.loops == 2)) {
      Stmt out = made(Stmt::kIf, 4, {expr(1), leaf()});
      out.body = block(depth, length, around);
      if (chance(50)) out.otherwise = block(depth, 1 + below(2), around);
      return out;
    }
    if (kind < 75) {
      const auto form = kind < 55 ? Stmt::kFor : kind < 65 ? Stmt::kForByValue : Stmt::kWhile;
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
    Stmt out = made(Stmt::kBlock, static_cast<int>(std::size(kBlocks)), {});
    if (around.block) out.which = 0;
    around = {false, false, true, around.loops};
    out.body = block(depth, length, around);
    return out;
  }

  std::mt19937_64 engine_;
};

}  // namespace etude::programs
