// SPDX-License-Identifier: Apache-2.0
// Tests that run on a second CPU device and on a device that runs calls later.
//
//   using DeviceRows = OnDevice;
//   TEST_P(DeviceRows, ...) { ... device() ... }
//   INSTANTIATE_TEST_SUITE_P(Devices, DeviceRows, testing::Values(Other::kCpu, Other::kQueue),
//   name_of_other);
#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "etude/core/tensor.h"
#include "tests/devices/second_device.h"
#include "tests/devices/sim/sim_device.h"

namespace etude {

enum class Other : uint8_t { kCpu, kQueue };

inline std::string name_of_other(const testing::TestParamInfo<Other>& info) {
  return info.param == Other::kCpu ? "cpu1" : "sim0";
}

class OnDevice : public testing::TestWithParam<Other> {
 protected:
  static bool is_queued() { return GetParam() == Other::kQueue; }
  static Device device() { return is_queued() ? sim::device() : second(); }
  // A further device of the same kind.
  static Device another() {
    static const Device cpu = add_cpu_device(), queue = sim::add_device();
    return is_queued() ? queue : cpu;
  }
  static std::string name() { return device().to_string(); }
  // "cpu" or "sim".
  static std::string kind() { return name().substr(0, name().find(':')); }
  static Tensor there(const Tensor& x) { return x.to(device()); }
};

}  // namespace etude
