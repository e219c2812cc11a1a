// SPDX-License-Identifier: Apache-2.0
// print() and assert_true(), eagerly and in functions: once each, in the order of the program.
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/functions/printing.h"

namespace etude {
namespace {

using tests::expect_error;
using tests::Printing;
using Lines = std::vector<std::string>;

// The printed lines of f(x...). Expects the same lines of the first and the second call of
// function(f).
template <class F, class... X>
Lines lines_of(const F& f, const X&... x) {
  Printing printing;
  f(x...);
  Lines plain = printing.take();
  const auto staged = function(f);
  for (int call = 0; call < 2; ++call) {
    staged(x...);
    EXPECT_EQ(printing.take(), plain);
  }
  return plain;
}

TEST(Print, WritesTextsNumbersAndTensors) {
  const auto f = [](const Tensor& x) {
    print("x", x, 3, 0.5, 'c', "{}", std::string("end"));
    print(Tensor({1, 2}), Tensor(), Tensor({{true}, {false}}));
    print("");
    return x;
  };
  EXPECT_EQ(lines_of(f, Tensor(2.5F)),
            (Lines{"x 2.5 3 0.5 c {} end", "[1, 2] <absent> [[true],\n [false]]", ""}));
}

TEST(Print, ShowsWhatAVariableHoldsAtThisPoint) {
  const Variable v(1.0F);
  const auto f = [&](const Tensor& x) {
    v.assign(x);
    print("before", v);
    v.assign_add(1.0F);
    print("after", v);
    return x;
  };
  EXPECT_EQ(lines_of(f, Tensor(5.0F)), (Lines{"before 5.", "after 6."}));
}

TEST(Print, GoesToStandardOutput) {
  ::testing::internal::CaptureStdout();
  print("to the terminal", Tensor(1));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "to the terminal 1\n");
}

// spec: CD-07, CD-08.b, CD-09.a, CD-09.b, ST-07.c
TEST(Print, KeepsTheOrderOfTheProgramInBranchesAndLoops) {
  const auto f = [](const Tensor& x) {
    print("begin");
    const Tensor y = cond(
        x > 0.0F,
        [&] {
          print("positive", x);
          return cond(
              x > 10.0F, [&] { return print("large"), x; }, [&] { return print("small"), x; });
        },
        [&] { return print("negative"), -x; });
    const Tensor z = fold(
        [](const Tensor& s, const Tensor& row) {
          print("row", row);
          return s + row;
        },
        y, arange(0, {.stop = 3, .dtype = kFloat32}));
    const Tensor w = while_loop([](const Tensor& s) { return s < 100.0F; },
                                [](const Tensor& s) {
                                  print("doubles", s);
                                  return s * 2.0F;
                                },
                                z);
    print("begin");
    return w;
  };
  EXPECT_EQ(lines_of(f, Tensor(20.0F)),
            (Lines{"begin", "positive 20.", "large", "row 0.", "row 1.", "row 2.", "doubles 23.",
                   "doubles 46.", "doubles 92.", "begin"}));
  EXPECT_EQ(lines_of(f, Tensor(-50.0F)),
            (Lines{"begin", "negative", "row 0.", "row 1.", "row 2.", "doubles 53.", "begin"}));
}

TEST(Print, HappensOnceWhateverIsDerived) {
  const auto step = [](const Tensor& s, const Tensor& row) {
    print("row", row);
    return s * row;
  };
  const auto loops = [step](const Tensor& x) {
    print("in");
    const Tensor y = fold(step, x, Tensor({2.0F, 3.0F}));
    const Tensor z = while_loop([](const Tensor& s) { return s < 40.0F; },
                                [](const Tensor& s) {
                                  print("doubles", s);
                                  return s * 2.0F;
                                },
                                y);
    return cond(
        z > 0.0F, [&] { return print("out"), z * z; }, [&] { return z; });
  };
  const Lines once{"in", "row 2.", "row 3.", "doubles 24.", "out"};
  const Tensor at(4.0F);
  EXPECT_EQ(lines_of(loops, at), once);
  EXPECT_EQ(lines_of([&](const Tensor& x) { return gradient(loops, x); }, at), once);
  EXPECT_EQ(lines_of([&](const Tensor& x) { return jvp(loops, x, Tensor(1.0F)).second; }, at),
            once);
  const auto slope = [&](const Tensor& x) { return gradient(loops, x); };
  EXPECT_EQ(lines_of([&](const Tensor& x) { return gradient(slope, x); }, at), once);
  // A function in a function, differentiated from outside.
  const auto inner = function(loops);
  Printing printing;
  EXPECT_EQ(gradient([&](const Tensor& x) { return inner(x); }, at).item<float>(), 12 * 12 * 2 * 4);
  EXPECT_EQ(printing.take(), once);
  const auto outer = function([&](const Tensor& x) { return inner(x) + inner(x); });
  outer(at);
  Lines twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(printing.take(), twice);
}

TEST(Print, HappensInABranchThatGivesNothing) {
  const auto f = [](const Tensor& x) {
    cond(
        sum(x) > 0.0F, [&] { print("positive"); }, [&] { print("negative"); });
    return tanh(x) * x;
  };
  const auto slope = [&](const Tensor& x) {
    return gradient([&](const Tensor& t) { return sum(f(t)); }, x);
  };
  const auto around = [&](const Tensor& x) {
    const auto staged = function(f);
    return gradient([&](const Tensor& t) { return sum(staged(t)); }, x);
  };
  const auto tangent = [&](const Tensor& x) { return jvp(f, std::tuple(x), std::tuple(x)).second; };
  const Tensor x({1.0F, -3.0F});
  EXPECT_EQ(lines_of(f, x), Lines{"negative"});
  EXPECT_EQ(lines_of(slope, x), Lines{"negative"});
  EXPECT_EQ(lines_of(around, x), Lines{"negative"});
  EXPECT_EQ(lines_of(tangent, x), Lines{"negative"});
}

TEST(Print, HasALineForEachExampleOfAVmap) {
  const auto f = [](const Tensor& x, const Tensor& y) {
    return vmap([&](const Tensor& a) {
      print("same for all");
      return vmap([&](const Tensor& b) {
        print(a, b);
        return a * b;
      })(y);
    })(x);
  };
  EXPECT_EQ(lines_of(f, Tensor({1, 2}), Tensor({3, 4})),
            (Lines{"same for all", "1 3", "1 4", "2 3", "2 4"}));
}

TEST(Print, StaysInTheTextOfAGraphAndInItsPasses) {
  const GraphRef graph = parse_graph(
      "graph f(x: float32[2]) -> (float32[2])\n"
      "  %1 = print(x, text=\"x {}\")\n"
      "  %2 = print(x, text=\"x {}\")\n"
      "  %3 = print(text=\"end\")\n"
      "  return x\n");
  EXPECT_TRUE(graph->has_effects());
  Printing printing;
  const Tensor x({1.0F, 2.0F});
  interpret(*graph, std::vector<Tensor>{x});
  const Lines lines{"x [1., 2.]", "x [1., 2.]", "end"};
  EXPECT_EQ(printing.take(), lines);
  EXPECT_EQ(run_passes(*graph)->size(), 3u);
  EXPECT_EQ(printing.take(), Lines{});
}

TEST(Print, RefusesASinkThatPrints) {
  const PrintSink before = set_print_sink([](std::string_view line) { print("again", line); });
  expect_error([] { print("x", 'c'); }, ErrorCode::kFailedPrecondition,
               {"print: a print sink neither prints nor sets another sink"});
  set_print_sink([](std::string_view) { set_print_sink({}); });
  expect_error([] { print("x"); }, ErrorCode::kFailedPrecondition, {"a print sink neither"});
  set_print_sink(before);
}

TEST(Print, TellsWhatItsSinkThrew) {
  const PrintSink before =
      set_print_sink([](std::string_view) { throw std::runtime_error("no disk"); });
  const auto f = function([](const Tensor& x) { return print("x", x), x; });
  expect_error([&] { f(Tensor(1.0F)); }, ErrorCode::kUnavailable,
               {"print: the print sink threw: no disk"});
  set_print_sink(before);
}

// spec: CD-07, ST-07.d
TEST(AssertTrue, FailsTheCallAndWhatComesLaterDoesNotHappen) {
  const Variable v(1.0F);
  const auto f = [&](const Tensor& x) {
    print("first");
    assert_true(x > 0.0F, "x must be positive");
    print("second");
    v.assign(x);
    return x;
  };
  EXPECT_EQ(lines_of(f, Tensor(3.0F)), (Lines{"first", "second"}));
  EXPECT_EQ(v.read().item<float>(), 3);
  const auto staged = function(f);
  Printing printing;
  for (int mode = 0; mode < 2; ++mode) {
    expect_error([&] { mode == 0 ? f(Tensor(-1.0F)) : staged(Tensor(-1.0F)); },
                 ErrorCode::kFailedPrecondition,
                 {"assert_true: x must be positive: the condition is false"});
    EXPECT_EQ(printing.take(), Lines{"first"});
    EXPECT_EQ(v.read().item<float>(), 3);
  }
}

TEST(AssertTrue, NamesTheElementAndTheExample) {
  const Tensor x({{1.0F, 2.0F}, {3.0F, -4.0F}});
  const auto f = [](const Tensor& t) { return assert_true(t > 0.0F, "all positive"), t; };
  const auto staged = function(f);
  const char* const whole = "all positive: element [1, 1] of the condition is false";
  expect_error([&] { f(x); }, ErrorCode::kFailedPrecondition, {whole});
  expect_error([&] { staged(x); }, ErrorCode::kFailedPrecondition, {whole});
  const auto batch = [&](const Tensor& t) { return vmap(f)(t); };
  const char* const one = "all positive: element [1] of the condition is false in example 1";
  expect_error([&] { batch(x); }, ErrorCode::kFailedPrecondition, {one});
  expect_error([&] { function(batch)(x); }, ErrorCode::kFailedPrecondition, {one});
  expect_error([&] { assert_true(x, "numbers"); }, ErrorCode::kInvalidArgument, {"condition"});
}

TEST(AssertTrue, StandsInBranchesAndLoopsAndUnderDerivatives) {
  const auto f = [](const Tensor& x) {
    return fold(
        [](const Tensor& s, const Tensor& row) {
          assert_true(s < 10.0F, "the sum stays below 10");
          return s * row;
        },
        x, Tensor({2.0F, 3.0F, 4.0F}));
  };
  const auto slope = [&](const Tensor& x) { return gradient(f, x); };
  EXPECT_EQ(slope(Tensor(1.0F)).item<float>(), 24);
  EXPECT_EQ(function(slope)(Tensor(1.0F)).item<float>(), 24);
  for (const auto& run :
       {std::function(slope), std::function<Tensor(const Tensor&)>(function(slope)),
        std::function<Tensor(const Tensor&)>(function(f))}) {
    expect_error([&] { run(Tensor(2.0F)); }, ErrorCode::kFailedPrecondition,
                 {"the sum stays below 10"});
  }
}

// spec: AG-10.a
TEST(Loops, RunAConditionOncePerTest) {
  for (const bool is_staged : {false, true}) {
    const auto f = [&](const Tensor& x) {
      return while_loop(
          [&](const Tensor& s) {
            print("test", s);
            return s < 5.0F;
          },
          [](const Tensor& s) { return s + 1.0F; }, x);
    };
    const auto run = function(f, {.run_eagerly = !is_staged});
    Printing printing;
    EXPECT_EQ(run(Tensor(3.0F)).item<float>(), 5);
    EXPECT_EQ(printing.take(), (Lines{"test 3.", "test 4.", "test 5."}));
    EXPECT_EQ(run(Tensor(9.0F)).item<float>(), 9);
    EXPECT_EQ(printing.take(), Lines{"test 9."});
  }
}

// spec: CD-05.d
TEST(SwitchCase, AssignsVariablesOfTheBranchThatRuns) {
  for (const bool is_staged : {false, true}) {
    const Variable sum(1.0F), product(2.0F);
    const auto f = [&](const Tensor& i, const Tensor& x) {
      sum.assign_add(x);
      switch_case(i,
                  std::tuple([&](const Tensor& a) { sum.assign_add(a); },
                             [&](const Tensor& a) { product.assign(product * a * sum); }),
                  x);
      return sum + product;
    };
    const auto run = function(f, {.run_eagerly = !is_staged});
    EXPECT_EQ(run(Tensor(0), Tensor(3.0F)).item<float>(), 9);   // 1 + 3 + 3, 2
    EXPECT_EQ(run(Tensor(1), Tensor(3.0F)).item<float>(), 70);  // 10, 2 * 3 * 10
  }
}

}  // namespace
}  // namespace etude
