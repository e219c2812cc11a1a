// SPDX-License-Identifier: Apache-2.0
// The rows of devices and of their names, each on a second CPU device and on a simulated device.
#include <algorithm>
#include <cctype>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/gradient.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/op/op.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/stage/control_flow.h"
#include "etude/stage/function.h"
#include "etude/variables/variable.h"
#include "tests/devices/on_device.h"
#include "tests/devices/sim/sim_memory.h"
#include "tests/expect_error.h"
#include "tests/warnings.h"

namespace etude::device_rows_test {

using tests::expect_error;
using Floats = std::vector<float>;

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

class DeviceRows : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceRows, testing::Values(Other::kCpu, Other::kQueue),
                         name_of_other);

// spec: DV-01, RM-01
TEST_P(DeviceRows, AreListedUnderTheirFullNames) {
  const Device other = device();  // the first use adds it
  const std::vector<Device> all = list_devices();
  EXPECT_EQ(all.front().full_name(), "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(std::ranges::count(all, other), 1);
  const std::string type = upper(kind());
  const std::string part = "device:" + type + ":" + std::to_string(device().index());
  EXPECT_EQ(device().full_name(), "/job:localhost/replica:0/task:0/" + part);
  EXPECT_EQ(Device("/" + part + "/task:0/job:localhost"), device());
  EXPECT_EQ(Device("/task:0/" + part), device());
}

// spec: DV-02
TEST_P(DeviceRows, ACopyIsThereAndAMissingIndexIsNamed) {
  const Tensor x = {1.0, 2.0}, y = there(x);
  EXPECT_EQ(y.device(), device());
  EXPECT_EQ(x.device(), Device());
  EXPECT_EQ(y.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(y.to("cpu:0").device(), Device());
  expect_error([&] { static_cast<void>(x.to(kind() + ":200")); }, ErrorCode::kNotFound,
               {"there is no device '" + kind() + ":200' in this process. Its devices are: cpu:0, ",
                name(), "device_rows_test.cc:"});
}

// spec: DV-03
TEST_P(DeviceRows, OperandsAreCopiedAndStay) {
  const Tensor a = 1.0F, b = 2.0F;
  const int64_t before = memory_stats(device()).live_bytes;
  {
    const DeviceScope on(device());
    const Tensor c = a + b;
    EXPECT_EQ(c.device(), device());
    EXPECT_EQ(c.item<float>(), 3);
    EXPECT_EQ(a.device(), Device());
    EXPECT_EQ(b.device(), Device());
  }
  EXPECT_EQ(memory_stats(device()).live_bytes, before);  // no copy outlives its call
}

// spec: DV-03, T18.a
TEST_P(DeviceRows, CopiesAreDifferentiable) {
  const Tensor home = {1.0, 2.0}, away = there(home);
  const auto to_there = [&](const Tensor& x) { return sum(there(x)); };
  const auto to_home = [](const Tensor& x) { return sum(x.to("cpu:0")); };
  const Tensor ones = gradient(to_there)(home), back = gradient(to_home)(away);
  EXPECT_EQ(ones.device(), Device());
  EXPECT_EQ(ones.to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(back.device(), device());
  EXPECT_EQ(back.to_vector<float>(), (Floats{1, 1}));
  const auto in_scope = [&](const Tensor& x) {
    const DeviceScope on(device());
    return sum(x * x);
  };
  const Tensor g = gradient(in_scope)(home);
  EXPECT_EQ(g.device(), Device());
  EXPECT_EQ(g.to_vector<float>(), (Floats{2, 4}));
}

bool has_all_but_matmul(const Op& op) {
  return op.name() != "matmul" && op.kernel(Device::Kind::kCpu) != nullptr;
}

// Devices without a kernel of `matmul`.
Device lacking(bool is_queued) {
  static const Device plain = internal::add_device({.make_memory = internal::make_cpu_memory,
                                                    .prepare =
                                                        [](const PrepareCall& call) {
                                                          if (!has_all_but_matmul(call.op))
                                                            return false;
                                                          call.op.kernel(Device::Kind::kCpu)(call);
                                                          return true;
                                                        },
                                                    .has_kernel = has_all_but_matmul});
  static const Device queued = internal::add_device(
      {.make_memory = [](const std::string& name,
                         int64_t limit) -> std::unique_ptr<internal::DeviceMemory> {
         return std::make_unique<sim::Memory>(name, limit);
       },
       .prepare =
           [](const PrepareCall& call) {
             return has_all_but_matmul(call.op) &&
                    internal::device_entry(sim::device()).prepare(call);
           },
       .has_kernel = has_all_but_matmul});
  return is_queued ? queued : plain;
}

// spec: DV-04
TEST_P(DeviceRows, KernelsDecideWithoutAScope) {
  const Tensor home = {{1.0, 2.0}, {3.0, 4.0}}, away = there(home);
  EXPECT_EQ((home + home).device(), Device());
  EXPECT_EQ((away + away).device(), device());
  EXPECT_EQ(matmul(away, away).device(), device());
  const Device lacks = lacking(is_queued());
  const Tensor x = home.to(lacks);
  EXPECT_EQ((x + x).device(), lacks);
  EXPECT_EQ(matmul(x, x).device(), Device());
  {
    const DeviceScope soft(lacks);
    const Tensor product = matmul(home, x);
    EXPECT_EQ(product.device(), Device());
    EXPECT_TRUE(same_value(product, matmul(home, home)));
    EXPECT_EQ((home + home).device(), lacks);
  }
  const DeviceScope hard(lacks, {.soft = false});
  expect_error([&] { matmul(x, x); }, ErrorCode::kUnimplemented,
               {"matmul: has no kernel on " + lacks.to_string() +
                    ", the device of a DeviceScope that is not soft. Devices with a kernel: cpu:0",
                name(), "Set DeviceScopeOptions::soft", "device_rows_test.cc:"});
}

// spec: SC-07.b
TEST_P(DeviceRows, AVariableOfAFirstCallIsOnTheDeviceOfTheScope) {
  std::optional<Variable> scoped, inner, outside;
  const auto f = function([&](const Tensor& x) {
    if (!scoped) {
      scoped.emplace(zeros({2}) + 1.0);
      const DeviceScope home(Device{});
      inner.emplace(ones({2}));
    }
    return scoped->assign_add(x);
  });
  const Tensor x = there({1.0, 2.0});
  {
    const DeviceScope on(device());
    EXPECT_EQ(f(x).to_vector<float>(), (Floats{2, 3}));
  }
  EXPECT_EQ(scoped->device(), device());
  EXPECT_EQ(inner->device(), Device());
  EXPECT_EQ(f(x).to_vector<float>(), (Floats{3, 5}));  // no scope: it stays
  EXPECT_EQ(scoped->device(), device());
  EXPECT_EQ(f.trace_count(), 1);
  const auto g = function([&] {
    if (!outside) outside.emplace(zeros({2}));
    return outside->read();
  });
  g();
  EXPECT_EQ(outside->device(), Device());
  // The scope is around the outermost call.
  std::optional<Variable> nested;
  const auto h = function([&](const Tensor& y) {
    if (!nested) nested.emplace(zeros({2}));
    return y + nested->read();
  });
  const auto around = function([&](const Tensor& y) { return h(y) * 2.0; });
  const DeviceScope on(device());
  EXPECT_EQ(around(x).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(nested->device(), device());
}

// spec: DV-05
TEST_P(DeviceRows, CopyPolicies) {
  const Tensor home = {1.0, 2.0};
  const auto negate_in = [&](CopyPolicy policy) {
    const DeviceScope on(device(), {.copies = policy});
    return negative(home);
  };
  const tests::Warnings warnings;
  EXPECT_EQ(negate_in(CopyPolicy::kSilent).to_vector<float>(), (Floats{-1, -2}));
  EXPECT_TRUE(warnings.told.empty());
  EXPECT_EQ(negate_in(CopyPolicy::kWarn).to_vector<float>(), (Floats{-1, -2}));
  ASSERT_EQ(warnings.told.size(), 1U);
  const std::string fact = "negative: operand 'x' is on cpu:0, but the call runs on " + name() +
                           ", the device of the DeviceScope at ";
  EXPECT_TRUE(tests::contains(warnings.told[0], fact)) << warnings.told[0];
  EXPECT_TRUE(tests::contains(warnings.told[0], "it is copied")) << warnings.told[0];
  expect_error([&] { negate_in(CopyPolicy::kForbid); }, ErrorCode::kFailedPrecondition,
               {fact, "which forbids copies. Copy it first: x.to(\"" + name() + "\")",
                "device_rows_test.cc:"});
  const DeviceScope on(device(), {.copies = CopyPolicy::kForbid});
  const Tensor away = there(home);  // always allowed
  EXPECT_EQ((away * 2.0 + 1).to_vector<float>(), (Floats{3, 5}));
  EXPECT_EQ(away.to("cpu:0").device(), Device());
}

// spec: DV-06
TEST_P(DeviceRows, ScopesNestAndMergeAndCanBeCleared) {
  const Tensor home = {1.0, 2.0}, away = there(home);
  const Device more = another();
  const DeviceScope outer("/job:localhost/task:0");
  {
    const DeviceScope type(kind());
    expect_error([&] { negative(home); }, ErrorCode::kInvalidArgument,
                 {"is the name of ", name(), more.to_string()});
    const DeviceScope index("device:*:" + std::to_string(device().index()));
    EXPECT_EQ(current_device(), device());
    EXPECT_EQ(negative(home).device(), device());
    {
      const DeviceScope inner(more);
      EXPECT_EQ(negative(away).device(), more);
      const DeviceScope clear(std::nullopt);
      EXPECT_FALSE(current_device());
      EXPECT_EQ(negative(home).device(), Device());
      EXPECT_EQ(negative(away).device(), device());
    }
    try {
      const DeviceScope inner("cpu:0");
      EXPECT_EQ(negative(away).device(), Device());
      throw std::runtime_error("of the program");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(negative(home).device(), device());
  }
}

// spec: DV-07
TEST_P(DeviceRows, AStagedFunctionRunsInTheScopeOfItsCall) {
  const Device more = another();
  auto f = function([&](const Tensor& x) {
    const Tensor y = tanh(x) * x;
    const DeviceScope inside(more);
    return std::pair(y, y + 1.0);
  });
  const Tensor x = {1.0, 2.0}, want = tanh(x) * x, more_wanted = want + 1.0;
  const auto check = [&](const std::pair<Tensor, Tensor>& found, const Device& where) {
    EXPECT_EQ(found.first.device(), where);
    EXPECT_EQ(found.second.device(), more);
    EXPECT_TRUE(same_value(found.first.to("cpu:0"), want));
    EXPECT_TRUE(same_value(found.second.to("cpu:0"), more_wanted));
  };
  check(f(x), Device());
  check(f(there(x)), device());
  {
    const DeviceScope on(device());
    check(f(x), device());
  }
  check(f(x), Device());
  EXPECT_EQ(f.trace_count(), 1U);
}

// spec: DV-08
TEST_P(DeviceRows, AVariableWinsOverTheScope) {
  const Variable home(Tensor({1.0, 2.0}), {.name = "home"});
  const Variable away(there(Tensor({1.0, 2.0})), {.name = "away"});
  {
    const DeviceScope on(device());
    home.assign(Tensor({3.0, 4.0}));
    home.assign_add(1.0);
  }
  {
    const DeviceScope on("cpu:0");
    away.assign_sub(Tensor({1.0, 1.0}));
    away.assign_add(2.0);
  }
  EXPECT_EQ(home.device(), Device());
  EXPECT_EQ(home.read().to_vector<float>(), (Floats{4, 5}));
  EXPECT_EQ(away.device(), device());
  EXPECT_EQ(away.read().to_vector<float>(), (Floats{2, 3}));
  const auto both = function([&] { return home + away; });
  for (const auto& run : {std::function<Tensor()>([&] { return home + away; }),
                          std::function<Tensor()>([&] { return both(); })}) {
    expect_error(
        run, ErrorCode::kInvalidArgument,
        {"add: operand 'x1' ", "is on cpu:0", " is on " + name(), "no DeviceScope selects one"});
    const DeviceScope on(device());
    const Tensor sum = run();
    EXPECT_EQ(sum.device(), device());
    EXPECT_EQ(sum.to_vector<float>(), (Floats{6, 8}));
  }
}

// A function is traced on cpu:0, but values that depend on a Variable are on its device.
// spec: DV-08
TEST_P(DeviceRows, LoopsAndBranchesWithAVariableOfTheDevice) {
  const Tensor x = {0.5, 1.0}, rows = {{1.0, 2.0}, {-3.0, 0.5}, {1.0, -1.0}};
  const auto body_of = [](const Variable& v) {
    return [&v](const Tensor& start, const Tensor& steps) {
      const auto [last, outputs] = scan(
          [&](const Tensor& state, const Tensor& row) {
            cond(
                sum(row) > 0.0F, [&] { v.assign_add(row * 0.125F); }, [&] {});
            const Tensor next = state * 0.5F + v;
            return std::pair(next, next * row);
          },
          start, steps);
      const Tensor chosen = cond(
          sum(last) > 0.0F, [&] { return start * v; }, [&] { return start; });
      const Tensor grown = while_loop([](const Tensor& s) { return sum(s) < 20.0F; },
                                      [&](const Tensor& s) { return s + v * v; }, start);
      return grown + chosen + sum(outputs);
    };
  };
  const Variable home(Tensor({1.0, 2.0})), away(there(Tensor({1.0, 2.0})));
  const auto plain = body_of(home), there_body = body_of(away);
  const auto staged = function<Tensor(const Tensor&, const Tensor&)>(there_body);
  for (int i = 0; i < 2; ++i) {
    const Tensor want = plain(x, rows);
    const Tensor found = staged(there(x), there(rows));
    EXPECT_EQ(found.device(), device());
    EXPECT_TRUE(same_value(found.to("cpu:0"), want)) << found << want;
    EXPECT_TRUE(same_value(away.read().to("cpu:0"), home.read()));
  }
  EXPECT_EQ(staged.trace_count(), 1U);
  const DeviceScope on(device());
  const Tensor scoped = staged(x, rows), again = there_body(x, rows);
  EXPECT_EQ(scoped.device(), device());
  EXPECT_EQ(again.device(), device());
  home.assign(away.read());
  const auto without_state = [&](const Variable& v) {
    return [&v](const Tensor& start) {
      return sum(fold([&](const Tensor& s, const Tensor& row) { return tanh(s * v) + row; }, start,
                      stack({start, start})));
    };
  };
  const auto slope = gradient(without_state(home), x);
  const auto loop = function<Tensor(const Tensor&)>(without_state(away));
  const Tensor found = gradient([&](const Tensor& t) { return loop(t); }, there(x));
  EXPECT_EQ(found.device(), device());
  EXPECT_TRUE(same_value(found.to("cpu:0"), slope.to("cpu:0")));
}

// An argument of a staged call inside a trace follows the value of a Variable, as an operand does.
// spec: DV-08
TEST_P(DeviceRows, AStagedCallInsideATraceFollowsAVariable) {
  const Variable away(there(Tensor({1.0, 2.0}))), home(Tensor({1.0, 2.0}));
  const auto inner = function([](const Tensor& a, const Tensor& b) { return a * b + 1.0; });
  const auto outer = function([&](const Tensor& x) { return inner(x, away) * x; });
  const Tensor y = outer(there(Tensor({3.0, 4.0})));
  EXPECT_EQ(y.device(), device());
  EXPECT_EQ(y.to_vector<float>(), (Floats{12, 36}));
  const auto both = function([&] { return inner(home, away); });
  expect_error([&] { both(); }, ErrorCode::kInvalidArgument,
               {"is on cpu:0, another argument is on " + name(), "no DeviceScope selects one"});
}

// Two devices are the same error for recorded calls and for examples of a vmap.
// spec: Z2.a
TEST_P(DeviceRows, TwoDevicesAreAnErrorInALazyScopeAndInAVmap) {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}}, y = there(x);
  const auto mixed = vmap([](const Tensor& a, const Tensor& b) { return a + b; });
  for (const bool is_lazy : {false, true}) {
    std::optional<LazyScope> lazy;
    if (is_lazy) lazy.emplace();
    const Tensor here = x * 2.0;
    const std::string line = "device_rows_test.cc:" + std::to_string(__LINE__ + 1);
    expect_error([&] { here + y; }, ErrorCode::kInvalidArgument,
                 {"add: operand 'x1'", " is on cpu:0 and operand 'x2'", " is on " + name(),
                  "no DeviceScope selects one", line});
    EXPECT_EQ(is_pending(here), is_lazy);  // the call itself failed, and ran nothing
    expect_error([&] { mixed(here, y); }, ErrorCode::kInvalidArgument,
                 {"is on cpu:0", " is on " + name(), "no DeviceScope selects one"});
  }
}

// spec: DV-09
TEST_P(DeviceRows, IntegersObeyTheScopeAndHostOperandsStay) {
  const Tensor n = {1, 2}, key = random::key(1);
  const Tensor want = random::uniform({3}, {.key = key});
  {
    const DeviceScope on(device());
    const Tensor twice = n + n;
    EXPECT_EQ(twice.device(), device());
    EXPECT_EQ(twice.to_vector<int>(), (std::vector<int>{2, 4}));
  }
  const DeviceScope on(device(), {.copies = CopyPolicy::kForbid});
  // The key is marked in the record: a copy would be refused.
  const Tensor drawn = random::uniform({3}, {.key = key});
  EXPECT_EQ(drawn.device(), device());
  EXPECT_TRUE(same_value(drawn.to("cpu:0"), want));
  expect_error([&] { n + n; }, ErrorCode::kFailedPrecondition, {"which forbids copies"});
}

// spec: DV-10
TEST_P(DeviceRows, CopiesAreOrderedWithComputation) {
  Tensor x = there(Tensor({1.0, 2.0}));
  for (int i = 0; i < 30; ++i) {
    x += 1.0;
    const auto f = static_cast<float>(i);
    ASSERT_EQ(x.to_vector<float>(), (Floats{2 + f, 3 + f}));
    const Tensor elsewhere = x.to(another()) * 2.0;
    x = elsewhere.to(device()) * 0.5;
  }
  EXPECT_EQ(x.to("cpu:0").to_vector<float>(), (Floats{31, 32}));
}

// spec: DV-11
TEST_P(DeviceRows, AMissingAcceleratorIsTheCpu) {
  const DeviceScope on(device());
  const DeviceScope tpu("tpu:0");
  const Tensor three = Tensor(1.0) + 2.0;
  EXPECT_EQ(three.device(), Device());
  EXPECT_EQ(three.item<float>(), 3);
  expect_error([] { const DeviceScope hard("tpu:0", {.soft = false}); }, ErrorCode::kNotFound,
               {"there is no device ", "Its devices are: cpu:0, ", name()});
}

// spec: RM-02
TEST_P(DeviceRows, ShortNamesAndWildcards) {
  const std::string type = upper(kind());
  const std::string index = std::to_string(device().index());
  EXPECT_EQ(Device("device:" + type + ":" + index), device());
  EXPECT_EQ(Device("/job:*/" + type + ":" + index), device());
  const Device more = another();
  const Tensor x = {1.0, 2.0};
  const std::string several = "' is the name of ";
  expect_error([&] { static_cast<void>(x.to(kind())); }, ErrorCode::kInvalidArgument,
               {"'" + kind() + several, name(), more.to_string(), "Write one of them"});
  expect_error([&] { static_cast<void>(x.to(kind() + ":*")); }, ErrorCode::kInvalidArgument,
               {several, name(), more.to_string()});
  auto f = function([](const Tensor& t) { return t * 2.0; });
  f(x);
  const DeviceScope any(kind());
  expect_error([&] { x * 2.0; }, ErrorCode::kInvalidArgument, {several, name(), more.to_string()});
  expect_error([&] { f(x); }, ErrorCode::kInvalidArgument, {several, name(), more.to_string()});
}

// spec: RM-03
TEST_P(DeviceRows, MalformedNamesSayWhy) {
  const Tensor x = {1.0, 2.0};
  const auto refused = [&](const std::string& text, const std::string& why) {
    expect_error([&] { static_cast<void>(x.to(text)); }, ErrorCode::kInvalidArgument,
                 {"the device name '" + text + "' " + why, "device_rows_test.cc:"});
    expect_error([&] { const DeviceScope on(text); }, ErrorCode::kInvalidArgument, {why});
  };
  refused(kind() + ":", "has no value after '" + kind() + ":'");
  refused(kind() + ":-1", "has the index -1, but numbers are 0 or more");
  refused(kind() + ":0x", "has further text 'x' after the index 0");
  refused("/job:1st/" + kind() + ":0", "has the job '1st', but a job starts with a letter");
  refused("/" + kind() + ":0/device:CPU:0", "has two parts 'device'");
  refused("no" + kind() + ":0", "has the unknown word 'no" + kind() + "'");
}

// spec: RM-04
TEST_P(DeviceRows, NamesOfScopesMerge) {
  const Tensor x = {1.0, 2.0};
  const DeviceScope job("/job:localhost/device:*:" + std::to_string(device().index()));
  const DeviceScope type(kind());  // joins the parts
  EXPECT_EQ(negative(x).device(), device());
  const DeviceScope more(another().to_string());  // in conflict with the index: the inner part wins
  EXPECT_EQ(negative(x).device(), another());
  const DeviceName outer = DeviceName::parse(name());
  EXPECT_EQ(outer.merged(DeviceName::parse("/job:localhost")).index, device().index());
  expect_error(
      [&] { static_cast<void>(outer.merged_strictly(DeviceName::parse(another().to_string()))); },
      ErrorCode::kInvalidArgument, {"the index is '", "in one name and '"});
}

}  // namespace etude::device_rows_test
