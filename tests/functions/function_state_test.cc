// SPDX-License-Identifier: Apache-2.0
// Staged functions and state outside of their arguments: Variables, made outside or in the first
// call, tapes around them, init_scope.
#include <atomic>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

float number(const Variable& v) { return v.read().item<float>(); }

// spec: LC-01, CD-06, V47.b, ST-04.b
TEST(FunctionState, AssignsAVariableAtEachCall) {
  Variable v(0.0);
  const auto mutate = function([&] { return v.assign_add(1.0); });
  EXPECT_EQ(mutate().item<float>(), 1);
  v.assign_add(1.0);
  EXPECT_EQ(number(v), 2);
  EXPECT_EQ(mutate().item<float>(), 3);
  EXPECT_EQ(number(v), 3);
  EXPECT_EQ(mutate.trace_count(), 1u);
}

// spec: CD-01
TEST(FunctionState, KeepsTheOrderOfTheProgram) {
  Variable a(1.0), b(1.0);
  const auto f = function([&](const Tensor& x, const Tensor& y) {
    a.assign(y * b);
    b.assign_add(x * a);
    return a + b;
  });
  EXPECT_EQ(f(1.0, 2.0).item<float>(), 5);
  EXPECT_EQ(number(a), 2);
  EXPECT_EQ(number(b), 3);
}

// spec: CD-02.a
TEST(FunctionState, AssignsOneAfterTheOther) {
  Variable v(1.0);
  const auto f = function([&] {
    v.assign(v + 1.0F);
    v.assign(v * 2.0F);
  });
  f();
  EXPECT_EQ(number(v), 4);
  for (int i = 0; i < 20; ++i) f();
  EXPECT_EQ(number(v), 6 * (1 << 20) - 2);
}

// spec: VR-02.b, CD-03.a, VR-04.a, VR-04.b
TEST(FunctionState, ReadsAreSnapshots) {
  Variable v(1.0);
  const auto f = function([&] {
    const Tensor before = v.read();
    const Tensor first = v.assign_add(1.0);
    const Tensor second = v.assign_add(10.0);
    return std::tuple(before, first, second, v.read());
  });
  for (const float start : {1.0F, 12.0F}) {
    const auto [before, first, second, after] = f();
    EXPECT_EQ(before.item<float>(), start);
    EXPECT_EQ(first.item<float>(), start + 1);
    EXPECT_EQ(second.item<float>(), start + 11);
    EXPECT_EQ(after.item<float>(), start + 11);
  }
}

// spec: VR-05
TEST(FunctionState, AssignsParts) {
  Variable eager(zeros({4})), staged(zeros({4}));
  const auto body = [](Variable& v, const Tensor& x) {
    v.at(slice(1, 3)) = x;
    v.at(Tensor({0, 0, 3})).assign_add(1.0);
    v.at(0).assign_sub(0.5);
  };
  const auto f = function([&](const Tensor& x) { body(staged, x); });
  for (int i = 0; i < 2; ++i) {
    const Tensor x({7.0, 8.0});
    f(x);
    body(eager, x);
    EXPECT_TRUE(same_value(staged.read(), eager.read())) << staged << eager;
  }
}

// spec: VR-03.a
TEST(FunctionState, RefusesAnAssignmentThatDoesNotFit) {
  Variable v(zeros({4}), {.name = "weights"});
  const auto f = function([&](const Tensor& x) { v.assign(x); });
  expect_error([&] { f(ones({3})); }, ErrorCode::kInvalidArgument,
               {"'weights'", "[4]", "[3]", "function_state_test.cc"});
}

// spec: CD-08.a, CD-08.b, ST-07.b
TEST(FunctionState, LeavesOutReadsThatNobodyNeeds) {
  Variable v(2.0), w(1.0);
  const auto f = function([&](const Tensor& x) {
    const Tensor unused = v * 3.0F;
    w.assign_add(1.0);
    return x + 1.0F;
  });
  f(1.0);
  EXPECT_EQ(f.traces().front().graph().size(), 3u);  // two sums, and a stop_gradient for w
  EXPECT_EQ(number(w), 2);
}

// spec: LC-05
TEST(FunctionState, ListsItsVariables) {
  Variable a(1.0, {.name = "a"}), b(2.0, {.name = "b", .trainable = false}), c(3.0, {.name = "c"});
  const auto f = function([&](const Tensor& x) {
    const Tensor first = x * c, second = first * b;
    return second * a + c;
  });
  f(1.0);
  const auto all = f.variables();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name() + all[1].name() + all[2].name(), "cba");
  const auto trainable = f.trainable_variables();
  ASSERT_EQ(trainable.size(), 2u);
  EXPECT_EQ(trainable[1].name(), "a");
}

// spec: LC-07.b, VR-06.b
TEST(FunctionState, SaysWhichVariableIsGone) {
  std::optional<Variable> v(std::in_place, 1.0, VariableOptions{.name = "short"});
  const auto f = function([&](const Tensor& x) { return x * *v; }, {.name = "f"});
  f(1.0);
  v.reset();
  expect_error([&] { f(1.0); }, ErrorCode::kFailedPrecondition,
               {"'f'", "Variable 'short'", "gone"});
}

// spec: VR-03.b
TEST(FunctionState, TracesAnewForAnotherSizeOfAVariable) {
  Variable v(ones({2}), {.shape = Shape{kAny}});
  const auto f = function([&] { return sum(v.read()); });
  EXPECT_EQ(f().item<float>(), 2);
  v.assign(ones({5}));
  EXPECT_EQ(f().item<float>(), 5);
  EXPECT_EQ(f.trace_count(), 2u);
}

// spec: TC-11
TEST(FunctionState, KnowsWhichVariableArgumentsAreOne) {
  Variable v(1.0), w(2.0);
  const auto g =
      function([](const Variable& x, const Variable& y, const Variable& z) { return x + y * z; });
  EXPECT_EQ(g(v, v, w).item<float>(), 3);
  EXPECT_EQ(g(v, w, w).item<float>(), 5);
  EXPECT_EQ(g.trace_count(), 2u);
  const auto k = function([](const Variable& x) { return x * 2.0F; });
  EXPECT_EQ(k(v).item<float>(), 2);
  EXPECT_EQ(k(w).item<float>(), 4);
  EXPECT_EQ(k.trace_count(), 1u);
}

// spec: TC-12
TEST(FunctionState, OrdersOneVariableUnderTwoNames) {
  for (const bool same_first : {true, false}) {
    const auto h = function([](const Variable& a, const Variable& b) {
      a.assign_add(1.0);
      return a + b;
    });
    for (const bool same : {same_first, !same_first}) {
      Variable v(1.0), w(1.0);
      EXPECT_EQ(h(v, same ? v : w).item<float>(), same ? 4 : 3);
    }
  }
}

// spec: CD-04
TEST(FunctionState, OrdersACapturedVariableThatIsAnArgumentToo) {
  Variable v(1.0), w(1.0);
  const auto f = function([&](const Variable& a) {
    a.assign_add(1.0);
    return a + v;
  });
  EXPECT_EQ(f(w).item<float>(), 3);
  EXPECT_EQ(f(v).item<float>(), 4);
  EXPECT_EQ(f(w).item<float>(), 5);
  EXPECT_EQ(f(v).item<float>(), 6);
  EXPECT_EQ(f.trace_count(), 2u);
}

// spec: CO-02, CD-05.a
TEST(FunctionState, PassesEffectsThroughCalls) {
  Variable v1(1.0), v2(1.0);
  const auto add1 = function([](const Variable& v) { return v.assign_add(1.0); });
  const auto two = function([&] { return add1(v1) + add1(v2); });
  EXPECT_EQ(two().item<float>(), 4);
  EXPECT_EQ(number(v1), 2);
  EXPECT_EQ(two().item<float>(), 6);
  EXPECT_EQ(number(v2), 3);
  EXPECT_EQ(add1.trace_count(), 1u);
  const auto twice = function([&] {
    add1(v1);
    return add1(v1);
  });
  EXPECT_EQ(twice().item<float>(), 5);
  EXPECT_EQ(number(v1), 5);
}

// spec: FB-03
TEST(FunctionState, GivesGradientsOfVariables) {
  Variable v(3.0);
  const auto h = function([&](const Tensor& x) { return x * v * v; });
  const auto g = function([&](const Tensor& x) { return h(x) + 1.0F; });
  const auto f = function([&](const Tensor& x) { return g(x * 2.0F); });
  for (int i = 0; i < 2; ++i) {
    GradientTape tape;
    const Tensor y = f(1.0);
    EXPECT_EQ(y.item<float>(), 19);
    EXPECT_EQ(tape.gradient(y, v).item<float>(), 12);
  }
  const auto slope = function([&](const Tensor& x) {
    GradientTape tape;
    const Tensor y = f(x);
    return tape.gradient(y, v);
  });
  EXPECT_EQ(slope(1.0).item<float>(), 12);
  v.assign(1.0);
  EXPECT_EQ(slope(1.0).item<float>(), 4);
}

TEST(FunctionState, StopsGradientsAtAssignments) {
  Variable v(1.0);
  const auto f = function([&](const Tensor& x) {
    v.assign(x * 2.0F);
    return v * 3.0F;
  });
  GradientTape tape;
  const Tensor x(2.0F);
  tape.watch(x);
  const Tensor y = f(x);
  EXPECT_EQ(y.item<float>(), 12);
}

// spec: VR-07
TEST(FunctionState, LosesNoUpdateBetweenThreads) {
  Variable v(0.0);
  const auto f = function([&] { v.assign_add(1.0); });
  f();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) f();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(number(v), 2001);
}

TEST(FunctionState, AssignsNothingWhenACallFails) {
  Variable v(1.0);
  const auto f = function([&](const Tensor& i) {
    v.assign_add(1.0);
    return take(ones({3}), i, {.axis = 0});
  });
  expect_error([&] { f(Tensor({9})); }, ErrorCode::kOutOfRange, {"take"});
  EXPECT_EQ(number(v), 1);
  f(Tensor({0}));
  EXPECT_EQ(number(v), 2);
}

TEST(FunctionState, RefusesAssignmentsOfExamples) {
  Variable v(1.0);
  const auto f = [&](const Tensor& x) { return v.assign(x); };
  const auto staged = function([&](const Tensor& rows) { return vmap(f)(rows); });
  expect_error([&] { staged(ones({3})); }, ErrorCode::kInvalidArgument, {"vmap", "Variable"});
}

TEST(FunctionState, RefusesAssignmentsOfExamplesEagerly) {
  Variable v({1.0, 2.0});
  const Tensor rows({{1.0, 2.0}, {3.0, 4.0}});
  const auto expect_refused = [&](const auto& change) {
    const auto f = [&](const Tensor& x) {
      change(x);
      return sum(x);
    };
    const std::vector<std::string_view> parts = {"vmap", "Variable", "function_state_test.cc"};
    expect_error([&] { vmap(f)(rows); }, ErrorCode::kInvalidArgument, parts);
    expect_error([&] { vmap([&](const Tensor& x) { return gradient(f, x); })(rows); },
                 ErrorCode::kInvalidArgument, parts);
    expect_error([&] { gradient([&](const Tensor& x) { return sum(vmap(f)(x)); }, rows); },
                 ErrorCode::kInvalidArgument, parts);
    EXPECT_TRUE(same_value(v.read(), Tensor({1.0, 2.0})));
  };
  expect_refused([&](const Tensor& x) { v.assign(x * 0.5F); });
  expect_refused([&](const Tensor& x) { v.assign_add(x); });
  expect_refused([&](const Tensor& x) { v.assign_sub(x); });
  expect_refused([&](const Tensor& x) { v.at(0) = sum(x); });
  expect_refused([&](const Tensor& x) { v.at(0).assign_add(sum(x)); });
  // A value that is the same for all examples may be assigned.
  const Tensor sums = vmap([&](const Tensor& x) {
    v.assign(v * 2.0F);
    return sum(x * v);
  })(rows);
  EXPECT_TRUE(same_value(sums, Tensor({10.0, 22.0})));
}

TEST(FunctionState, RefusesToHoldWhatHasNoElements) {
  Variable v({1.0, 2.0});
  Tensor kept;
  const auto keep = [&](const Tensor& x) {
    kept = x;
    return sum(x);
  };
  vmap(keep)(ones({3, 2}));
  expect_error([&] { v.assign(kept); }, ErrorCode::kFailedPrecondition, {"example of a vmap"});
  const Variable lazily([&] { return kept; }, {.name = "w"});
  expect_error([&] { lazily.read(); }, ErrorCode::kFailedPrecondition,
               {"the initialiser of Variable 'w'", "example of a vmap"});
  function(keep)(ones({2}));
  expect_error([&] { v.assign(kept); }, ErrorCode::kFailedPrecondition, {"whose trace has ended"});
  EXPECT_TRUE(same_value(v.read(), Tensor({1.0, 2.0})));
}

TEST(FunctionState, HoldsZero) {
  const Variable v(0);
  EXPECT_EQ(v.dtype(), kInt32);
  EXPECT_EQ(v.read().item<int>(), 0);
}

// spec: SC-01, SC-06
TEST(FunctionState, MakesVariablesInTheFirstCall) {
  std::optional<Variable> v;
  int runs = 0;
  const auto f = function([&](const Tensor& x) {
    ++runs;
    if (!v) v.emplace(2.0);
    return *v * x;
  });
  EXPECT_EQ(f(1.0).item<float>(), 2);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(f(3.0).item<float>(), 6);
  EXPECT_EQ(runs, 2);
  f(ones({2}));
  EXPECT_EQ(runs, 3);
  v->assign(11.0);
  EXPECT_EQ(f(1.0).item<float>(), 11);

  std::optional<Variable> w;
  const auto inner = function([&](const Tensor& x) {
    if (!w) w.emplace(2.0);
    return *w * x;
  });
  const auto outer = function([&](const Tensor& x) { return inner(x) + 1.0F; });
  EXPECT_EQ(outer(1.0).item<float>(), 3);
  w->assign(11.0);
  EXPECT_EQ(inner(1.0).item<float>(), 11);
  EXPECT_EQ(outer(1.0).item<float>(), 12);
}

// spec: SC-02.a, SC-02.b
TEST(FunctionState, RefusesAVariableInEachCall) {
  std::optional<Variable> v;
  const auto each = function(
      [&](const Tensor& x) {
        v.emplace(2.0, VariableOptions{.name = "again"});
        return *v * x;
      },
      {.name = "f"});
  expect_error([&] { each(1.0); }, ErrorCode::kFailedPrecondition,
               {"Variable 'again' made at", "function_state_test.cc", "'f'", "once"});
  std::optional<Variable> late;
  const auto grows = function([&](const Tensor& x) {
    if (x.rank() == 1 && !late) late.emplace(1.0, VariableOptions{.name = "late"});
    return x * 2.0F;
  });
  grows(1.0);
  expect_error([&] { grows(ones({2})); }, ErrorCode::kFailedPrecondition, {"Variable 'late'"});
}

// spec: SC-05
TEST(FunctionState, SaysThatAVariableDied) {
  const auto f = function([](const Tensor& x) {
    const Variable v(2.0, {.name = "local"});
    return v * x;
  });
  expect_error([&] { f(1.0); }, ErrorCode::kFailedPrecondition,
               {"Variable 'local'", "nothing keeps it"});
}

// spec: SC-08
TEST(FunctionState, MayFailAfterItMadeVariables) {
  std::optional<Variable> v;
  bool fails = true;
  const auto f = function([&](const Tensor& x) {
    if (!v) v.emplace(2.0);
    if (fails) throw std::runtime_error("host");
    return *v * x;
  });
  EXPECT_THROW(f(1.0), std::runtime_error);
  fails = false;
  EXPECT_EQ(f(2.0).item<float>(), 4);
}

// spec: SC-04.a
TEST(FunctionState, RunsAnInitialiserOnce) {
  int runs = 0;
  const Variable v([&] {
    ++runs;
    return Tensor(5.0F);
  });
  const auto f = function([&](const Tensor& x) { return v * x; });
  EXPECT_EQ(f(2.0).item<float>(), 10);
  f(2.0);
  EXPECT_EQ(runs, 1);
}

// spec: IS-01, IS-05.a
TEST(InitScope, LeavesTheTrace) {
  Variable counter(0.0);
  const auto f = function([&](const Tensor& x) {
    init_scope([&] { counter.assign_add(1.0); });
    return x * 2.0F;
  });
  f(1.0);
  f(1.0);
  EXPECT_EQ(number(counter), 1);
  init_scope([&] { counter.assign_add(1.0); });
  EXPECT_EQ(number(counter), 2);
}

// spec: IS-02
TEST(InitScope, LeavesAllTraces) {
  Variable counter(0.0);
  const auto inner = function([&](const Tensor& x) {
    init_scope([&] { counter.assign_add(1.0); });
    return x * 2.0F;
  });
  const auto outer = function([&](const Tensor& x) { return inner(x) + 1.0F; });
  outer(1.0);
  outer(1.0);
  EXPECT_EQ(number(counter), 1);
}

// spec: IS-03
TEST(InitScope, RefusesValuesOfTheTrace) {
  const auto f =
      function([](const Tensor& x) { return init_scope([&] { return x + 1.0F; }); }, {.name = "f"});
  expect_error([&] { f(1.0); }, ErrorCode::kFailedPrecondition, {"function 'f'", "traced"});
}

// spec: IS-04.a
TEST(InitScope, PausesTapes) {
  const Variable v(3.0);
  GradientTape tape;
  const Tensor y = init_scope([&] { return v * 2.0F; });
  EXPECT_FALSE(tape.gradient(y, v).has_value());
}

// spec: IS-06
TEST(InitScope, MakesVariables) {
  std::optional<Variable> v;
  const auto body = [&] {
    init_scope([&] { v.emplace(3.0); });
    v->assign_add(1.0);
    return v->read();
  };
  EXPECT_EQ(body().item<float>(), 4);
  EXPECT_EQ(body().item<float>(), 4);
  const auto f = function(body);
  EXPECT_EQ(f().item<float>(), 4);
  EXPECT_EQ(f().item<float>(), 5);
}

struct Grown {
  std::vector<Tensor> parts;
  std::optional<Tensor> sum;
  Tensor last;  // absent at first
  std::string word = "none";
};

// A call may change the structure of an argument by reference: it gets the results of the graph, in
// the structure of the traced call.
TEST(FunctionState, GivesAnArgumentItsNewParts) {
  const auto add = [](Grown& grown, const Tensor& x) {
    grown.parts.push_back(x * 2.0F);
    grown.sum = grown.sum ? *grown.sum + x : x;
    grown.last = grown.parts.front();
    grown.word = "some";
    return x + 1.0F;
  };
  const auto staged = function(add);
  Grown a, b, again;
  for (int i = 0; i < 3; ++i) {
    const Tensor x(static_cast<float>(i) + 0.5F);
    EXPECT_TRUE(same_value(staged(a, x), add(b, x)));
    ASSERT_EQ(a.parts.size(), b.parts.size());
    EXPECT_TRUE(same_value(a.parts.back(), b.parts.back()));
    EXPECT_TRUE(same_value(*a.sum, *b.sum));
    EXPECT_TRUE(same_value(a.last, b.last));
    EXPECT_EQ(a.word, "some");
  }
  EXPECT_EQ(staged.trace_count(), 3u);
  staged(again, Tensor(0.5F));
  EXPECT_EQ(staged.trace_count(), 3u);
  EXPECT_EQ(again.sum->item<float>(), 0.5F);
}

TEST(FunctionState, RefusesNewPartsBesideVariables) {
  struct Both {
    std::vector<Tensor> parts;
    Variable v{1.0};
  };
  Both both;
  const auto add = function([](Both& b) { b.parts.push_back(b.v.read()); }, {.name = "add"});
  expect_error([&] { add(both); }, ErrorCode::kInvalidArgument,
               {"function 'add' changes the structure of arguments with Variables"});
  EXPECT_TRUE(both.parts.empty());
}

// spec: IS-05.b..d
TEST(InitScope, RunsFunctionsNestsAndRestoresTheTrace) {
  Variable counter(0.0);
  const auto bump = function([&](const Tensor& by) { return counter.assign_add(by); });
  float seen = 0;
  const auto f = function([&](const Tensor& x) {
    seen = init_scope([&] {
      bump(1.0);
      return init_scope([&] { return bump(10.0).item<float>(); });
    });
    try {
      init_scope([] { throw 1; });
    } catch (int) {
    }
    return x * 2.0F;
  });
  EXPECT_EQ(f(1.0).item<float>(), 2);
  EXPECT_EQ(f(3.0).item<float>(), 6);  // it was traced on
  EXPECT_EQ(f.trace_count(), 1U);
  EXPECT_EQ(seen, 11);
  EXPECT_EQ(number(counter), 11);
}

// spec: CD-02.b
TEST(FunctionState, KeepsTheOrderForAnyNumberOfThreads) {
  Variable v(1.0);
  const auto f = function([&] {
    v.assign(v + 1.0F);
    v.assign(v * 2.0F);
  });
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    for (int i = 0; i < 1000; ++i) {
      v.assign(1.0);
      f();
      ASSERT_EQ(number(v), 4);
    }
  }
  set_thread_count(0);
}

}  // namespace
}  // namespace etude
