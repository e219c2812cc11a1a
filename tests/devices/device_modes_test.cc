// SPDX-License-Identifier: Apache-2.0
// Devices together with Variables, tapes, staged functions, control flow, vmap, lazy scopes, files
// and other libraries.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/gradient.h"
#include "etude/autodiff/gradient_tape.h"
#include "etude/autodiff/jvp.h"
#include "etude/core/context/device_scope.h"
#include "etude/io/dlpack.h"
#include "etude/io/safetensors.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/optim/sgd.h"
#include "etude/stage/control_flow.h"
#include "etude/stage/function.h"
#include "etude/variables/init_scope.h"
#include "etude/variables/variable.h"
#include "tests/devices/second_device.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

using tests::expect_error;
using Floats = std::vector<float>;

TEST(DeviceModes, AVariableKeepsItsDevice) {
  const Variable home(Tensor({1.0, 2.0}));
  const Variable away(Tensor({1.0, 2.0}).to(second()));
  EXPECT_EQ(away.device(), second());
  {
    const DeviceScope on(second());
    home.assign(Tensor({3.0, 4.0}));
    EXPECT_EQ(home.device(), Device());
    home.assign_add(1.0);
    home.assign_sub(Tensor({1.0, 1.0}));
    home.at(0) = Tensor(7.0).to(second());
    EXPECT_EQ(home.device(), Device());
    EXPECT_EQ(home.read().to_vector<float>(), (Floats{7, 4}));
    EXPECT_EQ((home * 2.0).device(), second());
  }
  away.assign(Tensor({3.0, 4.0}));
  away.assign_add(1.0);
  away.assign_add(Tensor({1.0, 1.0}));
  EXPECT_EQ(away.device(), second());
  EXPECT_EQ(away.read().to_vector<float>(), (Floats{5, 6}));
}

// spec: IS-04.b
TEST(DeviceModes, InitScopeRunsOnTheDeviceOfTheCaller) {
  std::vector<Device> seen;
  const auto look = [&] {
    seen.push_back(init_scope([] { return ones({2}) + 1.0F; }).device());
    const DeviceScope home("cpu:0");
    seen.push_back(init_scope([] { return ones({2}); }).device());
  };
  const auto inner = function([&](const Tensor& x) {
    look();
    return x * 2.0F;
  });
  const auto outer = function([&](const Tensor& x) {
    look();
    return inner(x);
  });
  {
    const DeviceScope on(second());
    const Tensor y = outer(ones({2}));
    EXPECT_EQ(y.device(), second());
    EXPECT_EQ(ones({1}).device(), second());  // the scope is as before
  }
  EXPECT_EQ(seen, (std::vector<Device>{second(), Device(), second(), Device()}));
  seen.clear();
  const auto again = function([&](const Tensor& x) {
    look();
    return x * 2.0F;
  });
  again(ones({2}));
  EXPECT_EQ(seen, (std::vector<Device>{Device(), Device()}));
}

TEST(DeviceModes, AStagedAssignmentKeepsTheDevice) {
  const Variable home(Tensor({1.0, 2.0}));
  const auto f = function([&](const Tensor& x) {
    home.assign_add(x);
    return home * 2.0;
  });
  const DeviceScope on(second());
  const Tensor y = f(Tensor({1.0, 1.0}));
  EXPECT_EQ(y.device(), second());
  EXPECT_EQ(home.device(), Device());
  EXPECT_EQ(y.to_vector<float>(), (Floats{4, 6}));
  EXPECT_EQ(home.read().to_vector<float>(), (Floats{2, 3}));
}

// spec: DV-07
TEST(DeviceModes, OneTraceRunsOnTwoDevices) {
  auto f = function([](const Tensor& x) { return tanh(x) * x + 1.0; });
  const Tensor x = {1.0, 2.0};
  const Tensor home = f(x);
  EXPECT_EQ(home.device(), Device());
  Tensor away;
  {
    const DeviceScope on(second());
    away = f(x);
  }
  EXPECT_EQ(away.device(), second());
  EXPECT_TRUE(same_value(away.to("cpu:0"), home));
  EXPECT_EQ(f(x.to(second())).device(), second());  // without a scope: where the arguments are
  EXPECT_EQ(f(x).device(), Device());
  EXPECT_EQ(f.trace_count(), 1);
}

// spec: DV-07
TEST(DeviceModes, ExplicitDevicesInsideOverrideTheScope) {
  auto f = function([](const Tensor& x) {
    const Tensor y = x * 2.0;
    const DeviceScope on(second());
    return std::pair(y, y + 1.0);
  });
  const Tensor x = {1.0, 2.0};
  const auto [y, z] = f(x);
  EXPECT_EQ(y.device(), Device());
  EXPECT_EQ(z.device(), second());
  EXPECT_EQ(z.to_vector<float>(), (Floats{3, 5}));
  const Device third = add_cpu_device();
  const DeviceScope on(third);
  const auto [u, v] = f(x);
  EXPECT_EQ(u.device(), third);
  EXPECT_EQ(v.device(), second());
  EXPECT_EQ(v.to_vector<float>(), (Floats{3, 5}));
}

// spec: RM-02
TEST(DeviceModes, AStagedCallNeedsOneDevice) {
  auto f = function([](const Tensor& x) { return x * 2.0; });
  const Tensor x = {1.0, 2.0};
  f(x);
  EXPECT_EQ(second().index() > 0, true);
  const DeviceScope any("cpu");
  expect_error([&] { f(x); }, ErrorCode::kInvalidArgument,
               {"'/device:CPU:*' is the name of ", " devices: cpu:0, ", second().to_string()});
}

TEST(DeviceModes, ArgumentsOfAStagedCall) {
  auto f = function([](const Tensor& x, const Tensor& y) { return x + y; });
  const Tensor home = {1.0, 2.0}, away = home.to(second());
  expect_error([&] { f(home, away); }, ErrorCode::kInvalidArgument,
               {"is on cpu:0, another argument is on " + second().to_string() +
                    ", and no DeviceScope selects one. Copy one of them: ",
                ".to(\"" + second().to_string() + "\")"});
  const DeviceScope forbids(second(), {.copies = CopyPolicy::kForbid});
  EXPECT_EQ(f(away, away).device(), second());
  expect_error([&] { f(away, home); }, ErrorCode::kFailedPrecondition,
               {"is on cpu:0, but the call runs on " + second().to_string() +
                ", the device of the DeviceScope at "});
}

TEST(DeviceModes, ControlFlowRunsOnTheDevice) {
  auto f = function([](const Tensor& x) {
    const Tensor chosen = cond(
        sum(x) > 0.0, [&] { return x * 2.0; }, [&] { return -x; });
    return while_loop([](const Tensor& y) { return sum(y) < 50.0; },
                      [&](const Tensor& y) { return y + x; }, chosen);
  });
  const Tensor x = {1.0, 2.0};
  const Tensor home = f(x);
  const DeviceScope on(second());
  const Tensor away = f(x);
  EXPECT_EQ(away.device(), second());
  EXPECT_TRUE(same_value(away.to("cpu:0"), home));
}

TEST(DeviceModes, DerivativesOfStagedCalls) {
  auto f = function([](const Tensor& x) { return sum(exp(x) * x); });
  const Tensor x = {0.5, 1.0};
  const Tensor home = gradient([&](const Tensor& t) { return f(t); })(x);
  const Tensor away = x.to(second());
  const Tensor there = gradient([&](const Tensor& t) { return f(t); })(away);
  EXPECT_EQ(there.device(), second());
  EXPECT_TRUE(same_value(there.to("cpu:0"), home));
  const DeviceScope on(second());
  const Tensor scoped = gradient([&](const Tensor& t) { return f(t); })(x);
  EXPECT_TRUE(same_value(scoped.to("cpu:0"), home));
}

TEST(DeviceModes, TapesForwardModeAndVmap) {
  const Tensor x = Tensor({{1.0, 2.0}, {3.0, 4.0}}).to(second());
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(x * x);
  const Tensor g = tape.gradient(y, x);
  EXPECT_EQ(g.device(), second());
  EXPECT_EQ(g.to_vector<float>(), (Floats{2, 4, 6, 8}));
  const Tensor rows = vmap([](const Tensor& row) { return row * sum(row); })(x);
  EXPECT_EQ(rows.device(), second());
  EXPECT_EQ(rows.to_vector<float>(), (Floats{3, 6, 21, 28}));
  const Tensor second_order = gradient([](const Tensor& t) {
    return sum(gradient([](const Tensor& u) { return sum(u * u * u); })(t));
  })(x);
  EXPECT_EQ(second_order.device(), second());
  EXPECT_EQ(second_order.to_vector<float>(), (Floats{6, 12, 18, 24}));
}

TEST(DeviceModes, LazyScopesRunCallsOfOtherDevicesAtOnce) {
  const Tensor x = {1.0, 2.0};
  const LazyScope lazy;
  const Tensor pending = x * 2.0;
  const Tensor away = pending.to(second());
  EXPECT_EQ(away.device(), second());
  const Tensor y = away + 1.0;
  EXPECT_EQ(y.device(), second());
  EXPECT_EQ((y.to("cpu:0") + pending).to_vector<float>(), (Floats{5, 9}));
}

// Recorded calls are calls on cpu:0, also if their values are looked at in a scope.
TEST(DeviceModes, PendingCallsStayAtHomeInAScope) {
  const Tensor x = {1.0, 2.0};
  const LazyScope lazy;
  const Tensor pending = sin(x) * 2.0, other = cos(x);
  {
    const DeviceScope on(second());
    EXPECT_EQ(pending.to_vector<float>().size(), 2u);
    EXPECT_EQ((pending + x).device(), second());
  }
  EXPECT_EQ(pending.device(), Device());
  EXPECT_EQ(pending.data<float>()[0], 2.0f * sin(x).data<float>()[0]);
  EXPECT_TRUE(same_value(pending + other, sin(x) * 2.0 + cos(x)));
}

// Files name no device: a value comes to the device of the value that it replaces.
TEST(DeviceModes, RestoredValuesComeToTheDeviceOfTheirPlace) {
  struct Model {
    Tensor w, b;
  };
  const internal::TempFolder folder;
  const std::string path = folder.path() / "model.safetensors";
  io::save(Model{{1.0, 2.0}, {3.0}}, path);
  Model away{Tensor({0.0, 0.0}).to(second()), Tensor({0.0})};
  io::load(away, path);
  EXPECT_EQ(away.w.device(), second());
  EXPECT_EQ(away.w.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(away.b.device(), Device());
  EXPECT_EQ(away.b.to_vector<float>(), (Floats{3}));
}

// The state of an optimiser from a file comes to the device of its parameter at the next update.
TEST(DeviceModes, RestoredStatesComeToTheDeviceOfTheirParameter) {
  struct Model {
    Tensor w;
  };
  const auto train = [](Model& model, optim::SGD& sgd) {
    sgd.update(model, gradient([](const Model& m) { return sum(m.w * m.w); }, model));
  };
  Model home{{1.0, 2.0}}, away{Tensor({1.0, 2.0}).to(second())};
  optim::SGD first({.lr = 0.1, .momentum = 0.9}), other = first;
  train(home, first);
  train(away, other);
  other.restore(first.state());  // as read from a file
  train(home, first);
  train(away, other);
  EXPECT_EQ(away.w.device(), second());
  EXPECT_TRUE(same_value(away.w.to("cpu:0"), home.w));
}

// spec: DV-07
TEST(DeviceModes, ControlFlowInAScopeInsideAFunction) {
  const Tensor x = {1.0, 2.0}, one = {1.0, 1.0};
  const auto body = [&](const Tensor& at) {
    const DeviceScope on(second());
    const Tensor loop = while_loop([](const Tensor& y) { return sum(y) < 50.0; },
                                   [&](const Tensor& y) { return y * 2.0 + one; }, at);
    const Tensor chosen = cond(
        sum(at) > 0.0, [&] { return at; }, [&] { return loop * 2.0; });
    const auto [last, rows] =
        scan([](const Tensor& s, const Tensor& row) { return std::pair(s + row, s * row); },
             Tensor(0.0f), at);
    return loop + chosen * last + rows;
  };
  const Tensor want = [&] {
    const Tensor loop = while_loop([](const Tensor& y) { return sum(y) < 50.0; },
                                   [&](const Tensor& y) { return y * 2.0 + one; }, x);
    return loop + x * 3.0 + Tensor({0.0, 2.0});
  }();
  auto f = function(body);
  EXPECT_EQ(f(x).device(), second());
  EXPECT_TRUE(same_value(f(x).to("cpu:0"), want));
  EXPECT_TRUE(same_value(body(x).to("cpu:0"), want));
  const auto total = [&](const Tensor& t) { return sum(f(t)); };
  const Tensor g = gradient(total)(x);
  EXPECT_EQ(g.device(), Device());
  EXPECT_TRUE(same_value(g, gradient([&](const Tensor& t) { return sum(body(t)); })(x)));
}

TEST(DeviceModes, TangentsAndSecondRunsInAScope) {
  const Tensor x = {0.5, 1.0}, t = {1.0, -1.0};
  const auto f = [](const Tensor& at) { return sin(at) * at; };
  const auto want = jvp(f, x, t);
  {
    const DeviceScope on(second());
    const auto got = jvp(f, x.to(second()), t);
    EXPECT_EQ(got.second.device(), second());
    EXPECT_TRUE(same_value(got.second.to("cpu:0"), want.second));
  }
  expect_error([&] { jvp(f, x.to(second()), t); }, ErrorCode::kInvalidArgument,
               {"jvp: a tangent of type float32[2] on cpu:0 does not fit an argument of type "
                "float32[2] on " +
                second().to_string()});
  const auto again = [&](const Tensor& at) {
    const DeviceScope on(second());
    return sum(recompute_grad(f)(at));
  };
  for (const bool is_lazy : {false, true}) {
    std::optional<LazyScope> lazy;
    if (is_lazy) lazy.emplace();
    const Tensor g = gradient(again)(x);
    EXPECT_EQ(g.device(), Device());
    EXPECT_TRUE(same_value(g, gradient([&](const Tensor& at) { return sum(f(at)); })(x)));
  }
}

TEST(DeviceModes, OtherLibrariesGetCopiesOnRequestOnly) {
  const Tensor away = Tensor({1.0, 2.0}).to(second());
  expect_error([&] { to_dlpack(away); }, ErrorCode::kFailedPrecondition,
               {"to_dlpack: the tensor is on " + second().to_string() +
                ", and consumers of DLPack read the memory of cpu:0. Pass x.to(\"cpu:0\"), or copy "
                "= true"});
  expect_error([&] { to_dlpack(away, {.copy = false}); }, ErrorCode::kFailedPrecondition,
               {"cannot be shared without a copy. Pass copy = true"});
  const Tensor back = from_dlpack(to_dlpack(away, {.copy = true}));
  EXPECT_EQ(back.device(), Device());
  EXPECT_EQ(back.to_vector<float>(), (Floats{1, 2}));
}

}  // namespace
}  // namespace etude
