// SPDX-License-Identifier: Apache-2.0
// Values that host code computes at each call of a staged function.
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

// spec: LC-06.a
TEST(CallTimeValues, AreReadAtEachCallOfOneTrace) {
  int k = 1;
  const auto body = [&] { return call_time_value([&] { return k; }) + 2; };
  const auto f = function(body);
  EXPECT_EQ(f().item<int>(), 3);
  k = 2;
  EXPECT_EQ(f().item<int>(), 4);
  EXPECT_EQ(body().item<int>(), 4);
  EXPECT_EQ(f.trace_count(), 1u);
  EXPECT_TRUE(f.variables().empty());
}

// spec: LC-06.b
TEST(CallTimeValues, KeepTheirType) {
  Tensor k(1);
  const auto f = function([&] { return call_time_value([&] { return k; }) + 2; }, {.name = "f"});
  f();
  for (const Tensor& other : {Tensor(1.0F), ones({2})}) {
    k = other;
    expect_error([&] { f(); }, ErrorCode::kInvalidArgument,
                 {"the value of call_time_value at ",
                  "call_time_test.cc:", " is " + other.type()->to_string(),
                  "but the graph of function 'f' was made for int32[]", "passed as an argument"});
  }
  k = Tensor(5);
  EXPECT_EQ(f().item<int>(), 7);
}

// spec: LC-06.a
TEST(CallTimeValues, ReachFunctionsBranchesAndLoopsWithin) {
  float k = 1;
  const auto inner =
      function([&](const Tensor& x) { return x * call_time_value([&] { return k; }); });
  const auto body = [&](const Tensor& x) {
    const Tensor y = cond(
        x > 0.0F, [&] { return inner(x) + call_time_value([&] { return 10 * k; }); },
        [&] { return -x; });
    return while_loop(
        [](const Tensor& s) { return s < 100.0F; },
        [&](const Tensor& s) { return s + inner(s) + call_time_value([&] { return k; }); }, y);
  };
  const auto f = function(body);
  for (const float now : {1.0F, 2.0F, 3.0F}) {
    k = now;
    for (const float x : {2.0F, -3.0F}) EXPECT_TRUE(same_value(f(Tensor(x)), body(Tensor(x)))) << k;
  }
  EXPECT_EQ(f.trace_count(), 1u);
}

// spec: LC-06.a
TEST(CallTimeValues, AreConstantsOfDerivatives) {
  float k = 1;
  const auto body = [&](const Tensor& x) {
    const Tensor factor = call_time_value([&] { return k; });
    return sum(x * x * factor);
  };
  const auto f = function(body);
  const auto staged = function([&](const Tensor& x) { return gradient(body, x); });
  const Tensor x(std::vector<float>{1, 2, -3});
  for (const float now : {1.0F, 4.0F}) {
    k = now;
    const Tensor want = gradient(body, x);
    EXPECT_EQ(want.to_vector<float>()[1], 4 * k);
    EXPECT_TRUE(same_value(gradient(f, x), want));
    EXPECT_TRUE(same_value(staged(x), want));
    EXPECT_TRUE(same_value(jvp(f, x, x).second, jvp(body, x, x).second));
    EXPECT_TRUE(same_value(vmap(f)(ones({2, 3})), vmap(body)(ones({2, 3}))));
  }
  EXPECT_EQ(f.trace_count(), 1u) << f.explain();
  EXPECT_EQ(staged.trace_count(), 1u);
}

// spec: LC-06.a
TEST(CallTimeValues, GoWithGraphsOfManySizes) {
  float k = 1;
  const auto f = function([&](const Tensor& x) { return x * call_time_value([&] { return k; }); },
                          {.signature = Signature{TensorSpec{{kAny}}}});
  for (const int64_t n : {2, 3, 4}) {
    k = static_cast<float>(n);
    EXPECT_EQ(f(ones({n})).to_vector<float>()[0], k);
  }
  EXPECT_EQ(f.trace_count(), 1u);
}

TEST(CallTimeValues, RefuseWhatIsNoValueOfTheCall) {
  const auto f =
      function([](const Tensor& x) { return call_time_value([x] { return x; }) + 1.0F; });
  expect_error([&] { f(Tensor(1.0F)); }, ErrorCode::kFailedPrecondition,
               {"the thunk returns a value of a trace", "call_time_test.cc"});
  expect_error([] { call_time_value([] { return Tensor(); }); }, ErrorCode::kFailedPrecondition,
               {"the thunk returns an absent tensor", "call_time_test.cc"});
  Variable v(0.0);
  bool fails = false;
  const auto g = function([&](const Tensor& x) {
    v.assign_add(x);
    return x + call_time_value([&]() -> float {
             if (fails) throw std::runtime_error("no rate");
             return 1;
           });
  });
  g(Tensor(1.0F));
  fails = true;
  EXPECT_THROW(g(Tensor(1.0F)), std::runtime_error);
  EXPECT_EQ(v.read().item<float>(), 1.0F);
}

}  // namespace
}  // namespace etude
