// SPDX-License-Identifier: Apache-2.0
// State that is fixed while a function is traced, or is not: host state, captures, callers, keys.
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/context/context.h"
#include "etude/etude.h"
#include "etude/stage/internal/tracing_lock.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::contains;
using tests::expect_error;

std::string text_of(const GraphFunction& graph) { return graph.to_string(); }

// Notes the calls that come by.
struct Noting final : Context {
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override {
    ops.emplace_back(op.name());
    return parent()->execute(op, operands, attrs, where);
  }
  std::vector<std::string> ops;
};

// spec: ST-01.b
TEST(Tracing, AnEagerCallIsOneCallOfAnOp) {
  const auto f = function([](const Tensor& x) { return tanh(x) * 2.0F + exp(x); });
  const Tensor x = ones({2});
  f(x);
  Noting noting;
  ContextStack::push(noting);
  f(x);
  ContextStack::remove(noting);
  EXPECT_EQ(noting.ops, std::vector<std::string>{"call"});
}

// spec: ST-03.a, ST-04.c
TEST(Tracing, HostDrawsAndIteratorsAreReadOnce) {
  std::minstd_rand host(1);
  const auto f =
      function([&](const Tensor& x) { return x * static_cast<float>(1 + host() % 1000); });
  const Tensor first = f(Tensor(1.0F));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_value(f(Tensor(1.0F)), first));
  const std::vector<float> items = {5, 6, 7};
  auto next = items.begin();
  const auto g = function([&](const Tensor& x) { return x * *next++; });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(g(Tensor(1.0F)).item<float>(), 5);
}

// spec: ST-05.b
TEST(Tracing, OfAHostChoiceTheBranchTakenIsKept) {
  const auto f = function([](const Tensor& x, bool grows) { return grows ? exp(x) : log(x); });
  f(ones({2}), true);
  const std::string text = text_of(f.traces().front());
  EXPECT_TRUE(contains(text, "exp(")) << text;
  EXPECT_FALSE(contains(text, "log(")) << text;
}

// spec: ST-07.e
TEST(Tracing, DrawsThatNobodyReadsMoveTheGenerator) {
  const auto body = [](const Tensor& x) {
    static_cast<void>(random::normal({2}));
    return x + 1.0F;
  };
  const auto f = function(body);
  const Tensor x = zeros({2});
  f(x);
  set_seed(3);
  f(x);
  const Generator staged = ambient().generator;
  set_seed(3);
  EXPECT_NE(ambient().generator, staged);
  body(x);
  EXPECT_EQ(ambient().generator, staged);
}

// spec: ST-08.b
TEST(Tracing, AFailedAssertionSpoilsNoLaterCall) {
  const auto f = function([](const Tensor& x) {
    assert_true(x > 0.0F, "x must be positive");
    return x * 2.0F;
  });
  EXPECT_EQ(f(Tensor(1.0F)).item<float>(), 2);
  for (int i = 0; i < 2; ++i) {
    expect_error([&] { f(Tensor(-1.0F)); }, ErrorCode::kFailedPrecondition, {"x must be positive"});
    EXPECT_EQ(f(Tensor(3.0F)).item<float>(), 6);
  }
  EXPECT_EQ(f.trace_count(), 1U);
}

// spec: LC-04.b, LC-07.a
TEST(Tracing, ACaptureIsAnInputOfAllCallersAndLivesWithThem) {
  std::optional<Tensor> c(full({2}, 3.0F));
  const auto inner = function([&](const Tensor& x) { return x * *c; });
  const auto middle = function([&](const Tensor& x) { return inner(x) + 1.0F; });
  const auto outer = function([&](const Tensor& x) { return middle(x * 2.0F); });
  const Tensor x = ones({2});
  EXPECT_TRUE(same_value(outer(x), full({2}, 7.0F)));
  for (const GraphFunction& graph :
       {GraphFunction(inner.traces().front()), GraphFunction(middle.traces().front()),
        GraphFunction(outer.traces().front())}) {
    EXPECT_EQ(graph.captures().size(), 1U) << text_of(graph);
    EXPECT_EQ(graph.graph().inputs().size(), 2U) << text_of(graph);
  }
  c.reset();
  EXPECT_TRUE(same_value(outer(x), full({2}, 7.0F)));
}

// spec: LC-04.d
TEST(Tracing, ValuesOfASiblingTraceAreRefused) {
  Tensor kept;
  const auto first = function([&](const Tensor& x) { return kept = exp(x); }, {.name = "first"});
  const auto second = function([&](const Tensor& x) { return x + kept; }, {.name = "second"});
  const auto outer = function([&](const Tensor& x) {
    const Tensor y = first(x);
    return y + second(x);
  });
  expect_error([&] { outer(ones({2})); }, ErrorCode::kFailedPrecondition,
               {"the result of exp", "function 'first'", "tracing_test.cc", "Return it"});
}

// spec: CO-01.b
TEST(Tracing, AThirdCallerReusesTheGraphOfInner) {
  const auto inner = function([](const Tensor& x) { return nn::relu(x); });
  const auto one = function([&](const Tensor& x) { return inner(x) + 1.0F; });
  const auto two = function([&](const Tensor& x) { return inner(-x); });
  const Tensor x({-1.0, 2.0});
  one(x);
  two(x);
  const auto three = function([&](const Tensor& y) { return inner(y) * 2.0F; });
  EXPECT_EQ(three(x).to_vector<float>(), (std::vector<float>{0, 4}));
  EXPECT_EQ(inner.trace_count(), 1U);
}

// spec: CO-04.b
TEST(Tracing, TwoFunctionsCallEachOther) {
  std::optional<Function<Tensor(int, const Tensor&)>> even, odd;
  even = function<Tensor(int, const Tensor&)>(
      [&](int n, const Tensor& x) { return n == 0 ? x : (*odd)(n - 1, x * 2.0F); });
  odd = function<Tensor(int, const Tensor&)>(
      [&](int n, const Tensor& x) { return n == 0 ? -x : (*even)(n - 1, x + 1.0F); });
  EXPECT_EQ((*even)(4, Tensor(5.0F)).item<float>(), 23);  // (5 * 2 + 1) * 2 + 1
  EXPECT_EQ(gradient([&](const Tensor& x) { return (*even)(4, x); }, Tensor(5.0F)).item<float>(),
            4);
}

// spec: TC-01.b
TEST(Tracing, FiftyCallsOfSixSignaturesAreSixTraces) {
  const auto f =
      function([](const Tensor& x, int k) { return sum(astype(x, kFloat64)) * double(k); });
  const Tensor given[] = {ones({2}), ones({2}, {.dtype = kInt32}), ones({2, 2})};
  for (int i = 0; i < 50; ++i) {
    const Tensor& x = given[i % 3];
    EXPECT_EQ(f(x, 1 + i % 2).item<double>(), static_cast<double>(x.size() * (1 + i % 2)));
  }
  EXPECT_EQ(f.trace_count(), 6U);
}

struct Mode {
  bool training = true;
  int times = 2;
};

// spec: TC-02.b, TC-03.b
TEST(Tracing, OptionsAreComparedByTheirValues) {
  const auto f = function([](const Tensor& x, Mode mode) {
    const Tensor y = mode.training ? x * random::uniform({2}) : x;
    return y * static_cast<float>(mode.times);
  });
  const Tensor x = ones({2});
  f(x, {});
  f(x, {.training = true});
  f(x, {.times = 2});
  EXPECT_EQ(f.trace_count(), 1U);
  EXPECT_TRUE(same_value(f(x, {.training = false}), x * 2.0F));
  f(x, {});
  EXPECT_EQ(f.trace_count(), 2U);
  EXPECT_TRUE(contains(text_of(f.traces()[0]), "uniform"));
  EXPECT_FALSE(contains(text_of(f.traces()[1]), "uniform"));
}

// spec: TC-06.a
TEST(Tracing, OneOnePointZeroAndTrueAreThreeKeys) {
  const auto f = function([](const Tensor& x, const std::variant<int, double, bool>& by) {
    return x * static_cast<float>(by.index() + 1);
  });
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(f(Tensor(1.0F), 1).item<float>(), 1);
    EXPECT_EQ(f(Tensor(1.0F), 1.0).item<float>(), 2);
    EXPECT_EQ(f(Tensor(1.0F), true).item<float>(), 3);
  }
  EXPECT_EQ(f.trace_count(), 3U);
}

// spec: TC-15
TEST(Tracing, AFunctionWorksEagerlyAndInOtherTracesWithTheirCaptures) {
  const Tensor scale(2.0F);
  const Tensor* held = &scale;
  const auto inner = function([&](const Tensor& x) { return x * *held; });
  const auto caller = [&](float by) {
    return function([&inner, &held, by](const Tensor& x) {
      const Tensor y = x * by;
      held = &y;
      return inner(x);
    });
  };
  EXPECT_EQ(caller(5)(Tensor(2.0F)).item<float>(), 20);
  EXPECT_EQ(caller(7)(Tensor(2.0F)).item<float>(), 28);
  held = &scale;
  EXPECT_EQ(inner(Tensor(3.0F)).item<float>(), 6);
}

struct Cell {
  Variable v;
  Tensor scaled(const Tensor& x) const { return v * x; }
};

// spec: TC-17.c
TEST(Tracing, ObjectsWithVariablesShareATrace) {
  const auto f = function(&Cell::scaled);
  const Cell a{Variable(2.0)}, b{Variable(3.0)};
  EXPECT_EQ(f(a, Tensor(2.0F)).item<float>(), 4);
  EXPECT_EQ(f(b, Tensor(2.0F)).item<float>(), 6);
  a.v.assign(5.0);
  EXPECT_EQ(f(a, Tensor(2.0F)).item<float>(), 10);
  EXPECT_EQ(f.trace_count(), 1U);
}

// spec: TC-18.b
TEST(Tracing, TwoFunctionsTraceEachOtherFromTwoThreads) {
  for (int round = 0; round < 20; ++round) {
    std::optional<Function<Tensor(int, const Tensor&)>> f, g;
    f = function<Tensor(int, const Tensor&)>(
        [&](int n, const Tensor& x) { return n == 0 ? x : (*g)(n - 1, x) + 1.0F; });
    g = function<Tensor(int, const Tensor&)>(
        [&](int n, const Tensor& x) { return n == 0 ? x : (*f)(n - 1, x) * 2.0F; });
    float by_f = 0, by_g = 0;
    std::thread one([&] { by_f = (*f)(3, Tensor(5.0F)).item<float>(); });
    std::thread two([&] { by_g = (*g)(3, Tensor(5.0F)).item<float>(); });
    one.join();
    two.join();
    EXPECT_EQ(by_f, 13);  // (5 + 1) * 2 + 1
    EXPECT_EQ(by_g, 22);  // (5 * 2 + 1) * 2
  }
}

// Runs f on another thread. Returns its result or throws its exception.
Tensor elsewhere(const std::function<Tensor()>& f) {
  Tensor out;
  std::exception_ptr error;
  std::thread([&] {
    try {
      out = f();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
  return out;
}

TEST(Tracing, AThreadThatATraceWaitsForMayTrace) {
  const Tensor one(1.0F);
  const auto inner = function([](const Tensor& x) { return x + 1.0F; }, {.name = "inner"});
  const auto outer =
      function([&](const Tensor& x) { return x * elsewhere([&] { return inner(one); }); });
  EXPECT_EQ(outer(Tensor(3.0F)).item<float>(), 6);
  EXPECT_EQ(inner.trace_count(), 1U);
}

TEST(Tracing, AFunctionThatWaitsForItselfOnAnotherThreadSaysSo) {
  const auto saved = internal::set_trace_patience(std::chrono::milliseconds(50));
  const Tensor one(1.0F);
  std::optional<Function<Tensor(const Tensor&)>> f;
  f = function<Tensor(const Tensor&)>(
      [&](const Tensor& x) { return x * elsewhere([&] { return (*f)(one); }); }, {.name = "f"});
  expect_error([&] { (*f)(one); }, ErrorCode::kFailedPrecondition,
               {"function 'f' cannot be traced", "another thread is tracing it, for 50 ms now",
                "call 'f' once before"});
  internal::set_trace_patience(saved);
}

// A thread that is awaited in a trace: it must not wait for the trace in turn.
TEST(Tracing, OtherThreadsRefuseValuesOfATrace) {
  const auto inner = function([](const Tensor& x) { return x + 1.0F; }, {.name = "inner"});
  const auto by_function = function(
      [&](const Tensor& x) { return elsewhere([&] { return inner(x); }); }, {.name = "outer"});
  expect_error([&] { by_function(ones({2})); }, ErrorCode::kFailedPrecondition,
               {"argument 'arg0' of function 'inner'", "an input of function 'outer'",
                "another thread is tracing", "run_eagerly"});
  const auto by_op = function([&](const Tensor& x) { return elsewhere([&] { return x * x; }); },
                              {.name = "outer"});
  expect_error([&] { by_op(ones({2})); }, ErrorCode::kFailedPrecondition,
               {"multiply", "another thread is tracing"});
  const auto by_vmap = function(
      [&](const Tensor& x) {
        return vmap([&](const Tensor& row) { return elsewhere([&] { return inner(row); }); })(x);
      },
      {.name = "outer"});
  expect_error(
      [&] {
        by_vmap(ones({2, 3}));
      },
      ErrorCode::kFailedPrecondition,
      {"argument 'arg0' of function 'inner'", "one example of a vmap"});
  const Tensor one(1.0F);
  EXPECT_EQ(elsewhere([&] { return inner(one); }).item<float>(), 2);
  const auto by_constant =
      function([&](const Tensor& x) { return x * elsewhere([&] { return inner(one); }); });
  EXPECT_EQ(by_constant(Tensor(3.0F)).item<float>(), 6);  // inner has its graph
}

// spec: TC-19.c
TEST(Tracing, ATapeKeepsATraceThatIsEvicted) {
  const auto f = function([](int k, const Tensor& x) { return sum(x * x) * static_cast<float>(k); },
                          {.max_traces = 1});
  const Tensor x({1.0, -2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(3, x);
  for (int k = 4; k < 8; ++k) f(k, ones({2}));
  EXPECT_EQ(f.trace_count(), 1U);
  EXPECT_EQ(tape.gradient(y, x).to_vector<float>(), (std::vector<float>{6, -12}));
}

}  // namespace
}  // namespace etude
