// SPDX-License-Identifier: Apache-2.0
// Runs the tests of a program on a simulated device: with ETUDE_TEST_DEVICE=sim:0 in the
// environment each test runs in a DeviceScope of it. A test that looks at the memory of cpu:0
// cannot run so; the list of the program in CMakeLists.txt leaves it out.
#include <cstdlib>
#include <memory>
#include <string_view>

#include <gtest/gtest.h>

#include "etude/core/context/device_scope.h"
#include "tests/devices/sim/sim_device.h"

namespace etude::sim {
namespace {

class ScopeAround final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    scope_ = std::make_unique<DeviceScope>(device());
  }
  void OnTestEnd(const testing::TestInfo&) override { scope_.reset(); }

  std::unique_ptr<DeviceScope> scope_;
};

// Registered before main(), which gtest_main owns.
const bool is_registered = [] {
  const char* const wanted = std::getenv("ETUDE_TEST_DEVICE");
  if (wanted == nullptr || std::string_view(wanted) != "sim:0") return false;
  testing::UnitTest::GetInstance()->listeners().Append(new ScopeAround);
  return true;
}();

}  // namespace
}  // namespace etude::sim
