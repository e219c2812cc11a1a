// SPDX-License-Identifier: Apache-2.0
// Cancellation: another thread ends calls, and their arguments and Variables keep their values.
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

constexpr const char* kText = "did not run: the Cancellation of a CancelScope around it";

// Runs f, which would not end, cancelled before it begins and once it has begun.
template <class F>
void expect_cancelled(F&& f) {
  {
    const Cancellation before;
    before.cancel();
    const CancelScope scope(before);
    expect_error(f, ErrorCode::kCancelled, {kText, "cancel_test.cc"});
  }
  const Cancellation enough;
  std::jthread timer([enough] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    enough.cancel();
  });
  const CancelScope scope(enough);
  expect_error(f, ErrorCode::kCancelled, {kText, "cancel_test.cc"});
}

Tensor for_ever(const Tensor& x) {
  return while_loop([](const Tensor& s) { return s < 2.0F; },
                    [](const Tensor& s) { return s * 0.5F; }, x);
}

TEST(Cancellation, EndsALoopThatHasNoEnd) {
  const Tensor x(1.0F);
  const auto staged = function(for_ever);
  expect_cancelled([&] { for_ever(x); });
  expect_cancelled([&] { staged(x); });
  expect_cancelled([&] { gradient(staged, x); });
  expect_cancelled([&] { function([&](const Tensor& t) { return gradient(for_ever, t); })(x); });
  EXPECT_EQ(staged(Tensor(3.0F)).item<float>(), 3);  // as good as before
}

TEST(Cancellation, LeavesVariablesAndArgumentsAsTheyWere) {
  const Variable v(5.0F);
  const auto step = function([&](Tensor& state, const Tensor& x) {
    state += 1.0F;
    v.assign_add(1.0F);
    state = state + for_ever(x) * 0.0F;
  });
  Tensor state = ones({4});
  step(state, Tensor(3.0F));
  EXPECT_EQ(v.read().item<float>(), 6);
  const Tensor before = state;
  expect_cancelled([&] { step(state, Tensor(1.0F)); });
  EXPECT_EQ(v.read().item<float>(), 6);
  EXPECT_TRUE(same_value(state, before));
  step(state, Tensor(3.0F));
  EXPECT_TRUE(same_value(state, ones({4}) * 3.0F)) << state;
}

// A sink that cancels at its n-th line: the call ends at any step, and the argument that a plan
// would write over stays whole.
TEST(Cancellation, AtAnyStepLeavesAGivenArgumentWhole) {
  const auto step = function([](Tensor& w) {
    for (int i = 0; i < 5; ++i) {
      w = w * 2.0F + 1.0F;
      print("step", i);
    }
  });
  const auto run = [&](int steps) {
    const Cancellation enough;
    int lines = 0;
    const PrintSink before = set_print_sink([&](std::string_view) {
      if (++lines == steps) enough.cancel();
    });
    Tensor w = ones({3});
    try {
      const CancelScope scope(enough);
      step(w);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled);
      EXPECT_EQ(lines, steps);
      EXPECT_TRUE(same_value(w, ones({3})));
    }
    set_print_sink(before);
    return w;
  };
  for (int steps = 1; steps < 5; ++steps) run(steps);
  const Tensor end = run(100);
  EXPECT_TRUE(same_value(end, ones({3}) * 63.0F)) << end;
}

TEST(Cancellation, EndsEagerCallsAndNests) {
  const Cancellation outer, inner;
  const CancelScope around(outer);
  const Tensor x(1.0F);
  {
    const CancelScope scope(inner);
    inner.cancel();
    EXPECT_TRUE(is_cancelled());
    expect_error([&] { x + x; }, ErrorCode::kCancelled, {"add: ", kText});
  }
  EXPECT_FALSE(is_cancelled());
  EXPECT_EQ((x + x).item<float>(), 2);
  std::thread([&] { EXPECT_EQ((x + x).item<float>(), 2); }).join();
  outer.cancel();
  expect_error([&] { x + x; }, ErrorCode::kCancelled, {kText});
}

TEST(Cancellation, IsNotLookedAtElsewhere) {
  { const CancelScope scope{Cancellation()}; }
  EXPECT_FALSE(is_cancelled());
  EXPECT_EQ((Tensor(1) + 1).item<int>(), 2);
}

// A trace that is cancelled while it takes a pullback is no fault of the rule.
TEST(Cancellation, IsNoFaultOfARule) {
  const Cancellation enough;
  bool cancels = true;
  const auto rule = custom_gradient([&](const Tensor& x) {
    return std::pair{x * x, [&, x](const Tensor& dy) {
                       if (cancels) enough.cancel();
                       return std::tuple{dy * x * 3.0F};
                     }};
  });
  const auto f = function([&](const Tensor& x) { return sum(rule(x)); });
  {
    const CancelScope scope(enough);
    expect_error([&] { f(Tensor({1.0F})); }, ErrorCode::kCancelled, {kText});
  }
  cancels = false;
  EXPECT_EQ(gradient(f, Tensor({2.0F})).item<float>(), 6);
}

}  // namespace
}  // namespace etude
