// SPDX-License-Identifier: Apache-2.0
// Placement of calls by scopes and by operands.
#include "etude/core/context/device_scope.h"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/base/warning.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/op.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "tests/devices/second_device.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

std::string second_name() { return second().to_string(); }

// The warnings of `f`.
template <class F>
std::vector<std::string> warnings_of(F&& f) {
  std::vector<std::string> out;
  WarningHandler before =
      set_warning_handler([&](std::string_view text) { out.emplace_back(text); });
  f();
  set_warning_handler(std::move(before));
  return out;
}

// spec: DV-03
TEST(DeviceScope, ACallRunsInTheScopeAndOperandsStay) {
  const Tensor a = 1.0f, b = 2.0f;
  Tensor c;
  {
    const DeviceScope on(second_name());
    c = a + b;
    const Tensor again = c * 2.0;
    EXPECT_EQ(again.device(), second());
    EXPECT_EQ(again.item<float>(), 6);
  }
  EXPECT_EQ(c.device(), second());
  EXPECT_EQ(c.item<float>(), 3);
  EXPECT_EQ(a.device(), Device());
  EXPECT_EQ(b.device(), Device());
  EXPECT_EQ((c + 1.0).device(), second());  // numbers follow
  EXPECT_EQ((1 - c).item<float>(), -2);
}

// spec: DV-03
TEST(DeviceScope, CopiesAreDifferentiable) {
  const auto f = [](const Tensor& x) {
    const DeviceScope on(second_name());
    return sum(x * x);
  };
  const Tensor x = {1.0, 2.0};
  const Tensor g = gradient(f)(x);
  EXPECT_EQ(g.device(), Device());
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{2, 4}));
  const auto copies = [](const Tensor& t) { return sum(t.to(second_name())); };
  const Tensor ones = gradient(copies)(x);
  EXPECT_EQ(ones.device(), Device());
  EXPECT_EQ(ones.to_vector<float>(), (std::vector<float>{1, 1}));
  // From a device to the home: the cotangent goes back to the device.
  const Tensor away = x.to(second());
  const Tensor back = gradient([](const Tensor& t) { return sum(t.to("cpu:0") * 3.0); })(away);
  EXPECT_EQ(back.device(), second());
  EXPECT_EQ(back.to_vector<float>(), (std::vector<float>{3, 3}));
  // All on one device, without a scope.
  const Tensor own = gradient([](const Tensor& t) { return sum(t * t); })(away);
  EXPECT_EQ(own.device(), second());
  EXPECT_EQ(own.to_vector<float>(), (std::vector<float>{2, 4}));
}

// spec: DV-04
TEST(DeviceScope, WithoutAScopeCallsRunWhereTheirOperandsAre) {
  const Tensor home = {1.0, 2.0}, away = home.to(second());
  EXPECT_EQ((home + home).device(), Device());
  EXPECT_EQ((away + away).device(), second());
  EXPECT_EQ(matmul(away, away).device(), second());
  EXPECT_FALSE(current_device());
  const DeviceScope on(second());
  EXPECT_EQ(current_device(), second());
}

TEST(DeviceScope, TwoDevicesOutsideOfAScopeAreAnError) {
  const Tensor home = {1.0, 2.0}, away = home.to(second());
  const int line = __LINE__ - 1;
  expect_error(
      [&] { home + away; }, ErrorCode::kInvalidArgument,
      {"add: operand 'x1' is on cpu:0 and operand 'x2' (made at ",
       "device_scope_test.cc:" + std::to_string(line) + ") is on " + second_name() +
           ", and no DeviceScope selects one. Copy one of them: x1.to(\"" + second_name() + "\")",
       "\n  at "});
  expect_error(
      [&] {
        concat({away, home});
      },
      ErrorCode::kInvalidArgument,
      {"concat: element 0 of 'xs' (made at ", "element 1 of 'xs' is on cpu:0"});
  expect_error([&] { where(home > 0.0, away, 0.0); }, ErrorCode::kInvalidArgument,
               {"operand 'condition' is on cpu:0 and operand 'x1' (made at "});
}

// spec: DV-05
TEST(DeviceScope, CopyPolicies) {
  const Tensor home = {1.0, 2.0};
  EXPECT_TRUE(warnings_of([&] {
                const DeviceScope on(second(), {.copies = CopyPolicy::kSilent});
                EXPECT_EQ((home + home).device(), second());
              }).empty());

  internal::forget_warnings();
  const std::vector<std::string> warned = warnings_of([&] {
    const DeviceScope on(second(), {.copies = CopyPolicy::kWarn});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(negative(home).device(), second());
  });
  ASSERT_EQ(warned.size(), 1U);  // one for each line
  for (const std::string& part :
       {std::string("negative: operand 'x' is on cpu:0, but the call runs on ") + second_name(),
        std::string("it is copied"), std::string("device_scope_test.cc:")}) {
    EXPECT_NE(warned[0].find(part), std::string::npos) << warned[0];
  }

  const DeviceScope on(second(), {.copies = CopyPolicy::kForbid});
  const int line = __LINE__ - 1;
  expect_error([&] { negative(home); }, ErrorCode::kFailedPrecondition,
               {"negative: operand 'x' is on cpu:0, but the call runs on " + second_name() +
                    ", the device of the DeviceScope at ",
                "device_scope_test.cc:" + std::to_string(line) +
                    ", which forbids copies. Copy it first: x.to(\"" + second_name() + "\")",
                "\n  at "});
  // An explicit copy is always allowed, and numbers follow.
  const Tensor away = home.to(second());
  EXPECT_EQ((away * 2.0 + 1).to_vector<float>(), (std::vector<float>{3, 5}));
  EXPECT_EQ(away.to("cpu:0").device(), Device());
  {
    const DeviceScope inner("cpu:0");  // the policy is inherited
    expect_error([&] { negative(away); }, ErrorCode::kFailedPrecondition, {"which forbids copies"});
    const DeviceScope silent("cpu:0", {.copies = CopyPolicy::kSilent});
    EXPECT_EQ(negative(away).device(), Device());
  }
}

// spec: DV-06
TEST(DeviceScope, ScopesNestAndCanBeCleared) {
  const Tensor home = {1.0, 2.0}, away = home.to(second());
  const DeviceScope outer(second());
  EXPECT_EQ(negative(home).device(), second());
  {
    const DeviceScope inner("cpu:0");
    EXPECT_EQ(negative(away).device(), Device());
    {
      const DeviceScope clear(std::nullopt);
      EXPECT_FALSE(current_device());
      EXPECT_EQ(negative(away).device(), second());
      EXPECT_EQ(negative(home).device(), Device());
      expect_error([&] { home + away; }, ErrorCode::kInvalidArgument, {"no DeviceScope"});
      const DeviceScope again(second());
      EXPECT_EQ(negative(home).device(), second());
    }
    EXPECT_EQ(negative(away).device(), Device());
  }
  EXPECT_EQ(negative(home).device(), second());
}

// spec: DV-06
TEST(DeviceScope, PartsOfNamesAreMerged) {
  const Tensor home = {1.0, 2.0};
  const DeviceScope job("/job:localhost/task:0");
  {
    const DeviceScope type("cpu");
    // The name fits several devices: an error of the first call.
    expect_error([&] { negative(home); }, ErrorCode::kInvalidArgument,
                 {"negative: '/job:localhost/replica:0/task:0/device:CPU:*' is the name of ",
                  " devices: cpu:0, ", second_name()});
    expect_error([] { current_device(); }, ErrorCode::kInvalidArgument, {"is the name of "});
    const DeviceScope index("device:*:" + std::to_string(second().index()));
    EXPECT_EQ(current_device(), second());
    EXPECT_EQ(negative(home).device(), second());
  }
  const DeviceScope whole(second_name());
  EXPECT_EQ(negative(home).device(), second());
}

// spec: DV-06
TEST(DeviceScope, AnExceptionEndsAScope) {
  const Tensor home = {1.0, 2.0};
  try {
    const DeviceScope on(second());
    throw std::runtime_error("a fault of the program");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(current_device());
  EXPECT_EQ(internal::mode_word & internal::kModeDevice, 0U);
  EXPECT_EQ(negative(home).device(), Device());
  // A constructor that throws opens nothing.
  expect_error([] { const DeviceScope on("gpu:"); }, ErrorCode::kInvalidArgument,
               {"DeviceScope: the device name 'gpu:' has no value after 'gpu:'"});
  EXPECT_EQ(internal::mode_word & internal::kModeDevice, 0U);
}

TEST(DeviceScope, AnUpdateInPlaceKeepsTheDevice) {
  Tensor home = {1.0, 2.0}, away = home.to(second());
  {
    const DeviceScope on(second());
    home += 1.0;
    home *= Tensor({2.0, 2.0});
    EXPECT_EQ(home.device(), Device());
    away += Tensor({1.0, 1.0});
    EXPECT_EQ(away.device(), second());
  }
  EXPECT_EQ(home.to_vector<float>(), (std::vector<float>{4, 6}));
  EXPECT_EQ(away.to_vector<float>(), (std::vector<float>{2, 3}));
  away += 1.0;
  EXPECT_EQ(away.device(), second());
  expect_error([&] { away += home; }, ErrorCode::kInvalidArgument,
               {"add: operand 'x1' ", "operand 'x2' is on cpu:0, and no DeviceScope selects one"});
}

TEST(DeviceScope, ObjectsOnTheHeapMayEndInAnyOrder) {
  auto outer = std::make_unique<DeviceScope>("cpu:0");
  auto inner = std::make_unique<DeviceScope>(second());
  outer.reset();
  EXPECT_EQ(current_device(), second());
  inner.reset();
  EXPECT_FALSE(current_device());
  EXPECT_EQ(internal::mode_word & internal::kModeDevice, 0U);
}

TEST(DeviceScope, OtherThreadsHaveScopesOfTheirOwn) {
  const DeviceScope on(second());
  std::optional<Device> seen = second();
  std::thread([&] { seen = current_device(); }).join();
  EXPECT_FALSE(seen);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const DeviceScope own(t % 2 == 0 ? Device() : second());
      for (int i = 0; i < 50; ++i) {
        const Tensor y = Tensor({1.0, 2.0}) * 2.0;
        ASSERT_EQ(y.device(), t % 2 == 0 ? Device() : second());
        ASSERT_EQ(y.to_vector<float>(), (std::vector<float>{2, 4}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// spec: DV-09
TEST(DeviceScope, IntegersObeyTheScopeAndHostOperandsStay) {
  const Tensor n = tensor(std::vector<int32_t>{1, 2});
  const DeviceScope on(second(), {.copies = CopyPolicy::kForbid});
  const Tensor home_key = random::key(1).to("cpu:0");
  // The key is read on the host, by its mark in the record: no copy that the policy could forbid.
  const Tensor draws = random::uniform({3}, {.key = home_key});
  EXPECT_EQ(draws.device(), second());
  expect_error([&] { n + n; }, ErrorCode::kFailedPrecondition, {"which forbids copies"});
  const DeviceScope silent(second(), {.copies = CopyPolicy::kSilent});
  EXPECT_EQ((n + n).device(), second());
  EXPECT_EQ((n + n).to_vector<int>(), (std::vector<int>{2, 4}));
}

TEST(DeviceScope, CreationAndRandomFunctionsHonourScopeAndOption) {
  const std::string there = second_name();
  const Tensor plain = random::normal({2, 3}, {.key = random::key(3)});
  const auto expect_all = [&](const Device& device) {
    EXPECT_EQ(zeros({2}).device(), device);
    EXPECT_EQ(ones({2}).device(), device);
    EXPECT_EQ(empty({2}).device(), device);
    EXPECT_EQ(full({2}, 1.5).device(), device);
    EXPECT_EQ(arange(3).device(), device);
    EXPECT_EQ(eye(2).device(), device);
    EXPECT_EQ(linspace(0.0, 1.0, 3).device(), device);
    EXPECT_EQ(Tensor({1.0, 2.0}).device(), device);
    EXPECT_EQ(Tensor(std::vector<float>{1, 2}).device(), device);
    EXPECT_EQ(tensor({1.0, 2.0}).device(), device);
    EXPECT_EQ(random::uniform({2}).device(), device);
    EXPECT_EQ(random::uniform({2}, {.low = 1.0f, .high = 2.0f}).device(), device);
    EXPECT_EQ(random::randint({2}, 0, 3).device(), device);
    EXPECT_EQ(random::permutation(3).device(), device);
    EXPECT_EQ(random::bernoulli(0.5f, {4}).device(), device);
  };
  expect_all(Device());
  {
    const DeviceScope on(second());
    expect_all(second());
    EXPECT_EQ(zeros({2}, {.device = "cpu:0"}).device(), Device());
    EXPECT_EQ(random::normal({2}, {.device = "cpu:0"}).device(), Device());
    EXPECT_EQ(tensor({1.0}, {.device = "cpu:0"}).device(), Device());
    const Tensor same = random::normal({2, 3}, {.key = random::key(3)});
    EXPECT_EQ(same.device(), second());
    EXPECT_TRUE(same_value(same.to("cpu:0"), plain));
  }
  EXPECT_EQ(zeros({2}, {.device = there}).device(), second());
  EXPECT_EQ(arange(3, {.device = there}).to_vector<int>(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(eye(2, {.device = there}).device(), second());
  EXPECT_EQ(tensor({1.0, 2.0}, {.device = there}).device(), second());
  EXPECT_EQ(tensor(1, {.device = there}).device(), second());
  EXPECT_EQ(tensor(1, {.device = there}).dtype(), kInt32);
  const Tensor drawn = random::normal(
      {2, 3}, {.mean = 1.0f, .stddev = 2.0f, .key = random::key(3), .device = there});
  EXPECT_EQ(drawn.device(), second());
  EXPECT_TRUE(same_value(drawn.to("cpu:0"), plain * 2.0 + 1.0));
  expect_error([] { zeros({2}, {.device = "cpu:63"}); }, ErrorCode::kNotFound,
               {"zeros: there is no device 'cpu:63'"});
}

TEST(DeviceScope, RandomChoicesAreMadeWhereTheirOperandIs) {
  const std::string there = second_name();
  const Tensor key = random::key(3), p = {0.2f, 0.3f, 0.5f};
  const Tensor x = reshape(arange(6), {3, 2});
  const auto away = [&](const Tensor& y) { return y.to(there); };
  const auto expect_same = [&](const Tensor& y, const Tensor& home) {
    EXPECT_EQ(y.device(), second());
    EXPECT_TRUE(same_value(y.to("cpu:0"), home));
  };
  const Tensor classes = random::categorical(log(p), {9}, {.key = key});
  expect_same(random::categorical(log(p), {9}, {.key = key, .device = there}), classes);
  expect_same(random::categorical(log(away(p)), {9}, {.key = key}), classes);
  EXPECT_EQ(random::categorical(log(away(p)), {9}, {.device = "cpu:0"}).device(), Device());
  expect_same(random::bernoulli(away(p), {}, {.key = key}), random::bernoulli(p, {}, {.key = key}));
  expect_same(random::shuffle(away(x), {.key = key}), random::shuffle(x, {.key = key}));
  for (const bool replace : {true, false}) {
    const random::ChoiceOptions plain = {.replace = replace, .key = key};
    expect_same(random::choice(away(x), {2}, plain), random::choice(x, {2}, plain));
    const random::ChoiceOptions weighted = {.replace = replace, .p = p, .key = key};
    expect_same(random::choice(away(x), {2}, weighted), random::choice(x, {2}, weighted));
  }
  const DeviceScope on(second());
  expect_same(random::categorical(log(p), {9}, {.key = key}), classes);
}

// spec: DV-11
TEST(DeviceScope, WithoutAnAcceleratorTheProgramRunsOnTheCpu) {
  internal::forget_warnings();
  const std::vector<std::string> warned = warnings_of([] {
    for (int i = 0; i < 2; ++i) {
      const DeviceScope on("tpu:0");
      EXPECT_EQ((Tensor(1.0) + 2.0).item<float>(), 3);
      EXPECT_EQ(zeros({2}).device(), Device());
    }
  });
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_NE(warned[0].find("there is no device '/device:TPU:0' in this process: calls in its scope "
                           "run on cpu:0"),
            std::string::npos)
      << warned[0];
  expect_error([] { const DeviceScope on("tpu:0", {.soft = false}); }, ErrorCode::kNotFound,
               {"there is no device '/device:TPU:0' in this process. Its devices are: cpu:0"});
  // Of a kind that the process has, a missing index is an error.
  expect_error([] { const DeviceScope on("cpu:63"); }, ErrorCode::kNotFound,
               {"DeviceScope: there is no device '/device:CPU:63' in this process"});
}

// A device without a kernel of `matmul`.
Device lacking() {
  static const Device device = internal::add_device(
      {.make_memory = internal::make_cpu_memory,
       .prepare =
           [](const PrepareCall& call) {
             if (call.op.name() == "matmul") return false;
             const PrepareRule rule = call.op.kernel(Device::Kind::kCpu);
             if (rule != nullptr) rule(call);
             return rule != nullptr;
           },
       .has_kernel =
           [](const Op& op) {
             return op.name() != "matmul" && op.kernel(Device::Kind::kCpu) != nullptr;
           }});
  return device;
}

// spec: DV-04
TEST(DeviceScope, AnOpWithoutAKernelRunsOnTheCpuUnlessPlacementIsHard) {
  const Tensor home = {{1.0, 2.0}, {3.0, 4.0}}, away = home.to(lacking());
  EXPECT_EQ(lacking().kind(), Device::Kind::kTest);
  EXPECT_EQ(matmul(away, away).device(), Device());  // kernels decide
  EXPECT_EQ((away + away).device(), lacking());
  {
    const DeviceScope on(lacking());
    EXPECT_EQ((home + home).device(), lacking());
    const Tensor product = matmul(home, home);
    EXPECT_EQ(product.device(), Device());
    EXPECT_TRUE(same_value(product, matmul(home, home)));
    EXPECT_EQ(matmul(away, home).device(), Device());
  }
  const DeviceScope hard(lacking(), {.soft = false});
  const Tensor sum = home + home;
  EXPECT_EQ(sum.device(), lacking());
  expect_error([&] { matmul(home, home); }, ErrorCode::kUnimplemented,
               {"matmul: has no kernel on " + lacking().to_string() +
                    ", the device of a DeviceScope that is not soft. Devices with a kernel: cpu:0",
                "Set DeviceScopeOptions::soft, or open a DeviceScope of one of them",
                "device_scope_test.cc:"});
}

}  // namespace
}  // namespace etude
