// SPDX-License-Identifier: Apache-2.0
// Parsing of programs: parsed programs print the same text, and other texts are refused.
#include "etude/base/scalars/program_text.h"

#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace etude::scalar {
namespace {

TEST(ProgramText, IsReadAsItIsPrinted) {
  for (const char* text :
       {"x1", "-0", "p1", "0.1", "inf", "tanh(x1)", "where(greater(x1, 0), x1, multiply(p1, x1))",
        "v1 = add(x1, p2); multiply(v1, v1)",
        "v1 = exp(x1); v2 = add(v1, x2); divide(subtract(v2, v1), v2)",
        "logical_and(isnan(x1), x2)", "add(x1, 1e-30)"}) {
    const std::optional<Program> program = parse_program(text);
    ASSERT_TRUE(program.has_value()) << text;
    EXPECT_EQ(to_string(*program), text);
  }
  const Program program = *parse_program("where(x2, x1, p3)");
  EXPECT_EQ(program.operands, 2);
  EXPECT_EQ(program.params, 3);
  EXPECT_EQ(program.bools, 2u);
  EXPECT_FALSE(program.is_bool);
  EXPECT_TRUE(parse_program("less(x1, x2)")->is_bool);
}

TEST(ProgramText, NamesFunctionsThatHaveOps) {
  EXPECT_EQ(parse_program("round(x1)")->nodes[1].fn, Fn::kRound);
  EXPECT_EQ(parse_program("remainder(x1, x2)")->nodes[2].fn, Fn::kRemainder);
}

TEST(ProgramText, CallsThatAreWrittenTwiceAreOne) {
  EXPECT_EQ(to_string(*parse_program("add(exp(x1), exp(x1))")), "v1 = exp(x1); add(v1, v1)");
  EXPECT_EQ(to_string(*parse_program("v1 = exp(x1); x1")), "x1");
}

TEST(ProgramText, OtherTextsAreNone) {
  for (const char* text : {"",
                           " ",
                           "x",
                           "x0",
                           "x9",
                           "x99999999999",
                           "p0",
                           "p65",
                           "v1",
                           "tanh",
                           "tanh()",
                           "tanh(x1",
                           "tanh(x1))",
                           "tanh(x1, x2)",
                           "add(x1)",
                           "add(x1,x2)",
                           "add(x1, x2) ",
                           "nothing(x1)",
                           "operand(x1)",
                           "v2 = exp(x1); v2",
                           "v1 = exp(x1) v1",
                           "v1 = v1; v1",
                           "v1 = exp(x1);",
                           "1.5.5",
                           "0x10",
                           "add(less(x1, x2), x1)",
                           "where(x1, less(x1, x2), x2)",
                           "where(1, x1, x2)",
                           "logical_not(exp(x1))",
                           "fmod(x1, x2)"}) {
    EXPECT_FALSE(parse_program(text).has_value()) << text;
  }
  std::string deep, wide = "x1";
  for (int i = 0; i < 100000; ++i) deep += "exp(";
  EXPECT_FALSE(parse_program(deep).has_value());
  for (int i = 0; i < 80; ++i) wide = "add(" + wide + ", " + std::to_string(i) + ")";
  EXPECT_FALSE(parse_program(wide).has_value());
}

// Whatever is cut out of a text, or put into it, is a program that prints as it reads, or none.
TEST(ProgramText, DamagedTextsDoNoHarm) {
  std::mt19937 draw(7);
  const std::string good = "v1 = where(x3, x1, 0.5); v2 = add(v1, p1); divide(tanh(v2), v2)";
  const std::string letters = "xpv123(),;= .-eand";
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int edits = 1 + static_cast<int>(draw() % 3); edits > 0; --edits) {
      const std::size_t at = draw() % text.size();
      if (draw() % 2 == 0) {
        text.erase(at, 1 + draw() % 4);
      } else {
        text.insert(at, 1, letters[draw() % letters.size()]);
      }
      if (text.empty()) text = "x1";
    }
    const std::optional<Program> program = parse_program(text);
    if (!program) continue;
    const std::string printed = to_string(*program);
    const std::optional<Program> again = parse_program(printed);
    ASSERT_TRUE(again.has_value()) << text << " printed as " << printed;
    ASSERT_EQ(to_string(*again), printed) << text;
  }
}

}  // namespace
}  // namespace etude::scalar
