// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/custom_gradient.h"

#include <cmath>

#include "etude/core/buffer.h"
#include "etude/ops.h"
#include "tests/gradient/expect.h"
#include "tests/live_memory.h"

namespace etude {
namespace {

using tests::expect_error;
using tests::expect_values;

auto log1pexp() {
  return custom_gradient([](const Tensor& x) {
    Tensor e = exp(x);
    return std::pair{log(1.0 + e), [e](const Tensor& dy) { return dy * (1.0 - 1.0 / (1.0 + e)); }};
  });
}

TEST(CustomGradient, FixesNumerics) {  // spec: CU-01.b, D45.a
  const Tensor x = 100.0;
  // exp(100) is infinite: a cotangent of 0 arrives at it, and a zero is strong.
  expect_values(gradient([](const Tensor& t) { return log(1.0 + exp(t)); }, x), {0});
  expect_values(gradient(log1pexp(), x), {1});
  expect_values(log1pexp()(Tensor(0.0)), {std::log(2.0)});
}

// spec: V49.a
TEST(CustomGradient, BodiesAndRulesGetValues) {
  const auto changes = [](Tensor x) {
    x *= 3.0;
    x.at(0) = 100.0;
    return x;
  };
  const Tensor x(std::vector<float>{1, 2});
  const auto body = recompute_grad([&](const Tensor& t) { return sum(changes(t) * t); });
  expect_values(gradient(body, x), {100, 12});
  const auto rule = custom_gradient([&](const Tensor& t) {
    const Tensor changed = changes(t);
    return std::pair{sum(changed), [changed, &changes](const Tensor& dy) {
                       const Tensor seen = changes(dy + changed * 0.0);  // writes its own value
                       return seen * dy;
                     }};
  });
  const Tensor seed(1.0F);
  const auto back = pullback(rule, x);
  expect_values(back(seed), {100, 3});
  expect_values(back(seed), {100, 3});  // as the first time
  expect_values(x, {1, 2});
  expect_values(seed, {1});
}

TEST(CustomGradient, CountsGradients) {  // spec: CU-02.a
  const auto wrong = custom_gradient([](const Tensor& x, const Tensor& y) {
    return std::pair{x * y, [](const Tensor& dy) { return dy; }};
  });
  expect_error([&] { gradient(wrong, Tensor(1.0), Tensor(2.0)); }, ErrorCode::kInvalidArgument,
               {"gradient of custom_gradient", "1 gradients for 2 inputs"});
  const auto right = custom_gradient([](const Tensor& x, const Tensor& y) {
    return std::pair{x * y, [=](const Tensor& dy) { return std::tuple{dy * 10.0, dy * 20.0}; }};
  });
  const auto [dx, dy] = gradient(right, Tensor(1.0), Tensor(2.0));
  expect_values(dx, {10});
  expect_values(dy, {20});
}

TEST(CustomGradient, AsksForVariables) {  // spec: CU-03.a, CU-03.b
  Variable v(3.0, {.name = "scale"});
  const auto bare = custom_gradient([&](const Tensor& x) {
    return std::pair{x * v, [](const Tensor& dy) { return dy; }};
  });
  expect_error([&] { bare(Tensor(2.0)); }, ErrorCode::kFailedPrecondition,
               {"custom_gradient", "'scale'"});
  const auto full = custom_gradient([&](const Tensor& x) {
    return std::pair{x * v, [&, x](const Tensor& dy, std::span<const Variable> variables) {
                       EXPECT_EQ(variables.size(), 1U);
                       return std::pair{dy * 100.0, std::vector<Tensor>{dy * x}};
                     }};
  });
  Tensor x = 2.0;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = full(x);
  const auto [dx, dv] = tape.gradient(y, std::tie(x, v));
  expect_values(dx, {100});
  expect_values(dv, {2});
}

TEST(CustomGradient, SecondOrderIsThePullbacks) {  // spec: CU-05.a
  const auto slope = [](const Tensor& x) { return gradient(log1pexp(), x); };
  expect_values(slope(Tensor(0.0)), {0.5});
  expect_values(gradient(slope, Tensor(0.0)), {0.25});
  const auto same = custom_gradient([](const Tensor& x) {
    return std::pair{x, [](const Tensor& dy) { return dy * 7.0; }};
  });
  expect_values(gradient(same, Tensor(1.0)), {7});
}

TEST(CustomGradient, StraightThrough) {  // spec: CU-08.b, CU-02.b
  const auto through = custom_gradient([](const Tensor& x) {
    return std::pair{x * x, [](const Tensor& dy) { return dy; }};
  });
  const auto [v, g] = value_with_gradient(through, Tensor(3.0));
  expect_values(v, {9});
  expect_values(g, {1});
  int plain = 0;
  const auto both = custom_gradient([&](const Tensor& x) { return ++plain, x * x; },
                                    [](const Tensor& x) {
                                      return std::pair{x * x, [](const Tensor& dy) { return dy; }};
                                    });
  expect_values(both(Tensor(3.0)), {9});
  EXPECT_EQ(plain, 1);
  expect_values(gradient(both, Tensor(3.0)), {1});
}

struct Pair {
  Tensor a, b;
};

TEST(StopGradient, KeepsTheValueOnly) {  // spec: CU-08.a, D28, TP-16.b
  expect_values(gradient([](const Tensor& x) { return x * stop_gradient(x); }, Tensor(3.0)), {3});
  Tensor x = 3.0;
  GradientTape tape;
  tape.watch(x);
  const Pair cut = stop_gradient(Pair{x, x * x});
  expect_values(cut.b, {9});
  const Tensor y = cut.a * cut.b;
  EXPECT_NE(tape.explain(y, x).find("stop_gradient"), std::string::npos) << tape.explain(y, x);
  EXPECT_FALSE(tape.gradient(y, x).has_value());
}

TEST(RecomputeGrad, KeepsInputsOnly) {  // spec: CU-06.a..c, D30
  int runs = 0;
  const auto deep = [&](const Tensor& x) {
    ++runs;
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = exp(y * 0.1);
    return y;
  };
  const auto cheap = recompute_grad(deep);
  Tensor x({0.5, 1.0});
  const Tensor want = gradient([&](const Tensor& t) { return sum(deep(t)); }, x);
  runs = 0;
  const int64_t before = tests::live_tensors();
  GradientTape tape;
  tape.watch(x);
  const Tensor y = cheap(x);
  EXPECT_EQ(runs, 1);
  EXPECT_LE(tests::live_tensors(), before + 2);
  const Tensor got = tape.gradient(y, x);
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(same_value(got, want)) << got << want;
}

TEST(RecomputeGrad, VariablesAreAsTheyWere) {  // spec: CU-06.b
  Variable v(3.0);
  const auto f = recompute_grad([&](const Tensor& x) { return x * v * v; });
  Tensor x = 2.0;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  v.assign(100.0);
  const auto [dx, dv] = tape.gradient(y, std::tie(x, v));
  expect_values(dx, {9});
  expect_values(dv, {12});
}

TEST(CustomGradient, ClosuresDieWithTheTape) {  // spec: CU-09.a, D48
  const auto token = std::make_shared<int>(1);
  Tensor x = 2.0;
  {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = custom_gradient([token](const Tensor& t) {
      return std::pair{t * t, [token](const Tensor& dy) { return dy; }};
    })(x);
    EXPECT_GT(token.use_count(), 1);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(CustomGradient, TakesSeveralVariables) {  // spec: CU-03.c
  Variable a(3.0, {.name = "first"}), b(5.0, {.name = "second"});
  const auto bare = custom_gradient([&](const Tensor& x) {
    return std::pair{x * a * b, [](const Tensor& dy) { return dy; }};
  });
  expect_error([&] { bare(Tensor(2.0)); }, ErrorCode::kFailedPrecondition, {"'first'", "'second'"});
  std::string names;
  const auto full = custom_gradient([&](const Tensor& x) {
    const Tensor y = x * a;
    return std::pair{y * b, [&](const Tensor& dy, std::span<const Variable> variables) {
                       std::vector<Tensor> out;
                       for (const Variable& v : variables) {
                         names += v.name() + " ";
                         out.push_back(dy * 10.0 * v);
                       }
                       return std::pair{dy * 100.0, out};
                     }};
  });
  const Tensor x = 2.0;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = full(x);
  const auto [dx, da, db] = tape.gradient(y, std::tie(x, a, b));
  expect_values(dx, {100});
  expect_values(da, {30});
  expect_values(db, {50});
  EXPECT_EQ(names, "first second ");
}

TEST(CustomGradient, OfAnInputThatIsReturnedHasASecondOrder) {  // spec: CU-05.c
  const auto same = custom_gradient([](const Tensor& x) {
    return std::pair{x, [x](const Tensor& dy) { return dy * x * 7.0; }};
  });
  const auto slope = [&](const Tensor& x) { return gradient(same, x); };
  expect_values(slope(Tensor(2.0)), {14});
  expect_values(gradient(slope, Tensor(2.0)), {7});
}

}  // namespace
}  // namespace etude
