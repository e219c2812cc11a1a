// SPDX-License-Identifier: Apache-2.0
// Staged functions: their results, their traces, and the calls that they refuse.
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

TEST(Function, GivesTheSameBitsAsThePlainCall) {
  const auto f = [](const Tensor& x, const Tensor& w) { return tanh(matmul(x, w) + 0.5F) * 2.0F; };
  const auto staged = function(f);
  const Tensor x = random::normal({4, 5}), w = random::normal({5, 3});
  EXPECT_TRUE(same_value(staged(x, w), f(x, w)));
  EXPECT_TRUE(same_value(staged(x, w), f(x, w)));
  EXPECT_EQ(staged.trace_count(), 1u);
}

// spec: TC-01.a
TEST(Function, TracesOncePerKindOfArguments) {
  const auto triple = function([](const Tensor& x) { return x + x + x; });
  EXPECT_TRUE(same_value(triple(ones({2, 2})), ones({2, 2}) * 3.0F));
  EXPECT_TRUE(
      same_value(triple(astype(ones({2, 2}), kUInt8)), astype(ones({2, 2}) * 3.0F, kUInt8)));
  EXPECT_EQ(triple.trace_count(), 2u);
  for (int i = 0; i < 50; ++i) triple(ones({2, 2}));
  EXPECT_EQ(triple.trace_count(), 2u);
}

// spec: ST-02
TEST(Function, RunsHostCodeWhileTracingOnly) {
  int runs = 0;
  const auto f = function([&](const Tensor& x) {
    ++runs;
    return x * 2.0F;
  });
  f(ones({2}));
  f(ones({2}));
  EXPECT_EQ(runs, 1);
}

// spec: ST-03.b, ST-04.a
TEST(Function, FixesHostNumbersAndDrawsAnew) {
  float host = 1;
  const auto f =
      function([&](const Tensor& x) { return std::tuple(x * host, random::normal({4})); });
  const auto [a, drawn] = f(Tensor(2.0F));
  host = 100;
  const auto [b, drawn_again] = f(Tensor(2.0F));
  EXPECT_EQ(a.item<float>(), 2);
  EXPECT_EQ(b.item<float>(), 2);
  EXPECT_FALSE(same_value(drawn, drawn_again));
}

// spec: ST-05.a, AG-01.b
TEST(Function, UnrollsHostLoops) {
  const auto f = function([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 100; ++i) y = y * x;
    return y;
  });
  f(ones({2}));
  EXPECT_EQ(f.traces().front().graph().size(), 100u);
}

// spec: ST-07.a
TEST(Function, LeavesOutWhatNoResultNeeds) {
  const auto f = function([](const Tensor& x) {
    const Tensor unused = exp(x);
    return x + 1.0F;
  });
  f(ones({2}));
  EXPECT_EQ(f.traces().front().graph().size(), 1u);
}

// spec: ST-06
TEST(Function, RefusesValuesOfATraceThatIsOver) {
  Tensor kept;
  const auto f = function(
      [&](const Tensor& x) {
        kept = x * 3.0F;
        return kept;
      },
      {.name = "leaky"});
  f(ones({2}));
  expect_error([&] { kept + 1.0F; }, ErrorCode::kFailedPrecondition,
               {"multiply", "function_test.cc", "function 'leaky'", "Return it"});
  expect_error([&] { kept.to_vector<float>(); }, ErrorCode::kFailedPrecondition,
               {"function 'leaky'", "Return it"});
  const auto g = function([&](const Tensor& x) { return x + kept; }, {.name = "other"});
  expect_error([&] { g(ones({2})); }, ErrorCode::kFailedPrecondition, {"function 'leaky'"});
}

// spec: AG-20.c, AG-20.d
TEST(Function, RefusesHostDecisionsOnTensors) {
  const auto f =
      function([](const Tensor& x) { return sum(x) > 0.0F ? x : -x; }, {.name = "decides"});
  expect_error([&] { f(ones({2})); }, ErrorCode::kFailedPrecondition,
               {"greater", "function_test.cc", "function 'decides'", "where()", "host_function()"});
  EXPECT_EQ(f.trace_count(), 0u);
}

// spec: ST-08.a
TEST(Function, IsNotSpoiltByAFailure) {
  const auto pick =
      function([](const Tensor& x, const Tensor& i) { return take(x, i, {.axis = 0}); });
  expect_error([&] { pick(ones({3}), Tensor({9})); }, ErrorCode::kOutOfRange,
               {"take", "9", "function_test.cc"});
  EXPECT_TRUE(same_value(pick(ones({3}), Tensor({2})), ones({1})));
  EXPECT_EQ(pick.trace_count(), 1u);
}

// spec: ST-10
TEST(Function, RunsEagerlyWhenAsked) {
  int runs = 0;
  const auto body = [&](const Tensor& x) {
    ++runs;
    return x * 2.0F;
  };
  const auto f = function(body);
  f(ones({2}));
  run_functions_eagerly(true);
  EXPECT_TRUE(same_value(f(ones({2})), ones({2}) * 2.0F));
  f(ones({2}));
  run_functions_eagerly(false);
  EXPECT_EQ(runs, 3);
  f(ones({2}));
  EXPECT_EQ(runs, 3);
  const auto g = function(body, {.run_eagerly = true});
  g(ones({2}));
  g(ones({2}));
  EXPECT_EQ(runs, 5);
}

// spec: LC-02, V47.a
TEST(Function, KeepsACaptureAsItWas) {
  Tensor c = ones({2});
  const auto f = function([&](const Tensor& x) { return x + c; });
  EXPECT_EQ(f(zeros({2})).to_vector<float>(), (std::vector<float>{1, 1}));
  c += 5.0F;
  EXPECT_EQ(f(zeros({2})).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(f.traces().front().captures().size(), 1u);
}

// spec: LC-03
TEST(Function, MakesAnInputOfEachCaptureOnce) {
  const Tensor c = ones({2});
  const auto f = function([&](const Tensor& x) { return x * c + c * 0.5F; });
  f(ones({2}));
  const Graph& graph = f.traces().front().graph();
  ASSERT_EQ(graph.inputs().size(), 2u);
  EXPECT_EQ(graph.inputs()[1].role, InputRole::kCapture);
  EXPECT_EQ(graph.constants().size(), 1u);  // 0.5 has no other use
}

// spec: CO-01.a, ST-01.a
TEST(Function, CallsAnotherAsOneNode) {
  const auto inner = function([](const Tensor& a) { return nn::relu(a); }, {.name = "inner"});
  const auto outer =
      function([&](const Tensor& a, const Tensor& b) { return inner(matmul(a, b)); });
  const Tensor b = eye(3) * Tensor({-1.0, 1.0, 2.0});
  EXPECT_TRUE(same_value(outer(eye(3), b), eye(3) * Tensor({0.0, 1.0, 2.0})));
  EXPECT_EQ(outer.traces().front().graph().size(), 2u);
  EXPECT_EQ(inner.trace_count(), 1u);
  outer(eye(3), b);
  EXPECT_EQ(outer.trace_count() + inner.trace_count(), 2u);
}

// spec: LC-04.a
TEST(Function, CapturesThroughAllLevels) {
  const Tensor c = ones({2}) * 3.0F;
  const auto inner = function([&](const Tensor& x) { return x * c; });
  const auto middle = function([&](const Tensor& x) { return inner(x) + 1.0F; });
  const auto outer = function([&](const Tensor& x) { return middle(x * 2.0F); });
  GradientTape tape;
  tape.watch(c);
  const Tensor y = sum(outer(ones({2})));
  EXPECT_EQ(y.item<float>(), 14);
  EXPECT_EQ(tape.gradient(y, c).to_vector<float>(), (std::vector<float>{2, 2}));
}

// spec: LC-04.c, TC-15
TEST(Function, CapturesAValueOfTheTraceAroundIt) {
  const auto outer = function([](const Tensor& x) {
    const Tensor y = exp(x);
    const auto inner = function([&](const Tensor& z) { return z * y; });
    return inner(x) + inner(y);
  });
  const Tensor x({0.5, 1.0});
  EXPECT_TRUE(same_value(outer(x), x * exp(x) + exp(x) * exp(x)));
  EXPECT_TRUE(
      same_value(outer(x + 1.0F), (x + 1.0F) * exp(x + 1.0F) + exp(x + 1.0F) * exp(x + 1.0F)));
}

// spec: CO-04.a
TEST(Function, RecursesOnHostValues) {
  std::optional<Function<Tensor(int, const Tensor&)>> times_factorial;
  times_factorial = function<Tensor(int, const Tensor&)>([&](int n, const Tensor& x) {
    return n <= 1 ? x : (*times_factorial)(n - 1, x) * static_cast<float>(n);
  });
  EXPECT_EQ((*times_factorial)(5, Tensor(2.0)).item<float>(), 240);
  EXPECT_EQ(gradient([&](const Tensor& x) { return (*times_factorial)(5, x); }, Tensor(2.0))
                .item<float>(),
            120);
}

// spec: CO-05.a, CO-05.b
TEST(Function, RefusesEndlessRecursion) {
  std::optional<Function<Tensor(const Tensor&)>> f;
  f = function<Tensor(const Tensor&)>([&](const Tensor& x) { return (*f)(x) + 1.0F; },
                                      {.name = "endless"});
  expect_error([&] { (*f)(ones({2})); }, ErrorCode::kUnimplemented,
               {"'endless' calls itself", "loop on tensors with while_loop()"});
  std::optional<Function<Tensor(int, const Tensor&)>> g;
  g = function<Tensor(int, const Tensor&)>(
      [&](int n, const Tensor& x) { return (*g)(n + 1, x) + 1.0F; }, {.name = "deep"});
  expect_error([&] { (*g)(0, ones({2})); }, ErrorCode::kUnimplemented,
               {"staged functions call each other", "'deep'", "Loop on tensors with while_loop()"});
  // A recursion that ends by elements of a tensor cannot be traced.
  const auto halved = [](const Tensor& x) {
    const auto run = [](const auto& self, const Tensor& y) -> Tensor {
      return y.item<float>() < 1 ? y : self(self, y / 2.0);
    };
    return run(run, x);
  };
  EXPECT_EQ(halved(Tensor(5.0)).item<double>(), .625);
  expect_error([&] { function(halved)(Tensor(5.0)); }, ErrorCode::kFailedPrecondition,
               {"has no elements before the function runs", "write while_loop()"});
}

// spec: FB-02.a
TEST(Function, DifferentiatesAsThePlainCallDoes) {
  const Tensor a(5.0);
  const auto f = function([](const Tensor& x, const Tensor& b) { return x * (x + b); });
  for (const float b : {1.0F, 3.0F}) {
    const auto slope = [&](const Tensor& x) {
      return gradient([&](const Tensor& y) { return f(y, Tensor(b)); }, x);
    };
    EXPECT_EQ(slope(a).item<float>(), 10 + b);            // tape outside
    EXPECT_EQ(function(slope)(a).item<float>(), 10 + b);  // in a second function
    const auto inside = function([&](const Tensor& x) {   // tape inside
      return gradient([&](const Tensor& y) { return y * (y + b); }, x);
    });
    EXPECT_EQ(inside(a).item<float>(), 10 + b);
  }
}

// spec: FB-04.a
TEST(Function, DifferentiatesTwice) {
  const auto f = function([](const Tensor& x) { return cos(x); });
  const auto second = [&](const Tensor& x) {
    return gradient(
        [&](const Tensor& y) { return gradient([&](const Tensor& z) { return f(z); }, y); }, x);
  };
  const Tensor x(0.7F);
  EXPECT_FLOAT_EQ(second(x).item<float>(), -std::cos(0.7F));
  EXPECT_FLOAT_EQ(function(second)(x).item<float>(), -std::cos(0.7F));
}

// spec: FB-05, FB-06
TEST(Function, TellsOutputsWithoutGradients) {
  const auto f = function([](const Tensor& x, const Tensor& y) {
    return std::tuple(x * x, Tensor(7), stop_gradient(y) * 2.0F);
  });
  GradientTape tape({.persistent = true});
  const Tensor x(3.0F), y(2.0F);
  tape.watch(x);
  tape.watch(y);
  const auto [square, seven, cut] = f(x, y);
  EXPECT_EQ(tape.gradient(square, x).item<float>(), 6);
  EXPECT_EQ(seven.item<int>(), 7);
  EXPECT_FALSE(tape.gradient(square, y).has_value());
  EXPECT_FALSE(tape.gradient(cut, y).has_value());
}

// spec: FB-09.a
TEST(Function, KeepsMemoryFlatOverManySteps) {
  const auto loss = function([](const Tensor& w, const Tensor& x) { return sum(tanh(w * x)); });
  Tensor w = ones({100});
  const Tensor x = ones({100});
  const auto step = [&] { w -= 0.01F * gradient([&](const Tensor& v) { return loss(v, x); }, w); };
  for (int i = 0; i < 3; ++i) step();
  const MemoryScope memory;
  for (int i = 0; i < 300; ++i) step();
  EXPECT_LE(memory.stats().live_tensors, 4);
  EXPECT_EQ(loss.trace_count(), 1u);
}

TEST(Function, HasForwardDerivativesAndBatches) {
  const auto f = function([](const Tensor& x) { return sum(x * x * x); });
  const Tensor x({1.0, 2.0});
  EXPECT_EQ(jvp([&](const Tensor& y) { return f(y); }, std::tuple(x), std::tuple(ones({2})))
                .second.item<float>(),
            15);
  const Tensor rows({{1.0, 2.0}, {3.0, 0.0}});
  EXPECT_EQ(vmap([&](const Tensor& y) { return f(y); })(rows).to_vector<float>(),
            (std::vector<float>{9, 27}));
}

// spec: IM-11.b, IM-11.d, CD-10.b
TEST(Function, DrawsNewNumbersAtEachCallAndThoseOfThePlainCall) {
  const auto body = [](const Tensor& x) { return x + random::normal({3}) * random::uniform({3}); };
  const auto f = function(body);
  const Tensor x = zeros({3});
  f(x);
  set_seed(7);
  const Tensor a = f(x), b = f(x);
  set_seed(7);
  EXPECT_TRUE(same_value(a, body(x)));
  EXPECT_TRUE(same_value(b, body(x)));
  EXPECT_FALSE(same_value(a, b));
}

TEST(Function, DrawsInASeedScopeRepeat) {
  const auto f = function([](const Tensor& x) {
    const SeedScope seed(3);
    return x + random::normal({3});
  });
  EXPECT_TRUE(same_value(f(zeros({3})), f(zeros({3}))));
  const SeedScope seed(3);
  EXPECT_TRUE(same_value(f(zeros({3})), random::normal({3})));
}

// spec: CU-06.d
TEST(Function, RecomputesWithTheSameDraws) {
  const auto noisy = recompute_grad([](const Tensor& x) { return sum(x * random::normal({4})); });
  const auto slope = [&](const Tensor& x) {
    return gradient([&](const Tensor& y) { return noisy(y); }, x);
  };
  const Tensor x = ones({4});
  set_seed(5);
  const Tensor eager = slope(x);
  set_seed(5);
  EXPECT_TRUE(same_value(function(slope)(x), eager));
  set_seed(5);
  EXPECT_TRUE(same_value(eager, random::normal({4})));
}

struct Line {
  Tensor w = Tensor({1.0, 2.0});
  Tensor b = Tensor(0.5F);
};

// spec: ST-11.c
TEST(Function, ChangesInOutArguments) {
  const auto body = [](Line& line, const Tensor& x) {
    const auto [loss, slope] =
        value_with_gradient([&](const Line& l) { return mean(square(sum(x * l.w) + l.b)); }, line);
    move(line, -0.1F * slope);
    return loss;
  };
  const auto step = function(body);
  Line staged, eager;
  const Tensor x({1.0, -0.5});
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(same_value(step(staged, x), body(eager, x)));
    EXPECT_TRUE(same_value(staged.w, eager.w));
    EXPECT_TRUE(same_value(staged.b, eager.b));
  }
  EXPECT_EQ(step.trace_count(), 1u);
}

// spec: IM-12.b
TEST(Function, LeavesInOutArgumentsAloneWhenItFails) {
  const auto f = function([](Tensor& x, const Tensor& i) {
    x += 1.0F;
    return take(x, i, {.axis = 0});
  });
  Tensor x = ones({3});
  expect_error([&] { f(x, Tensor({5})); }, ErrorCode::kOutOfRange, {"take"});
  EXPECT_TRUE(same_value(x, ones({3})));
}

struct Counted {
  Tensor total = Tensor(0.0F);
  int calls = 0;
};

// spec: ST-11.a
TEST(Function, RefusesChangesOfHostArguments) {
  const auto f = function(
      [](Counted& c, const Tensor& x) {
        c.total += sum(x);
        ++c.calls;
      },
      {.name = "counts", .arg_names = {"counted", "x"}});
  Counted counted;
  expect_error([&] { f(counted, ones({2})); }, ErrorCode::kInvalidArgument,
               {"'counts'", "counted/calls", "tensor"});
  EXPECT_EQ(counted.calls, 0);
  EXPECT_EQ(counted.total.item<float>(), 0);
}

TEST(Function, RefusesOneObjectTwiceWhereItMayWrite) {
  const auto f = function([](Tensor& a, const Tensor& b) { a += b; });
  Tensor x = ones({2});
  expect_error([&] { f(x, x); }, ErrorCode::kInvalidArgument,
               {"arg0 and arg1 are the same object"});
}

// spec: TC-02.a
TEST(Function, TracesAnewInAnotherPhase) {
  const auto f = function([](const Tensor& x) { return is_training() ? x * 2.0F : x; });
  EXPECT_EQ(f(Tensor(1.0F)).item<float>(), 1);
  {
    const PhaseScope training(Phase::kTraining);
    EXPECT_EQ(f(Tensor(1.0F)).item<float>(), 2);
  }
  EXPECT_EQ(f(Tensor(1.0F)).item<float>(), 1);
  EXPECT_EQ(f.trace_count(), 2u);
}

// spec: SG-11.a..c
TEST(Function, KeepsTheStructureOfResults) {
  struct Result {
    Tensor total;
    std::optional<Tensor> nothing;
    std::map<std::string, Tensor> named;
    Tensor absent;
    int number = 0;
  };
  const auto f = function([](const Tensor& x) {
    return Result{sum(x), std::nullopt, {{"x", x}, {"twice", x * 2.0F}}, Tensor(), 7};
  });
  for (int i = 0; i < 2; ++i) {
    const Result r = f(ones({2}));
    EXPECT_EQ(r.total.item<float>(), 2);
    EXPECT_FALSE(r.nothing.has_value());
    EXPECT_EQ(r.named.at("twice").to_vector<float>(), (std::vector<float>{2, 2}));
    EXPECT_EQ(r.named.at("x").to_vector<float>(), (std::vector<float>{1, 1}));
    EXPECT_FALSE(r.absent.has_value());
    EXPECT_EQ(r.number, 7);
  }
}

struct Scaler {
  Tensor factor = Tensor(3.0F);
  Tensor apply(const Tensor& x) const { return x * factor; }
  void grow(const Tensor& by) { factor = factor + by; }
};

// spec: TC-17.b
TEST(Function, StagesMemberFunctions) {
  const auto apply = function(&Scaler::apply);
  const auto grow = function(&Scaler::grow);
  Scaler a, b;
  grow(b, Tensor(1.0F));
  EXPECT_EQ(apply(a, Tensor(2.0F)).item<float>(), 6);
  EXPECT_EQ(apply(b, Tensor(2.0F)).item<float>(), 8);
  EXPECT_EQ(apply.trace_count(), 1u);
}

// spec: TC-18.a
TEST(Function, TracesOnceForManyThreads) {
  std::atomic<int> runs = 0;
  const auto f = function([&](const Tensor& x) {
    ++runs;
    return exp(x) + 1.0F;
  });
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 100; ++t) {
    threads.emplace_back([&] {
      if (!same_value(f(ones({3})), exp(ones({3})) + 1.0F)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(wrong, 0);
}

// spec: TC-18.c
TEST(Function, KeepsNothingOfATraceThatThrows) {
  bool fails = true;
  const auto f = function([&](const Tensor& x) {
    if (fails) throw std::runtime_error("host");
    return x;
  });
  EXPECT_THROW(f(ones({2})), std::runtime_error);
  EXPECT_EQ(f.trace_count(), 0u);
  fails = false;
  EXPECT_TRUE(same_value(f(ones({2})), ones({2})));
  EXPECT_TRUE(same_value(ones({2}) + 1.0F, ones({2}) * 2.0F));  // the thread is eager again
}

// spec: TC-19.a
TEST(Function, FreesWhatItHolds) {
  const MemoryScope memory;
  {
    const Tensor c = ones({1000});
    const auto f = function([c](const Tensor& x) { return x * c + 1.0F; });
    f(ones({1000}));
    f(ones({1000}));
  }
  EXPECT_LT(memory.stats().live_tensors, 16);  // abstract tensors of types and numbers live on
  EXPECT_LT(memory.stats().live_bytes, 4000);
}

TEST(Function, BoundsItsTraces) {
  const auto f =
      function([](int k, const Tensor& x) { return x * static_cast<float>(k); }, {.max_traces = 3});
  for (int k = 0; k < 10; ++k) EXPECT_EQ(f(k, Tensor(2.0F)).item<float>(), 2 * k);
  EXPECT_EQ(f.trace_count(), 3u);
}

TEST(Function, ExplainsItsTraces) {
  const auto f = function([](const Tensor& x, bool negate) { return negate ? -x : x; },
                          {.name = "f", .arg_names = {"x", "negate"}});
  f(ones({2}), false);
  f(ones({3}), false);
  f(ones({3}), true);
  const std::string text = f.explain();
  EXPECT_NE(text.find("x is float32[3], was float32[2] in trace 1"), std::string::npos) << text;
  EXPECT_NE(text.find("negate is true, was false in trace 2"), std::string::npos) << text;
}

TEST(Function, PrintsItsGraphs) {
  const auto f =
      function([](const Tensor& x,
                  const Tensor& w) { return tanh(matmul(x, w)) * 0.5F + random::uniform({2}); },
               {.name = "f", .arg_names = {"x", "w"}});
  f(ones({2, 3}), ones({3, 2}));
  const std::string text = f.traces().front().to_string();
  EXPECT_NE(text.find("graph f(x: float32[2,3], w: float32[3,2], *key: uint64[2])"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("matmul(x, w)"), std::string::npos) << text;
  EXPECT_NE(text.find("function_test.cc:"), std::string::npos) << text;
  EXPECT_TRUE(parse_graph(to_text(f.traces().front().graph()))->same(f.traces().front().graph()));
}

TEST(Function, TakesSparseGradientsAsDenseOnes) {
  const Tensor ids({1, 1, 0});
  const auto f = function([&](const Tensor& table) {
    return gradient([&](const Tensor& t) { return sum(take(t, ids, {.axis = 0}) * 2.0F); }, table);
  });
  EXPECT_EQ(f(ones({3, 1})).to_vector<float>(), (std::vector<float>{2, 4, 0}));
}

TEST(Function, StagesTheStateOfLayers) {
  const auto train = [](nn::BatchNorm& norm, const Tensor& x) {
    const PhaseScope training(Phase::kTraining);
    const auto slope = gradient([&](const nn::BatchNorm& n) { return sum(n(x) * x); }, norm);
    move(norm, -0.1F * slope);
  };
  nn::BatchNorm staged(3), eager(3);
  const auto step = function(train);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = random::normal({8, 3});
    step(staged, x);
    train(eager, x);
  }
  const Tensor x = random::normal({4, 3});
  EXPECT_TRUE(same_value(staged(x), eager(x)));
  EXPECT_EQ(step.trace_count(), 1u);
}

}  // namespace
}  // namespace etude
