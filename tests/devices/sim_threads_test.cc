// SPDX-License-Identifier: Apache-2.0
// Eight threads on one simulated device.
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/context/device_scope.h"
#include "etude/ops.h"
#include "etude/stage/control_flow.h"
#include "etude/stage/function.h"
#include "etude/variables/variable.h"
#include "tests/devices/sim/sim_device.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using sim::device;

template <class F>
void on_threads(int count, const F& f) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&f, t] { f(t); });
  for (std::thread& thread : threads) thread.join();
}

// spec: DV-10
TEST(SimThreads, EagerAndStagedCalls) {
  auto f = function([](const Tensor& x) { return tanh(matmul(x, x)) * x + sum(x); });
  const auto loss = [&](const Tensor& x) { return sum(f(x) * exp(x * 0.5)); };
  const Tensor start = {{0.5, 1.0}, {1.5, -0.25}};
  const auto work = [&](int t, Device on) {
    Tensor x = start.to(on) * static_cast<float>(t + 1);
    for (int i = 0; i < 20; ++i) {
      const Tensor slope = gradient(loss)(x);
      x = x - slope * 0.001;
      if (i % 7 == t % 7) x.to_vector<float>();  // now and then this thread waits
    }
    return x;
  };
  std::vector<Tensor> want;
  for (int t = 0; t < 8; ++t) want.push_back(work(t, Device()));
  on_threads(8, [&](int t) {
    const Tensor got = work(t, device());
    EXPECT_TRUE(same_value(got.to("cpu:0"), want[static_cast<std::size_t>(t)])) << t;
  });
}

TEST(SimThreads, FaultsOfOneThreadAreItsOwn) {
  std::atomic<int> faults = 0;
  on_threads(8, [&](int t) {
    const DeviceScope on(device());
    const Tensor x = Tensor({1.0, 2.0, 3.0}) * static_cast<float>(t);
    for (int i = 0; i < 20; ++i) {
      const Tensor y = take(x, Tensor({t % 2 == 0 ? 1 : 7})) * 2.0;
      try {
        EXPECT_EQ(y.to_vector<float>()[0], 4.0f * static_cast<float>(t));
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("take: "), std::string::npos);
        ++faults;
      }
    }
  });
  EXPECT_EQ(faults, 80);
}

TEST(SimThreads, VariablesOfAllThreads) {
  const Variable total(Tensor(0.0).to(device()));
  auto add = function([&](const Tensor& x) { total.assign_add(x); });
  on_threads(8, [&](int) {
    for (int i = 0; i < 25; ++i) add(Tensor(1.0).to(device()));
  });
  EXPECT_EQ(total.read().item<float>(), 200);
}

}  // namespace
}  // namespace etude
