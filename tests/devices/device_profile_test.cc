// SPDX-License-Identifier: Apache-2.0
// Profiles of calls that run later: the times are times in the queue, not times of enqueueing.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "etude/eager/profile.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/devices/on_device.h"
#include "tests/temp_folder.h"

namespace etude::device_profile_test {

using Clock = std::chrono::steady_clock;

std::optional<ProfileEntry> entry_of(const Profile& profile, std::string_view op, int line) {
  for (const ProfileEntry& e : profile.entries()) {
    if (e.op == op && e.where.line == line) return e;
  }
  return std::nullopt;
}

double seconds_of(const auto& f) {
  const Clock::time_point start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(DeviceProfile, ShowsTheTimeOfTheQueue) {
  const Tensor home = ones({400, 400}), x = home.to(sim::device());
  matmul(x, x).to("cpu:0");
  double product_s = 1;  // the least of five, since other processes may stop this one
  for (int i = 0; i < 5; ++i) {
    product_s = std::min(product_s, seconds_of([&] { static_cast<void>(matmul(home, home)); }));
  }
  const ProfileScope scope;
  const int line = __LINE__ + 4;
  Tensor y;
  {
    const sim::Hold hold(sim::device());
    y = matmul(x, x);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // waits in the queue
  }
  const auto product = entry_of(scope.profile(), "matmul", line);
  ASSERT_TRUE(product) << scope.profile().table();
  EXPECT_EQ(product->calls, 1);
  EXPECT_EQ(product->bytes, 3 * 640000);
  EXPECT_GT(product->seconds, product_s / 10);  // enqueueing takes microseconds
  EXPECT_LT(product->seconds, 0.5);             // and the wait is no part of it
  EXPECT_EQ(product->own_seconds, product->seconds);
}

TEST(DeviceProfile, ShowsTheStepsOfAStagedFunction) {
  const auto f = function([](const Tensor& v) {
    const Tensor product = matmul(v, v);
    return tanh(product);
  });
  const int line = __LINE__ - 3;
  const Tensor x = ones({300, 300}).to(sim::device());
  f(x);
  const ProfileScope scope;
  for (int i = 0; i < 3; ++i) f(x);
  const int call_line = __LINE__ - 1;
  const auto product = entry_of(scope.profile(), "matmul", line);
  const auto whole = entry_of(scope.profile(), "call", call_line);
  ASSERT_TRUE(product && whole) << scope.profile().table();
  EXPECT_EQ(product->calls, 3);
  EXPECT_GT(product->seconds, 0);
  EXPECT_EQ(whole->calls, 3);
  EXPECT_EQ(whole->own_seconds, whole->seconds);  // the time on the host
  EXPECT_TRUE(entry_of(scope.profile(), "tanh", line + 1));
}

TEST(DeviceProfile, WaitsForTheQueueWhereItIsRead) {
  const Tensor x = ones({100}).to(sim::device());
  const ProfileScope scope;
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = y + x;
  const int line = __LINE__ - 1;
  const auto sum = entry_of(scope.profile(), "add", line);
  EXPECT_EQ(sim::queue_of(sim::device()).pending(), 0);
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->calls, 50);
}

// A call that does not run, since its operand has a fault, took no time.
TEST(DeviceProfile, CallsAfterAFaultTakeNoTime) {
  const Tensor x = ones({3}).to(sim::device()), index = Tensor({7}).to(sim::device());
  const ProfileScope scope;
  const Tensor y = take(x, index);
  const Tensor z = exp(y);
  const int line = __LINE__ - 1;
  EXPECT_THROW(z.to_vector<float>(), Error);
  const auto after = entry_of(scope.profile(), "exp", line);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->calls, 1);
  EXPECT_EQ(after->seconds, 0);
  EXPECT_GT(entry_of(scope.profile(), "take", line - 1)->seconds, 0);
}

TEST(DeviceProfile, ATraceHasATrackForTheDevice) {
  const Tensor x = ones({50, 50}).to(sim::device());
  const ProfileScope scope;
  const Tensor y = exp(x);
  const internal::TempFolder folder;
  const std::string path = (folder.path() / "trace.json").string();
  scope.profile().write_trace(path);
  std::ifstream file(path);
  const nlohmann::json events = nlohmann::json::parse(file)["traceEvents"];
  int track = -1;
  for (const auto& e : events) {
    if (e["ph"] == "M" && e["args"]["name"] == "sim:0") track = e["tid"].get<int>();
  }
  ASSERT_GE(track, 0) << events;
  double enqueued = -1, began = -1;
  for (const auto& e : events) {
    if (e["ph"] != "X" || e["name"] != "exp") continue;
    (e["tid"] == track ? began : enqueued) = e["ts"].get<double>();
  }
  EXPECT_GE(enqueued, 0);
  EXPECT_GE(began, enqueued);
}

TEST(DeviceProfile, EndsWithItsScope) {
  const Tensor x = ones({3}).to(sim::device());
  Tensor y;
  {
    const sim::Hold hold(sim::device());
    {
      const ProfileScope scope;
      y = exp(x);
    }
  }
  EXPECT_EQ(y.to_vector<float>().size(), 3U);  // the call ran after the end of the profile
}

}  // namespace etude::device_profile_test
