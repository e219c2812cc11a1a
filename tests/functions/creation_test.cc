// SPDX-License-Identifier: Apache-2.0
// Variables that a staged function makes in its first call, with initial values that depend on its
// arguments.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

// Scales by a Variable that the first call makes of its argument.
struct Scaling {
  std::optional<Variable> v;
  int runs = 0;
  Tensor operator()(const Tensor& x) {
    ++runs;
    if (!v) v.emplace(2.0F * x, VariableOptions{.name = "v"});
    return *v * x;
  }
};

// spec: SC-03.b
TEST(Creation, TakesAnInitialValueFromTheFirstCall) {
  Scaling scaling;
  const auto f = function([&](const Tensor& x) { return scaling(x); });
  EXPECT_EQ(f(1.0).item<float>(), 2);
  EXPECT_EQ(scaling.runs, 2);  // in the trace that was given up, and for the call itself
  EXPECT_EQ(f.trace_count(), 0);
  EXPECT_EQ(f(3.0).item<float>(), 6);
  EXPECT_EQ(scaling.v->read().item<float>(), 2);
  EXPECT_EQ(f(5.0).item<float>(), 10);
  EXPECT_EQ(scaling.runs, 3);
  EXPECT_EQ(f.trace_count(), 1);
  scaling.v->assign(7.0);
  EXPECT_EQ(f(2.0).item<float>(), 14);
}

// spec: SC-03.b
TEST(Creation, HasTheBitsOfThePlainFunction) {
  Scaling eager, staged;
  const auto f = function([&](const Tensor& x) { return staged(exp(x)) + random::normal({3}); });
  set_seed(7);
  std::vector<Tensor> want;
  const Tensor x = random::normal({3});
  for (int i = 0; i < 3; ++i) want.push_back(eager(exp(x)) + random::normal({3}));
  set_seed(7);
  random::normal({3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_value(f(x), want[static_cast<std::size_t>(i)])) << "call " << i;
  }
}

// spec: SC-03.a, SC-03.b
TEST(Creation, ConstantsAndArgumentsInOneCall) {
  std::optional<Variable> a, b;
  const auto f = function([&](const Tensor& x) {
    if (!a) a.emplace(3.0);
    if (!b) b.emplace(x + *a);
    a->assign_add(1.0);
    return *a * *b;
  });
  EXPECT_EQ(f(1.0).item<float>(), 16);  // 4 * (1 + 3): the trace that was given up assigned nothing
  EXPECT_EQ(f(1.0).item<float>(), 20);
  EXPECT_EQ(f.trace_count(), 1);
}

// spec: SC-03.b
TEST(Creation, WithDerivativesAround) {
  Scaling first;
  const auto f = function([&](const Tensor& x) { return sum(first(x) * x); });
  const Tensor x({1.0, 2.0});
  const Tensor want({4.0, 16.0});  // of 2 a x x by x, where a is x and stays
  EXPECT_TRUE(same_value(gradient(f, x), want));
  EXPECT_TRUE(same_value(gradient(f, x), want));
  EXPECT_EQ(f.trace_count(), 1);

  Scaling second;
  const auto g = function([&](const Tensor& x) { return sum(second(x) * x); });
  EXPECT_EQ(jvp(g, x, ones({2})).second.item<float>(), 20);
  EXPECT_EQ(jvp(g, x, ones({2})).second.item<float>(), 20);

  Scaling third;
  const auto h = function([&](const Tensor& x) {
    return gradient([&](const Tensor& y) { return sum(third(y) * y); }, x);
  });
  EXPECT_TRUE(same_value(h(x), want));
  EXPECT_TRUE(same_value(h(x), want));
  EXPECT_EQ(h.trace_count(), 1);
}

TEST(Creation, RefusesAValueForEachExampleOfAVmap) {
  Scaling scaling;
  const auto f = function([&](const Tensor& x) { return scaling(x); });
  expect_error([&] { vmap(f)(ones({3})); }, ErrorCode::kUnimplemented,
               {"Variable", "one example of a vmap", "outside"});
  EXPECT_EQ(f(1.0).item<float>(), 2);
  EXPECT_TRUE(same_value(vmap(f)(Tensor({1.0, 2.0})), Tensor({2.0, 4.0})));

  std::optional<Variable> v;
  const Tensor c(3.0F);
  const auto outer = function([&](const Tensor& rows) {
    if (!v) v.emplace(rows + c);
    return vmap([&](const Tensor& x, const Tensor& y) { return x * y; })(rows, v->read());
  });
  EXPECT_TRUE(same_value(outer(Tensor({1.0, 2.0})), Tensor({4.0, 10.0})));
  EXPECT_TRUE(same_value(outer(Tensor({2.0, 2.0})), Tensor({8.0, 10.0})));
}

// spec: SC-03.b, SC-06, SC-02.a
TEST(Creation, OfAFunctionWithinAnother) {
  Scaling scaling;
  const auto inner = function([&](const Tensor& x) { return scaling(x); });
  int runs = 0;
  const auto outer = function([&](const Tensor& x) {
    ++runs;
    return cond(
               x > 0.0F, [&] { return inner(x); }, [&] { return -x; }) +
           1.0F;
  });
  EXPECT_EQ(outer(1.0).item<float>(), 3);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(outer(3.0).item<float>(), 7);
  EXPECT_EQ(inner(4.0).item<float>(), 8);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(outer.trace_count(), 1);

  // A function that is called later may make its own Variable; a function that is new at each call
  // may not.
  Scaling other;
  const auto late = function([&](const Tensor& x) { return other(x); });
  const auto grows = function([&](const Tensor& x) { return x.rank() == 1 ? late(x) : inner(x); });
  EXPECT_EQ(grows(1.0).item<float>(), 2);
  EXPECT_TRUE(same_value(grows(ones({2})), Tensor({2.0, 2.0})));
  EXPECT_TRUE(same_value(grows(ones({2})), Tensor({2.0, 2.0})));
  const auto anew = function(
      [&](const Tensor& x) {
        const auto made = function([](const Tensor& y) { return Variable(y + 1.0F) * y; });
        return made(x);
      },
      {.name = "anew"});
  EXPECT_EQ(anew(1.0).item<float>(), 2);
  expect_error([&] { anew(1.0); }, ErrorCode::kFailedPrecondition,
               {"Variable made at", "creation_test.cc", "'anew'", "whenever", "Make it once"});
}

// spec: SC-02.a, SC-02.b
TEST(Creation, OncePerFunction) {
  std::optional<Variable> v;
  const auto each = function(
      [&](const Tensor& x) {
        v.emplace(2.0F * x, VariableOptions{.name = "again"});
        return *v * x;
      },
      {.name = "f"});
  EXPECT_EQ(each(1.0).item<float>(), 2);
  for (int i = 0; i < 2; ++i) {
    expect_error([&] { each(1.0); }, ErrorCode::kFailedPrecondition,
                 {"Variable 'again' made at", "creation_test.cc", "'f'", "Make it once"});
  }
  // The line of a Variable that std::optional makes is the user's, not one of the standard library.
  std::optional<Variable> plain;
  const auto made = function([&](const Tensor& x) {
    plain.emplace(2.0F);
    return *plain * x;
  });
  const int line = __LINE__ + 1;
  expect_error([&] { made(1.0); }, ErrorCode::kFailedPrecondition,
               {"Variable made at " + std::string(__FILE__) + ":" + std::to_string(line)});
  std::optional<Variable> late;
  const auto grows = function([&](const Tensor& x) {
    if (x.rank() == 1 && !late) late.emplace(x, VariableOptions{.name = "late"});
    return x * 2.0F;
  });
  grows(1.0);
  expect_error([&] { grows(ones({2})); }, ErrorCode::kFailedPrecondition, {"Variable 'late'"});
  EXPECT_FALSE(late);
}

// spec: SC-03.b, SC-08
TEST(Creation, MayFailInTheMiddle) {
  Scaling scaling;
  int runs = 0;
  const auto f = function([&](const Tensor& x) {
    if (++runs == 2) throw std::runtime_error("host");  // in the run that would make it
    const Tensor y = scaling(x);
    if (runs == 4) throw std::runtime_error("host");  // in the next run, after making it
    return y;
  });
  EXPECT_THROW(f(1.0), std::runtime_error);
  EXPECT_FALSE(scaling.v);
  EXPECT_THROW(f(2.0), std::runtime_error);
  EXPECT_EQ(scaling.v->read().item<float>(), 4);
  EXPECT_EQ(f(3.0).item<float>(), 12);
  EXPECT_EQ(f.trace_count(), 1);
}

// spec: SC-03.b
TEST(Creation, ChangesArgumentsOnce) {
  std::optional<Variable> v;
  const auto f = function([&](std::vector<Tensor>& state, const Variable& count, const Tensor& x) {
    count.assign_add(1.0);
    state[0] += x;
    if (!v) v.emplace(state[0] * count);
    state[0] = state[0] * *v;
  });
  std::vector<Tensor> state = {Tensor(1.0F)};
  const Variable count(0.0);
  f(state, count, 2.0);
  EXPECT_EQ(state[0].item<float>(), 9);
  EXPECT_EQ(count.read().item<float>(), 1);
  f(state, count, 1.0);
  EXPECT_EQ(state[0].item<float>(), 30);
  EXPECT_EQ(count.read().item<float>(), 2);
  EXPECT_EQ(f.trace_count(), 1);
}

// spec: SC-03.b, SC-04.b
TEST(Creation, HappensOnceForManyThreads) {
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<Variable> v;
    std::atomic<int> made = 0;
    const auto inner = function([&](const Tensor& x) {
      if (v == nullptr) {
        v = std::make_unique<Variable>(x + 1.0F);
        ++made;
      }
      return *v * x;
    });
    const auto outer = function([&](const Tensor& x) { return inner(x); });
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    threads.reserve(8);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const float got = i % 2 == 0 ? inner(1.0).item<float>() : outer(1.0).item<float>();
        right += got == 2;
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(made, 1);
    EXPECT_EQ(right, 8);
  }
}

// spec: SC-01, SC-03.a
TEST(Creation, TakesAnInitialValueThatHangsOnNoArgument) {
  const Tensor outside = ones({2}) * 3.0F;
  const std::vector<std::function<Tensor(const Tensor&)>> initial = {
      [](const Tensor&) { return full({2}, 6.0F); },
      [](const Tensor& x) { return zeros_like(x) + 6.0F; },  // by the type of an argument
      [&](const Tensor&) { return outside * 2.0F; },
      [&](const Tensor&) {
        return split(concat({zeros({2}), outside * 2.0F}), 2)[1];
      },
  };
  for (std::size_t k = 0; k < initial.size(); ++k) {
    std::optional<Variable> v;
    int runs = 0;
    const auto f = function([&](const Tensor& x) {
      ++runs;
      if (!v) v.emplace(initial[k](x));
      return *v * x;
    });
    EXPECT_EQ(f(ones({2})).to_vector<float>(), std::vector<float>(2, 6)) << k;
    EXPECT_EQ(runs, 2) << k;
    EXPECT_EQ(f.trace_count(), 1) << k;
    v->assign(full({2}, 5.0F));
    EXPECT_EQ(f(full({2}, 2.0F)).to_vector<float>(), std::vector<float>(2, 10)) << k;
    EXPECT_EQ(runs, 2) << k;
  }
}

// spec: SC-06
TEST(Creation, MakesAVariableOfAnOpInInnerFunctionsAndTraces) {
  std::optional<Variable> v;
  int runs = 0;
  const auto inner = function([&](const Tensor& x) {
    ++runs;
    if (!v) v.emplace(full({}, 2.0F) + 1.0F);
    return x * *v;
  });
  const auto outer = function([&](const Tensor& x) { return inner(x) + 1.0F; });
  outer.trace(Tensor(2.0F));
  EXPECT_EQ(outer(Tensor(2.0F)).item<float>(), 7);
  EXPECT_EQ(runs, 2);
  v->assign(10.0F);
  EXPECT_EQ(outer(Tensor(2.0F)).item<float>(), 21);
}

// spec: SC-03.b
TEST(Creation, DrawsARandomInitialValueAsThePlainFunction) {
  std::optional<Variable> plain, staged;
  const auto body = [](std::optional<Variable>& v) {
    return [&v](const Tensor& x) {
      if (!v) v.emplace(random::normal({2}));
      return *v * x;
    };
  };
  set_seed(3);
  const Tensor want = body(plain)(ones({2}));
  set_seed(3);
  const auto f = function(body(staged));
  EXPECT_TRUE(same_value(f(ones({2})), want));
  EXPECT_TRUE(same_value(f(ones({2})), want));
}

// spec: SC-03.b
TEST(Creation, NeedsACall) {
  Scaling scaling;
  const auto f = function([&](const Tensor& x) { return scaling(x); }, {.name = "f"});
  expect_error([&] { f.trace(ones({2})); }, ErrorCode::kFailedPrecondition,
               {"the initial value of Variable 'v' made at", "creation_test.cc", "function 'f'",
                "trace()", "Call the function once before"});
  Scaling other;
  const auto g = function([&](const Tensor& x) { return other(x); },
                          {.name = "g", .signature = Signature{TensorSpec{{}}}});
  expect_error([&] { g.trace(); }, ErrorCode::kFailedPrecondition,
               {"Variable 'v' made at", "function 'g'", "Call the function once before"});
  EXPECT_EQ(g(1.0).item<float>(), 2);
  EXPECT_EQ(g(3.0).item<float>(), 6);
  EXPECT_EQ(g.trace_count(), 1);
  const auto outside =
      function([](const Tensor& x) { return init_scope([&] { return Variable(x); }) * x; });
  expect_error([&] { outside(1.0); }, ErrorCode::kFailedPrecondition,
               {"Variable: the initial value depends on a value of a trace", "first call"});
}

}  // namespace
}  // namespace etude
