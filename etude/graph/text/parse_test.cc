// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/parse.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/base/philox.h"
#include "etude/graph/sample_graphs.h"
#include "etude/graph/text/print.h"
#include "etude/graph/verify.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::attrs_op;
using tests::Draft;
using tests::expect_error;

void expect_round_trip(const Graph& graph) {
  const std::string text = to_text(graph);
  const GraphRef again = parse_graph(text);
  EXPECT_EQ(to_text(*again), text);
  EXPECT_TRUE(again->same(graph)) << text;
  EXPECT_EQ(again->hash(), graph.hash());
  EXPECT_EQ(again->name(), graph.name());
  EXPECT_NO_THROW(verify(*again)) << text;
}

TEST(ParseGraph, GivesBackWhatWasPrinted) {
  for (const GraphRef& graph : tests::sample_graphs()) expect_round_trip(*graph);
}

TEST(ParseGraph, GivesBackRandomGraphs) {
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    expect_round_trip(*tests::random_graph(seed, 3));
    if (HasFailure()) break;
  }
}

TEST(ParseGraph, GivesBackInputsLinesAndNames) {
  const GraphRef graph = tests::names_graph(), again = parse_graph(to_text(*graph));
  EXPECT_TRUE(std::ranges::equal(graph->inputs(), again->inputs()));
  for (std::size_t i = 0; i < graph->size(); ++i) {
    EXPECT_STREQ(graph->node(i).where.file, again->node(i).where.file);
    EXPECT_EQ(graph->node(i).where.line, again->node(i).where.line);
  }
}

TEST(ParseGraph, GivesBackEveryProgramOfEveryRecord) {
  for (const Op* op : Registry::global().ops()) {
    std::vector<const ScalarDef*> defs = {&op->def().scalar};
    for (const ScalarDef& partial : op->def().partials.by_operand) defs.push_back(&partial);
    for (const ScalarDef* def : defs) {
      if (def->program == nullptr) continue;
      GraphBuilder build("f");
      const Draft x = build.add_input("x", intern_type(kFloat32, {2}));
      const Draft y =
          build.add_node(attrs_op(), attrs_op().attrs_by_name({{"program", def}}), std::array{x});
      expect_round_trip(*build.finish(std::array{y}));
    }
  }
}

TEST(ParseGraph, AProgramThatIsSpelledOtherwiseIsThatOfTheRecord) {
  const auto with = [](const std::string& program) {
    return parse_graph(
        "graph f(x: float32[2]) -> (float32[2])\n  %1 = internal.fused_elementwise(x, program={" +
        program + "}, params=[])\n  return %1\n");
  };
  EXPECT_TRUE(with("tanh(x01)")->same(*with("tanh(x1)")));
  expect_round_trip(*with("tanh(x01)"));
}

TEST(ParseGraph, ReadsWhatPeopleWrite) {
  const GraphRef graph = parse_graph(R"(
# What a test wants.

graph f(x: float32[2,2], "y" : float32[2,2]) -> (float32[2,2], none)
    # Numbers are words here.
    %product: float32[2,2]=matmul( x ,y )
  %half = constant float32[] .5

    %b , %unused = split(%product, parts_or_sizes = [1,1])   # a file.cc:7
    %z = multiply(%product, %half)
    return %z, none
# The end.
)");
  EXPECT_EQ(to_text(*graph),
            "graph f(x: float32[2,2], y: float32[2,2]) -> (float32[2,2], none)\n"
            "  %2 = constant float32[] 0.5\n"
            "  %3 = matmul(x, y)\n"
            "  %4, %5 = split(%3, parts_or_sizes=[1, 1])  # a file.cc:7\n"
            "  %6 = multiply(%3, %2)\n"
            "  return %6, none\n");
}

TEST(ParseGraph, ReadsLinesThatEndInCarriageReturns) {
  EXPECT_EQ(parse_graph("graph f(x: bool[]) -> (bool[])\r\n  return x\r\n")->outputs().size(), 1u);
}

TEST(ParseGraph, AParsedGraphRuns) {
  const GraphRef graph = parse_graph(
      "graph f(x: float32[2]) -> (float32[2])\n"
      "  %1 = constant float32[2] [1, -2]\n"
      "  %2 = multiply(x, %1)\n"
      "  return %2\n");
  const Tensor x({3.0, 4.0});
  const OperandList in({&x});
  EXPECT_TRUE(same_value(interpret(*graph, in.view())[0], Tensor({3.0, -8.0})));
}

// ---- errors

constexpr std::string_view kHead = "graph f(x: float32[2], y: float64[2]) -> (float32[2])\n";

struct Fault {
  std::string_view lines;  // after the header
  std::string_view text;   // a part of the error
};

void expect_faults(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    const std::string text = std::string(kHead) + std::string(fault.lines);
    expect_error([&] { parse_graph(text); }, ErrorCode::kInvalidArgument, {"line ", fault.text});
  }
}

TEST(ParseGraph, SaysWhereALineIsTorn) {
  expect_faults({
      {"  return %7\n", "line 2, column 10: there is no value %7 above. Values are the inputs"},
      {"  return z\n", "column 10: there is no value z above"},
      {"  %1 = tanh x\n", "column 13: '(' must follow the name of an op, but here is \"x\""},
      {"  %1 = tanh(x y)\n",
       "column 15: ',' must follow an operand or attribute, but here is \"y\""},
      {"  %1 = tanh(x\n",
       "column 14: ',' must follow an operand or attribute, but here is the end of the line"},
      {"  %1 = tanh(x) z\n", "column 16: the line must end after a call, but here is \"z\""},
      {"  %1 = tanh(x)  # why\n",
       "column 19: '#' after a call is followed by the line that made it, as in # train.cc:41"},
      {"  %1 = tanh(x)  # \"a:7\n", "column 19: the name of a file in quotes is torn"},
      {"  %1 tanh(x)\n", "column 6: '=' must follow the results of a node, but here is \"tanh\""},
      {"  % = tanh(x)\n", "column 4: the number of a value must follow '%'"},
      {"  %1 = 7\n", "column 8: the name of an op is expected, but here is \"7\""},
  });
}

TEST(ParseGraph, SaysWhatACallOrAReturnLacks) {
  expect_faults({
      {"  %1 = tanh(x)\n  %1 = tanh(x)\n", "line 3, column 3: there is a value %1 already"},
      {"  %1 = tanh(x, x)\n", "column 8: tanh: takes 1 operands (x), but 2 were given"},
      {"  %1 = tanh(none)\n", "column 8: tanh: operand 'x' is absent"},
      {"  %1 = add(x, y)\n",
       "column 8: add: operand 'x1' is float32 and operand 'x2' is float64; in a graph they have "
       "one dtype"},
      {"  %1, %2 = tanh(x)\n", "column 12: tanh has 1 results here, but 2 names before it"},
      {"  tanh(x)\n", "column 3: tanh has 1 results here, but 0 names"},
      {"  %1: float32[3] = tanh(x)\n",
       "column 3: %1 is float32[3] here, but the result of this line is float32[2]"},
      {"  %1 = nonzero(x)\n",
       "column 8: nonzero: returns int64[?], with a size that depends on data"},
      {"  %1 = sum(x, axis=[1])\n", "column 8: sum: axis 1"},
      {"  return x, x\n", "line 1, column 1: the header has 1 results, but 2 are returned"},
      {"  return y\n",
       "line 1, column 43: result 0 is float32[2] here, but the graph returns float64[2]"},
      {"  %1 = tanh(x)\n", "line 3, column 1: the graph has no return"},
      {"  return x\n  return x\n",
       "line 3, column 3: a graph ends with its return, but here is \"return\""},
  });
}

TEST(ParseGraph, SaysWhatIsWrongWithAnAttribute) {
  expect_faults({
      {"  %1 = sum(x, axes=[0])\n",
       "column 15: sum has no attribute 'axes'. It has axis, keepdims"},
      {"  %1 = tanh(x, p=1)\n", "column 16: tanh has no attribute 'p'. It has none"},
      {"  %1 = sum(axis=[0], x)\n", "column 22: operands must precede the attributes"},
      {"  %1 = sum(x, axis=[0], axis=[0])\n", "column 25: attribute 'axis' is given twice"},
      {"  %1 = split(x)\n", "column 8: split: attribute 'parts_or_sizes' is missing"},
      {"  %1 = sum(x, axis=0)\n",
       "column 20: a list of integers is expected, as in [1, 2], but here is \"0\""},
      {"  %1 = sum(x, axis=[0.5])\n",
       "column 22: ',' must follow an element of a list, but here is \".5\""},
      {"  %1 = sum(x, keepdims=1)\n",
       "column 24: a value of 'keepdims', true or false, is expected, but here is \"1\""},
      {"  %1 = samples.attrs_sample(x, count=9223372036854775808)\n",
       "a value of 'count', an integer of 64 bits, is expected"},
      {"  %1 = samples.attrs_sample(x, scale=wide)\n",
       "a value of 'scale', a number, is expected, but here is \"wide\""},
      {"  %1 = samples.attrs_sample(x, kind=float33)\n",
       "column 37: a dtype is expected, but here is \"float33\""},
      {"  %1 = samples.attrs_sample(x, mode=same)\n",
       "a text in quotes is expected, but here is \"same\""},
      {"  %1 = samples.attrs_sample(x, weights=7)\n", "a list of numbers is expected"},
      {"  %1 = samples.attrs_sample(x, program=tanh)\n", "a scalar program in braces is expected"},
      {"  %1 = samples.attrs_sample(x, program={tanh(x1)\n", "this '{' has no '}' in its line"},
      {"  %1 = samples.attrs_sample(x, program={tanh(x9)})\n",
       "{tanh(x9)} is no scalar program: calls of element-wise functions on operands x1, x2"},
      {"  %1 = samples.attrs_sample(x, program={tanh(x1)}~99)\n",
       "{tanh(x1)}~99 is no scalar program"},
      {"  %1 = apply_sample(x, graph=7)\n",
       "column 30: a graph is expected, as in @body, but here is \"7\""},
      {"  %1 = apply_sample(x, graph=@g)\n",
       "there is no graph @g below this one. A graph must come after the graphs that refer to it"},
      {"  %1 = apply_sample(x, graph=@f)\n", "there is no graph @f below this one"},
  });
}

TEST(ParseGraph, SaysWhatIsWrongWithAConstant) {
  expect_faults({
      {"  %1 = constant float32\n", "column 17: 'float32' is no type. Write it like float32[2,3]"},
      {"  %1 = constant\n", "column 16: a type is expected, but here is the end of the line"},
      {"  %1 = constant float32[?] 1\n", "column 17: the sizes of the types of a graph are known"},
      {"  %1 = constant [2] 1\n", "column 17: a type begins with its dtype"},
      {"  %1 = constant float32[2]@chip:0 1\n",
       "column 27: a device is written like @cpu:0 or @gpu:1"},
      {"  %1 = constant float32[9999999,9999999,9999999] 1\n", "multiply to more than 2^48"},
      {"  %1 = constant float32[] one\n", "column 27: a float32 is expected here"},
      {"  %1 = constant float32[2] [1]\n", "float32[2] has 2 elements, but here are 1"},
      {"  %1 = constant float32[2] 1, 2\n", "a list of the shape begins here, so '[' is expected"},
      {"  %1 = constant float32[2,1] [[1, 2]]\n",
       "a list of the shape ends here, so ']' is expected"},
      {"  %1 = constant float32[2] [1, 2, 3]\n", "a list of the shape ends here"},
      {"  %1 = constant float32[0] 1\n", "float32[0] has no elements: write []"},
      {"  %1 = constant uint8[] 256\n", "a uint8 is expected here"},
      {"  %1 = constant float32[16777216,65536] 1\n", "begins here, so '[' is expected"},
      {"  %1 = constant float32[16777216,65536] hex 00\n",
       "has 4398046511104 bytes, two hex digits each, but here are 2 digits"},
      {"  %1 = constant bool[1] hex 02\n", "the bytes of bool are 00 and 01"},
      {"  %1 = constant float32[99] 0, 1, 2, ...\n",
       "the elements of this constant were left out of the text"},
      {"  %1, %2 = constant float32[] 1\n", "column 12: a constant is one value"},
      {"  %1: float32[2] = constant float32[] 1\n",
       "%1 is float32[2] here, but the result of this line is float32[]"},
      {"  %1 = constant float32[] 1 2\n",
       "the line must end after the elements of a constant, but here is \"2\""},
  });
}

// The record has an optional operand before its last: three are too few, though three are required.
TEST(ParseGraph, CountsOperandsUpToTheLastThatIsRequired) {
  expect_error(
      [] {
        parse_graph(
            "graph f(x: float32[3,4], i: int32[3], c: float32[3]) -> (float32[3,4])\n"
            "  %3 = internal.cross_entropy_grad(x, i, c)\n"
            "  return %3\n");
      },
      ErrorCode::kInvalidArgument, {"takes 4 operands (logits, labels, class_weights, ct)"});
}

TEST(ParseGraph, SaysWhatIsWrongWithAHeader) {
  const Fault faults[] = {
      {"",
       "line 1, column 1: a text begins with graph NAME(INPUTS) -> (TYPES), but here is the end of "
       "the text"},
      {"# only this\n", "line 2, column 1: a text begins with graph"},
      {"%1 = tanh(x)\n", "a text begins with graph NAME(INPUTS) -> (TYPES), but here is \"%\""},
      {"graph (", "column 7: the name of the graph is expected, but here is \"(\""},
      {"graph \"f\\q\"(", "this text in quotes has no end in its line, or an unknown escape"},
      {"graph f x", "'(' must follow the name of a graph, but here is \"x\""},
      {"graph f(x)", "column 10: ':' must follow the name of an input, but here is \")\""},
      {"graph f(x: int4[])", "'int4[]' is no type"},
      {"graph f(\"\": int8[])", "column 9: the name of an input is empty"},
      {"graph f(x: int8[], x: int8[])",
       "column 20: an input is written x~2 here, as the names before it are"},
      {"graph f(x~2: int8[])", "column 9: an input is written x here"},
      {"graph f(x~1: int8[])", "column 10: a number from 2 on must follow '~'"},
      {"graph f(^c: int8[], x: int8[])",
       "column 21: the order of inputs is: arguments, *keys, &variables, ^captures"},
      {"graph f(x: int8[]\n  y: int8[])",
       "line 2, column 3: ',' must follow an input, but here is \"y\""},
      {"graph f() (", "'->' must follow the inputs of a graph, but here is \"(\""},
      {"graph f() -> (int8[] int8[])", "',' must follow the type of a result"},
      {"graph f() -> () 7", "the line must end after the header of a graph, but here is \"7\""},
      {"graph f() -> ()", "column 16: the graph has no return"},
      {"graph f() -> ()\ngraph g() -> ()\n  return\n", "line 2, column 1: the graph has no return"},
      {"graph f() -> ()\n  return\ngraph f() -> ()\n  return\n",
       "line 1, column 1: two graphs are called @f"},
  };
  for (const Fault& fault : faults) {
    expect_error([&] { parse_graph(fault.lines); }, ErrorCode::kInvalidArgument, {fault.text});
  }
}

TEST(ParseGraph, ShowsTheLine) {
  expect_error(
      [] {
        parse_graph(std::string(kHead) +
                    "  %1 = multiply(x, %\x01"
                    "7)\n");
      },
      ErrorCode::kInvalidArgument,
      {"line 2, column 21: the number of a value must follow '%'\n"
       "      %1 = multiply(x, % 7)\n"
       "                        ^"});
}

TEST(ParseGraph, AForgottenSigilIsNamed) {
  expect_error([] { parse_graph("graph f(^c: bool[]) -> (bool[])\n  return c\n"); },
               ErrorCode::kInvalidArgument,
               {"line 2, column 10: there is no value c above. Is ^c meant?"});
}

TEST(ParseGraph, ErrorsAreShortAndPrintable) {
  const std::string name(100000, 'a');
  try {
    parse_graph(fmt::format("{}  %1 = tanh({})\n", kHead, name));
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 1500u);
  }
  expect_error(
      [] {
        parse_graph(std::string(kHead) + "  %1 = samples.attrs_sample(x, program={\x1b[31m})\n");
      },
      ErrorCode::kInvalidArgument, {"{ [31m} is no scalar program"});
}

TEST(ParseGraph, AnUnknownOpNamesTheNearest) {
  expect_error([] { parse_graph(std::string(kHead) + "  %1 = tahn(x)\n"); },
               ErrorCode::kUnimplemented,
               {"line 2, column 8: no op is called 'tahn'. Nearest: tan"});
  const std::string name(1000, 'a');
  expect_error([&] { parse_graph(fmt::format("{}  %1 = {}(x)\n", kHead, name)); },
               ErrorCode::kUnimplemented, {"no op has so long a name"});
}

// A chain of graphs of `levels` levels below the first.
std::string chain(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) {
    text += fmt::format(
        "graph g{}(x: int8[]) -> (int8[])\n  %1 = apply_sample(x, graph=@g{})\n  return %1\n", i,
        i + 1);
  }
  return text + fmt::format("graph g{}(x: int8[]) -> (int8[])\n  return x\n", levels);
}

TEST(ParseGraph, LevelsOfGraphsAreLimited) {
  EXPECT_NO_THROW(parse_graph(chain(100)));
  expect_error([] { parse_graph(chain(101)); }, ErrorCode::kInvalidArgument,
               {"line 2, column 30: graphs refer to graphs more than 100 levels deep"});
  EXPECT_THROW(parse_graph(chain(20000)), Error);
}

// Two chains of equal graphs, in which each graph calls the next one twice: without merging equal
// graphs, comparing the first two would take 2^60 steps.
TEST(ParseGraph, EqualGraphsAreOne) {
  std::string text =
      "graph main(x: int8[], y: int8[]) -> (int8[])\n"
      "  %2 = apply_sample(x, y, graph=@a0)\n  %3 = apply_sample(x, y, graph=@b0)\n  return %3\n";
  for (const char which : {'a', 'b'}) {
    for (int i = 0; i < 60; ++i) {
      text += fmt::format(
          "graph {0}{1}(x: int8[], y: int8[]) -> (int8[])\n"
          "  %2 = apply_sample(x, y, graph=@{0}{2})\n  %3 = apply_sample(y, x, graph=@{0}{2})\n"
          "  return %3\n",
          which, i, i + 1);
    }
    text += fmt::format("graph {}60(x: int8[], y: int8[]) -> (int8[])\n  return x\n", which);
  }
  const GraphRef graph = parse_graph(text);
  ASSERT_EQ(graph->size(), 2u);
  EXPECT_EQ(&graph->node(0).attrs.object("graph"), &graph->node(1).attrs.object("graph"));
}

// ---- texts that something happened to

class Damage {
 public:
  explicit Damage(uint64_t seed) : seed_(seed) {}

  std::string apply(std::string text) {
    for (uint64_t n = below(3) + 1; n > 0 && !text.empty(); --n) change(text);
    return text;
  }

 private:
  uint64_t below(uint64_t n) { return philox({seed_, 5}, count_++)[0] % n; }

  void change(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t length = std::min<std::size_t>(below(30) + 1, text.size() - at);
    constexpr std::string_view kBytes = "%@~^&#\"\\:;,()[]{}=-.0179xn \n\t\x01\xff";
    switch (below(6)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 4:
        text[at] = kBytes[below(kBytes.size())];
        break;
      default:
        text.insert(at, text.substr(below(text.size()), length));
    }
  }

  uint64_t seed_;
  uint64_t count_ = 0;
};

TEST(ParseGraph, DamagedTextsAreErrorsOrGraphs) {
  int parsed = 0, refused = 0;
  for (const GraphRef& graph : tests::sample_graphs()) {
    const std::string text = to_text(*graph);
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const std::string damaged = Damage(seed * 977 + text.size()).apply(text);
      try {
        const GraphRef other = parse_graph(damaged);
        verify(*other);
        EXPECT_EQ(to_text(*parse_graph(to_text(*other))), to_text(*other)) << damaged;
        ++parsed;
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what() << "\n" << damaged;
        ++refused;
      }
    }
  }
  EXPECT_GT(parsed, 50);
  EXPECT_GT(refused, 500);
}

TEST(ParseGraph, TornTextsAreErrors) {
  const std::string text = to_text(*tests::layer_graph());
  for (std::size_t length = 0; length + 3 < text.size(); ++length) {
    EXPECT_THROW(parse_graph(text.substr(0, length)), Error) << text.substr(0, length);
  }
}

}  // namespace
}  // namespace etude
