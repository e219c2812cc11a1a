// SPDX-License-Identifier: Apache-2.0
// Calls on the simulated device: they run after they have returned, in order, in memory that the
// host cannot read, and have the bits of cpu:0.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/gradient.h"
#include "etude/autodiff/gradient_tape.h"
#include "etude/autodiff/jvp.h"
#include "etude/core/context/device_scope.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/stage/control_flow.h"
#include "etude/stage/effects.h"
#include "etude/stage/function.h"
#include "etude/stage/host_function.h"
#include "etude/variables/variable.h"
#include "tests/devices/sim/sim_device.h"
#include "tests/devices/sim/sim_memory.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using sim::device;
using tests::expect_error;
using Floats = std::vector<float>;

// spec: DV-01, DV-02, RM-01
TEST(SimDevice, HasANameAndIsListed) {
  EXPECT_EQ(device().to_string(), "sim:0");
  EXPECT_EQ(device().full_name(), "/job:localhost/replica:0/task:0/device:SIM:0");
  EXPECT_EQ(Device("/device:SIM:0/task:0"), device());
  const std::vector<Device> all = list_devices();
  EXPECT_EQ(all.front(), Device());
  EXPECT_EQ(std::ranges::count(all, device()), 1);
  EXPECT_EQ(Tensor({1.0, 2.0}).to("sim:0").device(), device());
  expect_error([] { Tensor(1.0).to("sim:200"); }, ErrorCode::kNotFound,
               {"there is no device 'sim:200' in this process. Its devices are: cpu:0, sim:0"});
}

// spec: DV-10
TEST(SimDevice, CallsReturnBeforeTheyHaveRun) {
  const Tensor x = {1.0, 2.0};
  Tensor y;
  {
    const sim::Hold hold(device());
    Tensor there = x.to(device());
    for (int i = 0; i < 20; ++i) there = there * 2.0 - 1.0;
    there += 1.0;  // in place, over values that were not computed yet
    y = there;
    EXPECT_GE(sim::queue_of(device()).pending(), 40);
  }
  const Tensor z = y + 1.0;
  EXPECT_EQ(z.to_vector<float>(), (Floats{3, 1048579}));  // right after an asynchronous call
  EXPECT_EQ(y.to("cpu:0").to_vector<float>(), (Floats{2, 1048578}));
}

// A queued call does not see later writes to its operands.
// spec: V52.b
TEST(SimDevice, QueuedWorkHoldsItsOperands) {
  const auto staged = function([](const Tensor& t) { return cumulative_sum(t * 2.0); });
  const Tensor x = Tensor({1.0, 2.0, 3.0}).to(device());
  staged(x);  // the trace
  Tensor a = x + 0.0, b = x + 0.0, c = x + 0.0, d = x + 0.0, e = x + 0.0;
  Tensor from_a, from_b, from_c, from_d, from_e;
  {
    const sim::Hold hold(device());
    from_a = a * 2.0;
    a += 10.0;  // in place
    from_b = b * 2.0;
    b.at(0) = 7.0;
    from_c = c * 2.0;
    c.reset();  // the last handle; its memory is taken by the next call
    const Tensor other = x * 100.0;
    from_d = staged(d);
    d -= 1.0;
    const Variable v(e, {.name = "v"});
    from_e = v * 2.0;
    v.assign_add(5.0);
    e = v.read();
    EXPECT_GT(sim::queue_of(device()).pending(), 10);  // nothing has waited
  }
  for (const Tensor& y : {from_a, from_b, from_c, from_e}) {
    EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4, 6}));
  }
  EXPECT_EQ(from_d.to_vector<float>(), (Floats{2, 6, 12}));
  EXPECT_EQ(a.to_vector<float>(), (Floats{11, 12, 13}));
  EXPECT_EQ(b.to_vector<float>(), (Floats{7, 2, 3}));
  EXPECT_EQ(d.to_vector<float>(), (Floats{0, 1, 2}));
  EXPECT_EQ(e.to_vector<float>(), (Floats{6, 7, 8}));
}

// spec: DV-10
TEST(SimDevice, MemoryIsReusedInTheOrderOfTheQueue) {
  const Tensor x = Tensor({1.0, 2.0, 3.0}).to(device());
  std::vector<Tensor> sums;
  {
    const sim::Hold hold(device());
    for (int i = 0; i < 50; ++i) {
      const Tensor twice = x * 2.0;  // freed, and its memory taken again, before it is written
      sums.push_back(twice + static_cast<float>(i));
      if (i % 3 == 0) sums.front() = sums.back();
    }
  }
  EXPECT_EQ(sums[0].to_vector<float>(), (Floats{50, 52, 54}));
  for (int i = 1; i < 50; ++i) {
    const auto f = static_cast<float>(i);
    EXPECT_EQ(sums[static_cast<std::size_t>(i)].to_vector<float>(), (Floats{2 + f, 4 + f, 6 + f}));
  }
}

// spec: DV-10
TEST(SimDevice, CopiesAreOrderedWithCalls) {
  const Device other = sim::add_device();
  Tensor x = Tensor({1.0, 2.0}).to(device());
  for (int i = 0; i < 10; ++i) {
    x = x * 2.0;
    x = x.to(other);
    x = x + 1.0;
    x = i % 2 == 0 ? x.to(device()) : x.to("cpu:0").to(device());
  }
  EXPECT_EQ(x.to_vector<float>(), (Floats{2047, 3071}));
}

TEST(SimDeviceDeathTest, TheHostCannotReadItsMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  // By SIGSEGV, or by the report of a sanitizer that handles the signal.
  EXPECT_DEATH(
      {
        const Tensor x = Tensor({1.0, 2.0}).to(device());
        const auto* at = static_cast<const volatile char*>(TensorAccess::data(x));
        static_cast<void>(*at);
      },
      "");
}

// spec: DV-03, DV-09
TEST(SimDevice, ScopesPlaceCalls) {
  const Tensor a = 1.0f, b = 2.0f, n = 3;
  Tensor c, d, e;
  {
    const DeviceScope on("sim:0");
    c = a + b;
    d = n * 2;
    e = random::normal({4});
  }
  EXPECT_EQ(c.device(), device());
  EXPECT_EQ(c.item<float>(), 3);
  EXPECT_EQ(d.device(), device());
  EXPECT_EQ(d.item<int>(), 6);
  EXPECT_EQ(e.device(), device());
  EXPECT_EQ(a.device(), Device());
  EXPECT_EQ((c + 1.0).device(), device());
  EXPECT_EQ(zeros({2}, {.device = "sim:0"}).device(), device());
}

// spec: DV-05
TEST(SimDevice, CopiesCanBeForbidden) {
  const Tensor a = {1.0, 2.0};
  const DeviceScope on(device(), {.copies = CopyPolicy::kForbid});
  expect_error([&] { a + a; }, ErrorCode::kFailedPrecondition,
               {"add: operand 'x1'", " is on cpu:0, but the call runs on sim:0"});
}

// Random draws have the same numbers on both devices.
TEST(SimDevice, KeysAreReadWhenACallIsMade) {
  const auto draw = [] {
    const SeedScope seed(7);
    return random::uniform({100});
  };
  const Tensor want = draw();
  const DeviceScope on(device());
  const sim::Hold hold(device());
  const Tensor got = draw();
  EXPECT_EQ(got.device(), device());
  std::optional<Tensor> home;
  sim::queue_of(device()).release();
  home = got.to("cpu:0");
  sim::queue_of(device()).hold();
  EXPECT_TRUE(same_value(*home, want));
}

// spec: DV-07
TEST(SimDevice, StagedFunctionsRunThere) {
  auto f = function([](const Tensor& x) {
    const Tensor y = matmul(x, tanh(x)) + 1.0;
    const Tensor chosen = cond(
        sum(y) > 0.0, [&] { return y * 2.0; }, [&] { return -y; });
    return while_loop([](const Tensor& z) { return sum(z) < 500.0; },
                      [&](const Tensor& z) { return z + y * y; }, chosen);
  });
  const Tensor x = {{0.5, 1.0}, {1.5, -0.25}};
  const Tensor home = f(x);
  const Tensor away = f(x.to(device()));
  EXPECT_EQ(away.device(), device());
  EXPECT_TRUE(same_value(away.to("cpu:0"), home));
  const DeviceScope on(device());
  EXPECT_TRUE(same_value(f(x).to("cpu:0"), home));
  EXPECT_EQ(f.trace_count(), 1);
}

TEST(SimDevice, StagedCallsDoNotWait) {
  auto f = function([](const Tensor& x) { return tanh(x) * x + sum(x); });
  const Tensor x = Tensor({1.0, 2.0}).to(device());
  const Tensor want = f(Tensor({1.0, 2.0}));
  f(x);
  Tensor y;
  {
    const sim::Hold hold(device());
    y = f(x);
    y = f(y);
    EXPECT_GT(sim::queue_of(device()).pending(), 0);
  }
  EXPECT_TRUE(same_value(y.to("cpu:0"), f(want)));
}

// spec: DV-07
TEST(SimDevice, PlansHaveStepsOnSeveralDevices) {
  auto f = function([](const Tensor& x) {
    const Tensor y = sin(x * 2.0) + x;
    Tensor z;
    {
      const DeviceScope on(device());
      z = tanh(y) * y;
      z = z + matmul(z, z);
    }
    const Tensor back = z.to("cpu:0") + cos(y);
    return std::pair(back * back, z);
  });
  const Tensor x = {{0.5, 1.0}, {1.5, -0.25}};
  const Tensor y = sin(x * 2.0) + x;
  Tensor z = tanh(y) * y;
  z = z + matmul(z, z);
  const Tensor back = z + cos(y);
  for (int i = 0; i < 3; ++i) {
    const auto [got, there] = f(x);
    EXPECT_EQ(got.device(), Device());
    EXPECT_EQ(there.device(), device());
    EXPECT_TRUE(same_value(got, back * back));
    EXPECT_TRUE(same_value(there.to("cpu:0"), z));
  }
}

TEST(SimDevice, ScansCarryValuesAndRows) {
  auto f = function([](const Tensor& x) {
    return scan(
        [](const Tensor& sum, const Tensor& row) {
          const Tensor next = tanh(sum + row);
          return std::pair(next, next * row);
        },
        zeros_like(x.at(0)), x);
  });
  const Tensor x = {{0.5, 1.0}, {1.5, -0.25}, {2.0, 0.125}};
  const auto want = f(x);
  const auto got = f(x.to(device()));
  EXPECT_TRUE(same_value(got.first.to("cpu:0"), want.first));
  EXPECT_TRUE(same_value(got.second.to("cpu:0"), want.second));
}

TEST(SimDevice, DerivativesHaveTheSameBits) {
  const Tensor x = {{0.5, 1.0}, {1.5, -0.25}};
  const auto loss = [](const Tensor& t) { return sum(exp(t) * matmul(t, t)); };
  auto staged = function(loss);
  const Tensor want = gradient(loss)(x), away = x.to(device());
  EXPECT_TRUE(same_value(gradient(loss)(away).to("cpu:0"), want));
  const auto through = [&](const Tensor& t) { return staged(t); };
  EXPECT_TRUE(same_value(gradient(through)(away).to("cpu:0"), gradient(through)(x)));
  const auto loop = [](const Tensor& t) {
    return sum(while_loop([](const Tensor& z) { return sum(z) < 90.0; },
                          [&](const Tensor& z) { return z * 1.5 + t * t; }, t));
  };
  auto staged_loop = function(loop);
  const auto through_loop = [&](const Tensor& t) { return staged_loop(t); };
  EXPECT_TRUE(same_value(gradient(through_loop)(away).to("cpu:0"), gradient(through_loop)(x)));
  const auto twice = [&](const Tensor& t) { return sum(gradient(loss)(t) * t); };
  EXPECT_TRUE(same_value(gradient(twice)(away).to("cpu:0"), gradient(twice)(x)));
  const auto rows = vmap([](const Tensor& row) { return row * sum(row); });
  EXPECT_TRUE(same_value(rows(away).to("cpu:0"), rows(x)));
}

// spec: DV-08
TEST(SimDevice, AVariableWinsOverTheScope) {
  const Variable home(Tensor({1.0, 2.0}), {.name = "home"});
  const Variable away(Tensor({1.0, 2.0}).to(device()), {.name = "away"});
  {
    const DeviceScope on(device());
    home.assign(Tensor({3.0, 4.0}));
    home.assign_add(1.0);
    EXPECT_EQ(home.device(), Device());
  }
  {
    const DeviceScope on("cpu:0");
    away.assign_add(Tensor({1.0, 1.0}));
    EXPECT_EQ(away.device(), device());
  }
  EXPECT_EQ(home.read().to_vector<float>(), (Floats{4, 5}));
  EXPECT_EQ(away.read().to_vector<float>(), (Floats{2, 3}));
  auto step = function([&](const Tensor& x) {
    away.assign_add(x);
    return away * 2.0;
  });
  const Tensor y = step(Tensor({1.0, 1.0}).to(device()));
  EXPECT_EQ(y.device(), device());
  EXPECT_EQ(y.to_vector<float>(), (Floats{6, 8}));
  EXPECT_EQ(away.device(), device());
  expect_error([&] { home + away; }, ErrorCode::kInvalidArgument,
               {" is on cpu:0 and ", " is on sim:0, and no DeviceScope selects one"});
  auto both = function([&] { return home + away; });
  expect_error([&] { both(); }, ErrorCode::kInvalidArgument,
               {"add: operand 'x1' is on cpu:0 and operand 'x2' is on sim:0, and no DeviceScope "
                "selects one"});
  const DeviceScope on(device());
  EXPECT_EQ(both().to_vector<float>(), (Floats{7, 9}));
}

// Prints and assertions are host code: they see the elements, in the order of the program.
TEST(SimDevice, EffectsWaitForTheirValues) {
  std::vector<std::string> lines;
  const auto before = set_print_sink([&](std::string_view line) { lines.emplace_back(line); });
  auto f = function([](const Tensor& x) {
    const Tensor y = x * 2.0;
    print("y is", y);
    assert_true(sum(y) > 0.0, "y is positive");
    return y + 1.0;
  });
  const Tensor y = f(Tensor({1.0, 2.0}).to(device()));
  expect_error(
      [&] {
        f(Tensor({-1.0, -2.0}).to(device()));
      },
      ErrorCode::kFailedPrecondition, {"y is positive: the condition is false"});
  set_print_sink(before);
  EXPECT_EQ(y.to_vector<float>(), (Floats{3, 5}));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "y is [2., 4.]");
}

// A callable of the host gets copies on cpu:0, and its results go back where the next call needs
// them.
TEST(SimDevice, HostFunctionsRunOnTheHost) {
  std::vector<Device> seen;
  const auto twice = host_function(
      [&](const Tensor& x) {
        seen.push_back(x.device());
        return x * 2.0;
      },
      TensorSpec{{2}, kFloat32});
  auto f = function([&](const Tensor& x) { return twice(sin(x)) + x; });
  const Tensor x = {1.0, 2.0};
  const Tensor want = sin(x) * 2.0 + x;
  const Tensor got = f(x.to(device()));
  EXPECT_EQ(got.device(), device());
  EXPECT_TRUE(same_value(got.to("cpu:0"), want));
  EXPECT_EQ(seen, std::vector<Device>(1));  // cpu:0
}

TEST(SimDevice, LazyScopesRunItsCallsAtOnce) {
  const Tensor x = {1.0, 2.0};
  const LazyScope lazy;
  const Tensor pending = x * 2.0;
  const Tensor away = pending.to(device()) + 1.0;
  EXPECT_EQ(away.device(), device());
  EXPECT_EQ((away.to("cpu:0") + pending).to_vector<float>(), (Floats{5, 9}));
}

// A copy of a captured tensor is made once for all calls.
TEST(SimDevice, CapturesAreCopiedOnce) {
  const Tensor w = full({1000}, 2.0);
  auto f = function([&](const Tensor& x) { return x * w; });
  const Tensor x = full({1000}, 3.0).to(device());
  const Tensor want = f(full({1000}, 3.0));
  f(x);
  sim::queue_of(device()).wait_for({});
  const uint64_t before = sim::queue_of(device()).done();
  const Tensor y = f(x);
  sim::queue_of(device()).wait_for({});
  EXPECT_EQ(sim::queue_of(device()).done(), before + 1);  // the product, and no copy
  EXPECT_TRUE(same_value(y.to("cpu:0"), want));
}

// The memory of intermediate values of staged calls is the device's own.
TEST(SimDevice, StatisticsIncludeArenas) {
  auto f = function(
      [](const Tensor& x) { return sum(sin(cumulative_sum(x)) * cumulative_sum(x + 1.0)); });
  for (const Device on : {device(), add_cpu_device()}) {
    const Tensor x = full({100000}, 0.5).to(on);
    const int64_t home = memory_stats("cpu:0").live_bytes;
    reset_peak_memory(on);
    const int64_t live = memory_stats(on).live_bytes;
    const Tensor y = f(x);
    EXPECT_EQ(y.device(), on);
    EXPECT_GE(memory_stats(on).peak_bytes, live + 400000);
    EXPECT_LT(memory_stats("cpu:0").live_bytes, home + 200000);
  }
}

TEST(SimDevice, HasALimitOfItsOwn) {
  const Device small = sim::add_device(1 << 20);
  const Tensor x = zeros({1000}).to(small);
  expect_error([&] { zeros({1000000}).to(small); }, ErrorCode::kResourceExhausted,
               {"were requested on " + small.to_string(), "more than the limit of 1.0 MiB"});
  auto f = function([](const Tensor& t) {
    return sum(matmul(reshape(t, {1000, 1}), reshape(t, {1, 1000})));
  });
  expect_error([&] { f(x); }, ErrorCode::kResourceExhausted,
               {"were requested on " + small.to_string()});
  set_memory_limit(small, 0);
  EXPECT_EQ(f(x).item<float>(), 0);
  EXPECT_EQ(memory_stats(small).limit_bytes, 0);
}

}  // namespace
}  // namespace etude
