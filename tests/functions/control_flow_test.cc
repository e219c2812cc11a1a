// SPDX-License-Identifier: Apache-2.0
// cond, switch_case, while_loop, fold and scan, eagerly and in functions.
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/plan/plan.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;
using Floats = std::vector<float>;

// Expects the same bits of f and function(f) on the same arguments, and returns the result.
template <class F, class... X>
auto both(const F& f, const X&... x) {
  const auto plain = f(x...);
  const auto staged = function(f);
  const auto first = staged(x...);
  EXPECT_TRUE(same_value(plain, first)) << "eager " << plain << "\nstaged " << first;
  EXPECT_TRUE(same_value(plain, staged(x...)));
  return plain;
}

bool close(const Tensor& x, const Tensor& y, const AllcloseOptions& options) {
  return allclose(x, y, options).item<bool>();
}

Tensor signed_root(const Tensor& x) {
  return cond(
      sum(x) > 0.0F, [&] { return sqrt(x); }, [&] { return -sqrt(-x); });
}

// spec: AG-02
TEST(Cond, RunsOneBranchAndTracesBoth) {
  EXPECT_EQ(both(signed_root, Tensor(4.0F)).item<float>(), 2);
  EXPECT_EQ(both(signed_root, Tensor(-9.0F)).item<float>(), -3);
  int then = 0, otherwise = 0;
  const auto f = function([&](const Tensor& x) {
    return cond(
        x > 0.0F, [&] { return ++then, x * 2.0F; }, [&] { return ++otherwise, x * 3.0F; });
  });
  EXPECT_EQ(f(Tensor(1.0F)).item<float>(), 2);
  EXPECT_EQ(f(Tensor(-1.0F)).item<float>(), -3);
  EXPECT_EQ(then, 1);
  EXPECT_EQ(otherwise, 1);
  EXPECT_EQ(f.trace_count(), 1u);
}

// spec: FB-07.a, CG-16
TEST(Cond, IsDifferentiatedAlongTheBranchTaken) {
  const auto slope = [](const Tensor& x) { return gradient(signed_root, x); };
  for (const float at : {4.0F, -4.0F}) {
    EXPECT_EQ(both(slope, Tensor(at)).item<float>(), 0.25F);
    const auto outside = function(signed_root);
    EXPECT_EQ(gradient([&](const Tensor& x) { return outside(x); }, Tensor(at)).item<float>(),
              0.25F);
    const auto curve = [&](const Tensor& x) { return gradient(slope, x); };
    EXPECT_EQ(both(curve, Tensor(at)).item<float>(), at > 0 ? -1.0F / 32 : 1.0F / 32);
    const auto forward = [](const Tensor& x) { return jvp(signed_root, x, Tensor(1.0F)).second; };
    EXPECT_EQ(both(forward, Tensor(at)).item<float>(), 0.25F);
  }
}

TEST(Cond, ChoosesForEachExampleOfAVmap) {
  const auto f = [](const Tensor& x) { return vmap(signed_root)(x); };
  EXPECT_EQ(both(f, Tensor(Floats{4, -9, 16})).to_vector<float>(), (Floats{2, -3, 4}));
  const auto slopes = [](const Tensor& x) {
    return vmap([](const Tensor& one) { return gradient(signed_root, one); })(x);
  };
  EXPECT_EQ(both(slopes, Tensor(Floats{4, -4, 1})).to_vector<float>(), (Floats{0.25, 0.25, 0.5}));
  const auto sum_slopes = [&](const Tensor& x) {
    return gradient([](const Tensor& all) { return sum(vmap(signed_root)(all)); }, x);
  };
  EXPECT_EQ(both(sum_slopes, Tensor(Floats{4, -4, 1})).to_vector<float>(),
            (Floats{0.25, 0.25, 0.5}));
}

struct Pair {
  Tensor a, b;
  int n = 0;
};

TEST(Cond, HasAPositiveZeroForWhatItsBranchDoesNotRead) {
  const auto f = [](const Tensor& x, const Tensor& y) {
    return cond(
        sum(x) > 0.0F, [&] { return x * y; }, [&] { return y * 0.75F; });
  };
  const auto slope = [](const auto& g, const Tensor& x) {
    return gradient([&](const Tensor& t) { return sum(g(t, t + 1.0F)); }, x);
  };
  const auto of_both = [&](const Tensor& x, const Tensor& y) {
    return std::get<0>(
        gradient([&](const Tensor& s, const Tensor& t) { return sum(f(s, t)); }, x, y));
  };
  const Tensor x({-1.0F, -2.0F}), y({3.0F, 4.0F});
  EXPECT_TRUE(same_value(function(of_both)(x, y), zeros({2})));
  EXPECT_TRUE(same_value(of_both(x, y), zeros({2})));
  EXPECT_TRUE(same_value(slope(function(f), x), slope(f, x)));
  EXPECT_TRUE(same_value(slope(function(f), y), slope(f, y)));
}

// spec: AG-03, AG-04, AG-20.a
TEST(Cond, RefusesBranchesOfOtherTypes) {
  const auto with = [](auto then, auto otherwise) {
    return function([=](const Tensor& x) { return cond(x > 0.0F, then, otherwise, x); });
  };
  const auto pair = [](const Tensor& x) { return Pair{x, x, 1}; };
  expect_error(
      [&] { with(pair, [](const Tensor& x) {
              return Pair{x, x > 0.0F, 1};
            })(Tensor(1.0F)); },
      ErrorCode::kInvalidArgument,
      {"cond: 'result/b' is bool[] from branch 'else' and float32[] from branch 'then'"});
  expect_error([&] { with(pair, [](const Tensor& x) {
                       return Pair{x, {}, 1};
                     })(Tensor(1.0F)); },
               ErrorCode::kInvalidArgument, {"'result/b' is absent from branch 'else'"});
  expect_error([&] { with(pair, [](const Tensor& x) {
                       return Pair{x, x, 2};
                     })(Tensor(1.0F)); },
               ErrorCode::kInvalidArgument, {"the host value 'result/n' is another"});
}

// spec: AG-10.b
TEST(Cond, NeedsASingleBool) {
  const auto f = [](const Tensor& x) {
    return cond(
        x, [&] { return x; }, [&] { return -x; });
  };
  for (const Tensor& x : {Tensor(1), Tensor(std::vector<bool>{true, false, true})}) {
    for (const bool is_staged : {false, true}) {
      expect_error([&] { is_staged ? function(f)(x) : f(x); }, ErrorCode::kInvalidArgument,
                   {"cond: the condition is ", x.dtype() == kBool ? "bool[3]" : "int32[]",
                    "but must be a single bool"});
    }
  }
}

// spec: CD-09.a, CD-05.b
TEST(Cond, AssignsVariablesOfTheBranchThatRuns) {
  for (const bool is_staged : {false, true}) {
    Variable ups(0.0F), downs(0.0F);
    const auto f = [&](const Tensor& x) {
      cond(
          x > 0.0F, [&] { ups.assign_add(x); }, [&] { downs.assign_sub(x * ups); });
      return ups + downs;
    };
    const auto run = function(f, {.run_eagerly = !is_staged});
    EXPECT_EQ(run(Tensor(2.0F)).item<float>(), 2);
    EXPECT_EQ(run(Tensor(-3.0F)).item<float>(), 8);
    EXPECT_EQ(ups.read().item<float>(), 2);
    EXPECT_EQ(downs.read().item<float>(), 6);
  }
}

// spec: AG-19.a, AG-19.b
TEST(Cond, RefusesToMakeAVariable) {
  std::optional<Variable> v;
  const auto f = function([&](const Tensor& x) {
    return cond(
        x > 0.0F,
        [&] {
          v.emplace(1.0F, VariableOptions{.name = "v"});
          return x;
        },
        [&] { return x; });
  });
  expect_error([&] { f(Tensor(1.0F)); }, ErrorCode::kFailedPrecondition,
               {"cond: Variable 'v' made at "});
  const auto g = function([&](const Tensor& x) {
    return while_loop([](const Tensor& s) { return s < 9.0F; },
                      [&](const Tensor& s) {
                        v.emplace(1.0F, VariableOptions{.name = "w"});
                        return s + *v;
                      },
                      x);
  });
  expect_error([&] { g(Tensor(1.0F)); }, ErrorCode::kFailedPrecondition,
               {"while_loop: Variable 'w' made at "});
}

TEST(SwitchCase, TakesTheBranchOfItsNumber) {
  const auto f = [](const Tensor& i, const Tensor& x) {
    return switch_case(i,
                       std::tuple([](const Tensor& a) { return a + 1.0F; },
                                  [](const Tensor& a) { return a * 10.0F; },
                                  [](const Tensor&) { return Tensor(-1.0F); }),
                       x);
  };
  const Floats want = {4, 30, -1};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(both(f, Tensor(i), Tensor(3.0F)).item<float>(), want[static_cast<std::size_t>(i)]);
  }
  for (const bool is_staged : {false, true}) {
    expect_error(
        [&] { is_staged ? function(f)(Tensor(3), Tensor(0.0F)) : f(Tensor(3), Tensor(0.0F)); },
        ErrorCode::kOutOfRange, {"operand 'index' is 3, but branches are 0 to 2"});
  }
}

// spec: AG-05.a
TEST(Fold, GoesThroughTheRowsInOrder) {
  const auto f = [](const Tensor& xs) {
    return fold([](const Tensor& s, const Tensor& x) { return s * 10 + x; }, Tensor(0), xs);
  };
  EXPECT_EQ(both(f, Tensor({1, 2, 3, 4})).item<int>(), 1234);
  EXPECT_EQ(both(f, zeros({0}, {.dtype = kInt32})).item<int>(), 0);
  const auto g = [](const Tensor& xs) {
    return fold([](Tensor& s, const Tensor& x) { s = s * 100 + x; }, Tensor(0), xs);
  };
  EXPECT_EQ(both(g, arange(17, {.stop = 3.0, .step = -5.0, .dtype = kInt32})).item<int>(), 171207);
}

// spec: AG-05.b
TEST(HostLoops, GoThroughDataSets) {
  const auto data = data::from_tensors(Tensor({1, 2, 3, 4}));
  const auto digits = [&](const Tensor& start, int most) {
    Tensor s = start;
    for (const Tensor& x : data) {
      if (x.item<int>() > most) break;
      s = s * 10 + x;
    }
    return s;
  };
  const auto staged = function(digits);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(digits(Tensor(0), 9).item<int>(), 1234);
    EXPECT_EQ(staged(Tensor(0), 9).item<int>(), 1234);
    EXPECT_EQ(staged(Tensor(0), 3).item<int>(), 123);
  }
}

// spec: AG-01.a
TEST(Fold, IsOneNode) {
  const auto f = function([](const Tensor& xs) {
    return fold([](const Tensor& s, const Tensor& x) { return s + x; }, Tensor(0.0F), xs);
  });
  f(ones({100}));
  EXPECT_EQ(internal::Plan::of(f.traces()[0].graph())->steps(), 1u);
}

// spec: AG-01.c
TEST(Fold, GivesWhatAHostLoopGives) {
  const Tensor xs = random::normal({100});
  const auto unrolled = function([](const Tensor& rows) {
    Tensor s(0.0F);
    for (int64_t i = 0; i < 100; ++i) s = s * 0.5F + rows.at(i);
    return s;
  });
  const auto folded = [](const Tensor& rows) {
    return fold([](const Tensor& s, const Tensor& x) { return s * 0.5F + x; }, Tensor(0.0F), rows);
  };
  EXPECT_TRUE(same_value(both(folded, xs), unrolled(xs)));
}

Tensor rnn(const Tensor& w, const Tensor& u, const Tensor& xs) {
  const auto [h, all] = scan(
      [&](const Tensor& before, const Tensor& x) {
        const Tensor next = tanh(matmul(before, w) + matmul(x, u));
        return std::pair(next, next * 2.0F);
      },
      zeros({3, 4}), xs);
  return sum(h) + sum(square(all));
}

TEST(Scan, GivesTheStateAndAllRows) {
  const auto f = [](const Tensor& xs) {
    return scan([](const Tensor& s, const Tensor& x) { return std::pair(s + x, s * x); },
                Tensor(0.0F), xs);
  };
  const auto check = [](const std::pair<Tensor, Tensor>& got) {
    EXPECT_EQ(got.first.item<float>(), 6);
    EXPECT_EQ(got.second.to_vector<float>(), (Floats{0, 2, 9}));
  };
  const Tensor xs(Floats{1, 2, 3});
  check(f(xs));
  check(function(f)(xs));
  EXPECT_EQ(f(zeros({0})).second.shape(), Shape({0}));
}

TEST(Scan, HasTheDerivativesOfTheUnrolledLoop) {
  const Tensor w = random::normal({4, 4}), u = random::normal({2, 4}),
               xs = random::normal({5, 3, 2});
  const auto unrolled = [](const Tensor& a, const Tensor& b, const Tensor& x) {
    Tensor h = zeros({3, 4}), total(0.0F);
    for (int i = 0; i < 5; ++i) {
      h = tanh(matmul(h, a) + matmul(x.at(i), b));
      total = total + sum(square(h * 2.0F));
    }
    return sum(h) + total;
  };
  const auto slopes = [](const Tensor& a, const Tensor& b, const Tensor& x) {
    return gradient(rnn, a, b, x);
  };
  const auto want = gradient(unrolled, w, u, xs);
  const auto eager = slopes(w, u, xs);
  const auto inside = function(slopes)(w, u, xs);
  const auto staged = function(rnn);
  const auto outside = gradient(
      [&](const Tensor& a, const Tensor& b, const Tensor& x) { return staged(a, b, x); }, w, u, xs);
  const auto each = [&](const auto& got, const char* what) {
    EXPECT_TRUE(close(std::get<0>(got), std::get<0>(want), {.rtol = 1e-4, .atol = 1e-5})) << what;
    EXPECT_TRUE(close(std::get<1>(got), std::get<1>(want), {.rtol = 1e-4, .atol = 1e-5})) << what;
    EXPECT_TRUE(close(std::get<2>(got), std::get<2>(want), {.rtol = 1e-4, .atol = 1e-5})) << what;
  };
  each(eager, "eager");
  each(inside, "inside");
  each(outside, "outside");
  EXPECT_TRUE(same_value(std::get<0>(inside), std::get<0>(eager)));
  EXPECT_TRUE(same_value(std::get<2>(inside), std::get<2>(eager)));
}

// spec: FB-07.b, CG-16
TEST(WhileLoop, DoublesThreeTimes) {
  const auto f = [](const Tensor& x) {
    return std::get<1>(
        while_loop([](const Tensor& i, const Tensor&) { return i < 3; },
                   [](const Tensor& i, const Tensor& v) { return std::tuple(i + 1, v * 2.0F); },
                   std::tuple(Tensor(0), x)));
  };
  EXPECT_EQ(both(f, Tensor(2.0F)).item<float>(), 16);
  EXPECT_EQ(both([&](const Tensor& x) { return gradient(f, x); }, Tensor(2.0F)).item<float>(), 8);
  const auto staged = function(f);
  EXPECT_EQ(gradient([&](const Tensor& x) { return staged(x); }, Tensor(2.0F)).item<float>(), 8);
  EXPECT_EQ(both([&](const Tensor& x) { return jvp(f, x, Tensor(3.0F)).second; }, Tensor(2.0F))
                .item<float>(),
            24);
  EXPECT_EQ(
      both([&](const Tensor& x) { return vmap(f)(x); }, Tensor(Floats{1, 2})).to_vector<float>(),
      (Floats{8, 16}));
}

// x <- x*x/2 + c as long as x < 100: the number of steps depends on x.
Tensor grow(const Tensor& x, const Tensor& c) {
  return while_loop([](const Tensor& s) { return s < 100.0; },
                    [&](const Tensor& s) { return s * s * 0.5 + c; }, x);
}

TEST(WhileLoop, HasDerivativesOfAnyOrder) {
  const Tensor x(3.0), c(0.25);
  const auto first = [](const Tensor& a, const Tensor& b) { return gradient(grow, a, b); };
  const auto of_x = [&](const Tensor& a, const Tensor& b) { return std::get<0>(first(a, b)); };
  const auto second = [&](const Tensor& a, const Tensor& b) { return gradient(of_x, a, b); };
  const auto check = [](const auto& got, const auto& want, const char* what) {
    EXPECT_TRUE(close(std::get<0>(got), std::get<0>(want), {.rtol = 1e-12})) << what;
    EXPECT_TRUE(close(std::get<1>(got), std::get<1>(want), {.rtol = 1e-12})) << what;
  };
  check(function(first)(x, c), first(x, c), "first");
  check(function(second)(x, c), second(x, c), "second");
  const auto third = [&](const Tensor& a, const Tensor& b) {
    return gradient([&](const Tensor& p, const Tensor& q) { return std::get<1>(second(p, q)); }, a,
                    b);
  };
  check(function(third)(x, c), third(x, c), "third");
  const auto mixed = [&](const Tensor& a, const Tensor& b) {
    return jvp([&](const Tensor& p) { return of_x(p, b); }, a, Tensor(1.0)).second;
  };
  EXPECT_TRUE(close(function(mixed)(x, c), mixed(x, c), {.rtol = 1e-12}));
}

TEST(WhileLoop, RunsExamplesWithTheirOwnNumbersOfSteps) {
  const auto f = [](const Tensor& xs) {
    return vmap([](const Tensor& x) { return grow(x, Tensor(0.25)); })(xs);
  };
  const Tensor xs(std::vector<double>{3, 50, 200});
  const Tensor got = both(f, xs);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(got.at(i).item<double>(), grow(xs.at(i), Tensor(0.25)).item<double>());
  }
}

// spec: AG-06.a, AG-06.b, AG-20.b
TEST(Loops, RefuseAStateThatChangesItsType) {
  const auto to_float = [](const Tensor& xs) {
    return fold([](const Tensor& s, const Tensor& x) { return astype(s, kFloat32) + x; }, Tensor(0),
                xs);
  };
  const auto grows = [](const Tensor& xs) {
    return fold(
        [](const Tensor& s, const Tensor& x) {
          return concat({s, reshape(x, {1})});
        },
        zeros({1}), xs);
  };
  for (const bool is_staged : {false, true}) {
    const auto run = [&](const auto& f) { is_staged ? function(f)(ones({3})) : f(ones({3})); };
    expect_error([&] { run(to_float); }, ErrorCode::kInvalidArgument,
                 {"fold: 'state' is int32[] before the first step and float32[] after a step; its "
                  "type stays the same. Begin with a value of dtype float32, such as 0.0 instead "
                  "of 0"});
    expect_error([&] { run(grows); }, ErrorCode::kInvalidArgument,
                 {"'state' is float32[1] before the first step and float32[2] after a step",
                  "its full shape from the beginning. Outside of functions while_loop takes the "
                  "option shapes = {{\"state\", {kAny}}}"});
  }
}

struct Growing {
  Tensor rows, last;
};
Tensor doubled_below(const Tensor& start, const LoopOptions& options) {
  return while_loop([](const Growing& s) { return sum(s.last) < 20.0F; },
                    [](Growing& s) {
                      s.last = s.last * 2.0F;
                      s.rows = concat({s.rows, reshape(s.last, {1, -1})});
                    },
                    Growing{reshape(start, {1, -1}), start}, options)
      .rows;
}

// spec: AG-06.b
TEST(Loops, LetSizesVaryThatTheOptionShapesNames) {
  const LoopOptions options{.shapes = {{"state/rows", {kAny, 2}}}};
  const Tensor x(Floats{1, 2});
  EXPECT_EQ(doubled_below(x, options).to_vector<float>(), (Floats{1, 2, 2, 4, 4, 8, 8, 16}));
  const Tensor slope =
      gradient([&](const Tensor& start) { return sum(doubled_below(start, options)); }, x);
  EXPECT_EQ(slope.to_vector<float>(), (Floats{15, 15}));
  // A graph knows all sizes.
  expect_error(
      [&] { function([&](const Tensor& start) { return doubled_below(start, options); })(x); },
      ErrorCode::kInvalidArgument,
      {"'state/rows' is float32[1,2] before the first step and float32[2,2] after a step",
       "Option 'shapes' lets its sizes vary where the loop runs eagerly, but a graph knows "
       "all sizes before it runs. To collect a row in each step use scan"});
  const auto with = [&](std::string name, Shape shape) {
    return [&x, option = LoopOptions{.shapes = {{std::move(name), std::move(shape)}}}] {
      doubled_below(x, option);
    };
  };
  expect_error(with("rows", {kAny, 2}), ErrorCode::kInvalidArgument,
               {"while_loop: option 'shapes' names 'rows', but the tensors are state/rows, "
                "state/last"});
  expect_error(with("state/rows", {kAny, 3}), ErrorCode::kInvalidArgument,
               {"says [?,3] of 'state/rows', which is float32[1,2] before the first step"});
  expect_error(with("state/rows", {1, kAny}), ErrorCode::kInvalidArgument,
               {"float32[2,2] after a step", "Option 'shapes' does not allow that"});
}

// spec: AG-14.a, AG-14.b
TEST(Loops, TellOfAValueThatIsKeptFromABody) {
  std::vector<Tensor> kept;
  const auto f = function([&](const Tensor& xs) {
    const Tensor total = fold(
        [&](const Tensor& s, const Tensor& x) {
          kept.push_back(x * 2.0F);
          return s + x;
        },
        Tensor(0.0F), xs);
    return total + kept[0];
  });
  expect_error([&] { f(ones({3})); }, ErrorCode::kFailedPrecondition,
               {"whose trace has ended", "scan() gives a row for each step"});
}

// spec: CD-09.b, CD-05.c
TEST(Loops, AssignVariablesInEachStep) {
  for (const bool is_staged : {false, true}) {
    Variable velocity(0.0F), place(1.0F);
    const auto f = [&](const Tensor& forces) {
      return fold(
          [&](const Tensor& s, const Tensor& force) {
            velocity.assign(velocity * 0.5F + force);
            place.assign_add(velocity);
            return s + place;
          },
          Tensor(0.0F), forces);
    };
    const auto run = function(f, {.run_eagerly = !is_staged});
    EXPECT_EQ(run(Tensor(Floats{1, 2, 4})).item<float>(), 2 + 4.5F + 9.75F);
    EXPECT_EQ(velocity.read().item<float>(), 5.25F);
    EXPECT_EQ(place.read().item<float>(), 9.75F);
  }
}

TEST(Loops, DrawTheSameNumbersInAnyForm) {
  const auto f = [](const Tensor& xs) {
    const Tensor before = random::normal({2});
    const Tensor folded =
        fold([](const Tensor& s,
                const Tensor& x) { return s + x * random::normal({2}) + random::uniform({2}); },
             zeros({2}), xs);
    const Tensor looped =
        while_loop([](const Tensor& s) { return sum(s) + random::uniform({}) < 20.0F; },
                   [](const Tensor& s) { return s + random::uniform({2}); }, folded);
    const Tensor chosen = cond(
        sum(looped) > 0.0F, [&] { return looped + random::normal({2}); }, [&] { return looped; });
    return before + chosen + random::normal({2});
  };
  const auto staged = function(f);
  const Tensor xs(Floats{1, 2, 3});
  for (int seed = 0; seed < 5; ++seed) {
    set_seed(static_cast<uint64_t>(seed));
    const Tensor eager = f(xs), eager_again = f(xs);
    set_seed(static_cast<uint64_t>(seed));
    EXPECT_TRUE(same_value(staged(xs), eager));
    EXPECT_TRUE(same_value(staged(xs), eager_again));
  }
}

// spec: ST-09.a
TEST(Loops, TellOfTheLineThatFails) {
  const auto f = function(
      [](const Tensor& xs) {
        return fold([](const Tensor& s, const Tensor& x) { return floor_divide(s, x); }, Tensor(8),
                    xs);
      },
      {.name = "quotient"});
  EXPECT_EQ(f(Tensor({2, 2})).item<int>(), 2);
  expect_error(
      [&] {
        f(Tensor({2, 0}));
      },
      ErrorCode::kInvalidArgument,
      {"floor_divide: ", "tests/functions/control_flow_test.cc:", "in function 'quotient'"});
  EXPECT_EQ(f(Tensor({4, 1})).item<int>(), 2);
}

TEST(Loops, EndAfterTheirMostSteps) {
  const auto f = [](const Tensor& x) {
    return while_loop([](const Tensor&) { return Tensor(true); },
                      [](const Tensor& s) { return s + 1.0F; }, x, {.max_iterations = 7});
  };
  EXPECT_EQ(both(f, Tensor(0.0F)).item<float>(), 7);
  expect_error(
      [&] {
        while_loop([](const Tensor&) { return Tensor(true); }, [](const Tensor& s) { return s; },
                   Tensor(0.0F), {.max_iterations = -1});
      },
      ErrorCode::kInvalidArgument, {"option 'max_iterations' is -1, but must be 0 or more"});
}

// spec: FB-07.c
TEST(Loops, NestInEachOther) {
  const auto f = [](const Tensor& xs) {
    return fold(
        [](const Tensor& s, const Tensor& row) {
          const Tensor inner = fold(
              [&](const Tensor& t, const Tensor& x) {
                return cond(
                    x > 0.0F, [&] { return t + x * s * s; }, [&] { return t - x * x; });
              },
              Tensor(0.0F), row);
          return s * 0.5F + inner;
        },
        Tensor(1.0F), xs);
  };
  const Tensor xs = random::normal({4, 3});
  both(f, xs);
  const auto slope = [&](const Tensor& x) { return gradient(f, x); };
  EXPECT_TRUE(close(function(slope)(xs), slope(xs), {.rtol = 1e-5, .atol = 1e-6}));
  const auto curve = [&](const Tensor& x) {
    return gradient([&](const Tensor& y) { return sum(square(slope(y))); }, x);
  };
  EXPECT_TRUE(close(function(curve)(xs), curve(xs), {.rtol = 1e-4, .atol = 1e-5}));
}

}  // namespace
}  // namespace etude
