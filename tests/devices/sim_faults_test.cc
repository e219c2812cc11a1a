// SPDX-License-Identifier: Apache-2.0
// Late errors: faults of calls that had returned, the values that depend on them, and devices that
// vanish.
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/context/device_scope.h"
#include "etude/io/safetensors.h"
#include "etude/ops.h"
#include "etude/stage/control_flow.h"
#include "etude/stage/function.h"
#include "etude/variables/variable.h"
#include "tests/devices/sim/sim_device.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

using sim::device;
using tests::expect_error;
using tests::message_of;
using Floats = std::vector<float>;

Tensor on_sim(const Tensor& x) { return x.to(device()); }
std::string line(int number) { return "sim_faults_test.cc:" + std::to_string(number); }
std::string next_line(int before) { return line(before + 1); }

// Rows of x at index 7 of an axis of 3: a fault of the kernel.
Tensor wrong_rows(const Tensor& x) { return take(x, Tensor({7}).to(x.device())); }

// spec: IM-12.c, SL-07.c
TEST(LateErrors, NameTheOpAndTheLine) {
  const Tensor x = on_sim({1.0, 2.0, 3.0}), index = on_sim({0, 7});
  const std::string at = next_line(__LINE__);
  const Tensor y = take(x, index);  // returns
  const std::string now = message_of([] { take(Tensor({1.0, 2.0, 3.0}), Tensor({0, 7})); });
  const std::string late = message_of([&] { y.to_vector<float>(); });
  EXPECT_NE(late.find("\n  at "), std::string::npos);
  EXPECT_NE(late.find(at), std::string::npos) << late;
  EXPECT_EQ(late.substr(0, late.find('\n')), now.substr(0, now.find('\n')));
  expect_error([&] { y.to_vector<float>(); }, ErrorCode::kOutOfRange,
               {"take: index 7 is out of range for axis 0 of size 3", at});
}

// spec: IM-12.c
TEST(LateErrors, APoisonedValueNeverShowsANumber) {
  const Tensor x = on_sim({1.0, 2.0, 3.0});
  const std::string at = next_line(__LINE__);
  Tensor y = take(x, on_sim({0, 7}));
  const Tensor z = sum(y * 0.0) + x;
  const Tensor unharmed = x * 2.0;
  EXPECT_EQ(unharmed.to_vector<float>(), (Floats{2, 4, 6}));
  const auto look = [&](const auto& f) {
    expect_error(f, ErrorCode::kOutOfRange, {"take: ", "index", at});
  };
  look([&] { y.to_vector<float>(); });
  look([&] { z.to_vector<float>(); });
  look([&] { sum(z).item<float>(); });
  look([&] { z.to("cpu:0"); });
  look([&] { static_cast<void>(same_value(y, y)); });
  look([&] { static_cast<void>(static_cast<bool>(sum(y) > 0.0)); });
  look([&] { y.at(0).item<float>(); });
  look([&] { wrong_rows(y).to("cpu:0"); });  // the first fault
  EXPECT_NE(z.to_string().find("<not computed: take: "), std::string::npos) << z.to_string();
  y = x + 1.0;
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 3, 4}));
}

TEST(LateErrors, AFaultInTheMiddleOfTheQueue) {
  const Tensor x = on_sim({1.0, 2.0, 3.0});
  std::vector<Tensor> good, bad;
  {
    const sim::Hold hold(device());
    for (int i = 0; i < 10; ++i) {
      good.push_back(x + static_cast<float>(i));
      bad.push_back(wrong_rows(good.back()) * 2.0);
      good.push_back(sum(good.back() * x));
    }
  }
  for (std::size_t i = 0; i < 10; ++i) {
    const auto f = static_cast<float>(i);
    EXPECT_EQ(good[2 * i].to_vector<float>(), (Floats{1 + f, 2 + f, 3 + f}));
    EXPECT_EQ(good[2 * i + 1].item<float>(), 14 + 6 * f);
    expect_error([&] { bad[i].to_vector<float>(); }, ErrorCode::kOutOfRange, {"take: "});
  }
}

TEST(LateErrors, InPlaceUpdatesAndVariables) {
  const Tensor x = on_sim({1.0, 2.0, 3.0});
  Tensor y = x * 2.0;
  y += sum(wrong_rows(x));
  expect_error([&] { y.to_vector<float>(); }, ErrorCode::kOutOfRange, {"take: "});
  const Variable v(x);
  v.assign_add(sum(wrong_rows(x)));
  expect_error([&] { v.read().to_vector<float>(); }, ErrorCode::kOutOfRange, {"take: "});
  v.assign(x);
  EXPECT_EQ(v.read().to_vector<float>(), (Floats{1, 2, 3}));
}

TEST(LateErrors, OfStagedCallsNameTheFunctions) {
  auto inner = function([](const Tensor& x, const Tensor& i) { return take(x, i) * 2.0; },
                        {.name = "inner"});
  auto outer = function([&](const Tensor& x, const Tensor& i) { return inner(x + 1.0, i) - 1.0; },
                        {.name = "outer"});
  const Tensor x = on_sim({1.0, 2.0, 3.0}), good = on_sim({0, 2}), bad = on_sim({0, 7});
  EXPECT_EQ(outer(x, good).to_vector<float>(), (Floats{3, 7}));
  const Tensor y = outer(x, bad);
  const std::string late = message_of([&] { y.to_vector<float>(); });
  const std::string now = message_of([&] { outer(Tensor({1.0, 2.0, 3.0}), Tensor({0, 7})); });
  EXPECT_NE(late.find("take: "), std::string::npos) << late;
  EXPECT_NE(late.find("in function 'outer' called at "), std::string::npos) << late;
  EXPECT_NE(late.find("in function 'inner' called at "), std::string::npos) << late;
  // Only the line of the call differs.
  EXPECT_EQ(late.substr(0, late.find("in function 'outer'")),
            now.substr(0, now.find("in function 'outer'")));
}

TEST(LateErrors, AFailingStagedCallAssignsNothing) {
  const Variable v(on_sim({1.0, 2.0, 3.0})), count(on_sim(Tensor(0)));
  auto step = function([&](const Tensor& i) {
    count.assign_add(1);
    v.assign(v + sum(take(v.read(), i)));
    return sum(v);
  });
  EXPECT_EQ(step(on_sim({1})).item<float>(), 12);
  EXPECT_EQ(v.read().to_vector<float>(), (Floats{3, 4, 5}));
  expect_error([&] { step(on_sim({7})); }, ErrorCode::kOutOfRange, {"take: ", "in function '"});
  EXPECT_EQ(v.read().to_vector<float>(), (Floats{3, 4, 5}));
  EXPECT_EQ(count.read().item<int>(), 1);
  EXPECT_EQ(step(on_sim({0})).item<float>(), 21);
}

// A step that cannot fail needs no wait.
TEST(LateErrors, AStagedCallThatCannotFailDoesNotWait) {
  const Variable v(on_sim({1.0, 2.0, 3.0}));
  auto step = function([&](const Tensor& x) { v.assign_add(x * 2.0); });
  const Tensor x = on_sim({1.0, 1.0, 1.0});
  step(x);
  {
    const sim::Hold hold(device());
    step(x);
    step(x);
    EXPECT_GT(sim::queue_of(device()).pending(), 0);
  }
  EXPECT_EQ(v.read().to_vector<float>(), (Floats{7, 8, 9}));
}

TEST(LateErrors, OfControlFlow) {
  auto loop = function([](const Tensor& x, const Tensor& i) {
    return while_loop([](const Tensor& y) { return sum(y) < 100.0; },
                      [&](const Tensor& y) { return y + take(y, i); }, x);
  });
  const Tensor x = on_sim({1.0, 2.0, 3.0});
  EXPECT_GE(sum(loop(x, on_sim({2}))).item<float>(), 100);
  // The condition of the second step is looked at.
  expect_error([&] { loop(x, on_sim({7})).to("cpu:0"); }, ErrorCode::kOutOfRange, {"take: "});
  auto branch = function([](const Tensor& t, const Tensor& i) {
    return cond(
        sum(take(t, i)) > 0.0, [&] { return t * 2.0; }, [&] { return t; });
  });
  EXPECT_EQ(branch(x, on_sim({2})).to_vector<float>(), (Floats{2, 4, 6}));
  expect_error([&] { branch(x, on_sim({7})); }, ErrorCode::kOutOfRange, {"take: "});
}

TEST(LateErrors, OfDerivatives) {
  const Tensor index = on_sim({7});
  const auto loss = [&](const Tensor& x) { return sum(exp(x) * sum(x.at(index))); };
  // Adding the cotangents of rows looks at the index.
  expect_error(
      [&] {
        gradient(loss)(on_sim({1.0, 2.0, 3.0})).to_vector<float>();
      },
      ErrorCode::kOutOfRange, {"index 7 is out of range for axis 0 of size 3", "at "});
  const auto scaled = [&](const Tensor& x) {
    return sum(exp(x) * sum(take(on_sim({1.0}), index)));
  };
  const Tensor y = gradient(scaled)(on_sim({1.0, 2.0, 3.0}));
  expect_error([&] { y.to_vector<float>(); }, ErrorCode::kOutOfRange, {"take: "});
}

TEST(LateErrors, AnExceptionOfTheProgramWhileWorkIsQueued) {
  const Tensor x = on_sim({1.0, 2.0, 3.0});
  Tensor kept;
  {
    const sim::Hold hold(device());
    try {
      const Tensor lost = x * 5.0;  // its memory is free before the call runs
      kept = lost + 1.0;
      const DeviceScope on(device());
      throw std::runtime_error("of the program");
    } catch (const std::runtime_error&) {
      EXPECT_EQ(current_device(), std::nullopt);
    }
    for (int i = 0; i < 10; ++i) static_cast<void>(x * 7.0);
  }
  EXPECT_EQ(kept.to_vector<float>(), (Floats{6, 11, 16}));
  auto f = function([](const Tensor& t) {
    if (t.rank() == 1) throw std::runtime_error("while it is traced");
    return t;
  });
  EXPECT_THROW(f(x), std::runtime_error);
  EXPECT_EQ((x + kept).to_vector<float>(), (Floats{7, 13, 19}));
}

// spec: DV-06
TEST(LateErrors, ScopesThatEndOutOfOrderAndInOtherThreads) {
  const Tensor x = {1.0, 2.0};
  auto outer = std::make_unique<DeviceScope>(device());
  auto inner = std::make_unique<DeviceScope>("cpu:0");
  Tensor y;
  {
    const sim::Hold hold(device());
    outer.reset();
    EXPECT_EQ((x + x).device(), Device());
    std::thread other([&] {
      EXPECT_EQ(current_device(), std::nullopt);  // scopes belong to their thread
      const DeviceScope on(device());
      y = x * 3.0;
    });
    other.join();
    inner.reset();
    EXPECT_EQ(current_device(), std::nullopt);
  }
  EXPECT_EQ(y.to_vector<float>(), (Floats{3, 6}));
}

TEST(LateErrors, OfADeviceThatVanishes) {
  const Device gone = sim::add_device();
  const Tensor x = Tensor({1.0, 2.0}).to(gone), y = x + 1.0;
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 3}));
  Tensor z;
  std::string at;
  {
    const sim::Hold hold(gone);
    at = next_line(__LINE__);
    z = tanh(y);
    sim::queue_of(gone).lose();
  }
  expect_error([&] { z.to_vector<float>(); }, ErrorCode::kUnavailable,
               {"tanh: " + gone.to_string() + " vanished before this call ran", at});
  const std::string now = next_line(__LINE__);
  expect_error([&] { y.to_vector<float>(); }, ErrorCode::kUnavailable,
               {gone.to_string() + " has vanished, and its values are lost. Compute them again on "
                                   "another device",
                now});
  const Tensor later = x * 2.0;  // returns
  expect_error([&] { later.item<float>(); }, ErrorCode::kInvalidArgument, {"exactly one element"});
  expect_error([&] { sum(later).item<float>(); }, ErrorCode::kUnavailable, {"vanished"});
  EXPECT_EQ((on_sim({1.0, 2.0}) * 2.0).to_vector<float>(), (Floats{2, 4}));
}

TEST(LateErrors, FilesHoldNoPoisonedValue) {
  const Tensor x = on_sim({1.0, 2.0, 3.0});
  const internal::TempFolder folder;
  const std::string path = folder.path() / "x.safetensors";
  expect_error(
      [&] {
        io::save_safetensors(path, {{"x", wrong_rows(x)}});
      },
      ErrorCode::kOutOfRange, {"take: "});
  EXPECT_THROW(io::load_safetensors(path), Error);
  io::save_safetensors(path, {{"x", x * 2.0}});
  EXPECT_EQ(io::load_safetensors(path).tensors.at("x").to_vector<float>(), (Floats{2, 4, 6}));
}

}  // namespace
}  // namespace etude
