// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/diff.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/graph/line_diff.h"
#include "etude/graph/sample_graphs.h"
#include "etude/graph/text/parse.h"

namespace etude {
namespace {

constexpr std::string_view kText =
    "graph f(x: float32[2,2], y: float32[2,2]) -> (float32[2,1])\n"
    "  %2 = constant float32[2] [1, 2]\n"
    "  %3 = matmul(x, y)  # a.cc:1\n"
    "  %4 = sum(%3, axis=[1], keepdims=true)\n"
    "  %5 = apply_sample(%4, graph=@g)\n"
    "  %6 = add(%4, %2)\n"
    "  return %5\n"
    "graph g(x: float32[2,1]) -> (float32[2,1])\n"
    "  %1 = tanh(x)\n"
    "  return %1\n";

// The difference from kText when `from` is replaced, once.
std::string after(std::string_view from, std::string_view to) {
  std::string text(kText);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  tests::apply_op();  // known before it is read
  return diff(*parse_graph(kText), *parse_graph(text));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST(GraphDiff, OfOneTextIsEmpty) {
  for (const GraphRef& graph : tests::sample_graphs()) EXPECT_EQ(diff(*graph, *graph), "");
}

TEST(GraphDiff, ShowsWordsAndLines) {
  EXPECT_EQ(after("matmul(x, y)", "matmul(y, x)"),
            "%3 = matmul: operand 'x' is x in the first graph and y in the second\n"
            "  - %3 = matmul(x, y)\n"
            "  + %3 = matmul(y, x)\n");
}

TEST(GraphDiff, NamesTheFirstDifference) {
  const auto expect = [](std::string_view from, std::string_view to, std::string_view words) {
    EXPECT_EQ(first_line(after(from, to)), words);
  };
  expect("[1, 2]", "[1, -0]",
         "element 1 of constant %2 is 2 in the first graph and -0 in the second");
  expect("= matmul(x, y)", "= add(x, y)",
         "node 0 is matmul in the first graph and add in the second");
  expect("(x, y)", "(x, y, transpose_y=true)",
         "%3 = matmul: attribute 'transpose_y' is false in the first graph and true in the second");
  expect("return %5", "return %4", "output 0 is %5 in the first graph and %4 in the second");
  expect("  %6 = add(%4, %2)\n", "  %6 = add(%4, %2)\n  %7 = tanh(y)\n",
         "the first graph has 4 nodes, the second 5");
}

TEST(GraphDiff, LooksIntoGraphsThatAreAttributes) {
  EXPECT_EQ(
      after("tanh(x)", "exp(x)"),
      "%5 = apply_sample: attribute 'graph', @g: node 0 is tanh in the first graph and exp in "
      "the second\n"
      "  - %1 = tanh(x)\n"
      "  + %1 = exp(x)\n");
}

TEST(GraphDiff, TellsOfNamesAndLinesIfThatIsAll) {
  EXPECT_EQ(after("a.cc:1", "b.cc:1"),
            "the graphs compute the same; names or lines differ\n"
            "  - %3 = matmul(x, y)                      # a.cc:1\n"
            "  + %3 = matmul(x, y)                      # b.cc:1\n");
}

TEST(GraphDiff, ComparesInputsResultsAndOutputs) {
  const auto words = [](std::string_view a, std::string_view b) {
    return first_line(diff(*parse_graph(a), *parse_graph(b)));
  };
  EXPECT_EQ(words("graph f(x: int8[]) -> ()\n  return\n", "graph f() -> ()\n  return\n"),
            "the first graph has 1 inputs, the second 0");
  EXPECT_EQ(words("graph f(x: int8[]) -> ()\n  return\n", "graph f(x: bool[]) -> ()\n  return\n"),
            "input x is int8[] in the first graph and bool[] in the second");
  EXPECT_EQ(words("graph f(x: int8[]) -> ()\n  return\n", "graph f(&x: int8[]) -> ()\n  return\n"),
            "input x is an argument in the first graph and a Variable in the second");
  EXPECT_EQ(words("graph f(x: int8[]) -> (int8[])\n  return x\n",
                  "graph f(x: int8[]) -> (none)\n  return none\n"),
            "output 0 is x in the first graph and none in the second");
  EXPECT_EQ(words("graph f() -> (int8[])\n  %0 = constant int8[] 1\n  return %0\n",
                  "graph f() -> (int16[])\n  %0 = constant int16[] 1\n  return %0\n"),
            "constant %0 is int8[] in the first graph and int16[] in the second");
}

TEST(LineDiff, ShowsTheFewestLines) {
  EXPECT_EQ(internal::line_diff("a\nb\nc\nd\n", "a\nc\nx\nd"), "  - b\n  + x\n");
  EXPECT_EQ(internal::line_diff("a\n", "a\n"), "");
  EXPECT_EQ(internal::line_diff("", "  a\n"), "  + a\n");
}

TEST(LineDiff, LongOnesAreCut) {
  std::string a, b;
  for (int i = 0; i < 3000; ++i) {
    a += fmt::format("a{}\n", i);
    b += fmt::format("b{}\n", i);
  }
  const std::string text = internal::line_diff(a, b);
  EXPECT_EQ(text.substr(0, 7), "  - a0\n");
  EXPECT_NE(text.find("  and 5960 more\n"), std::string::npos);
}

}  // namespace
}  // namespace etude
