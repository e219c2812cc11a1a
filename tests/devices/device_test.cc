// SPDX-License-Identifier: Apache-2.0
// The table of devices, and tensors on a second CPU device.
#include "etude/core/device.h"

#include <sstream>

#include <gtest/gtest.h>

#include "etude/core/call/builtin.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/host_door.h"
#include "etude/ops.h"
#include "tests/devices/second_device.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

// spec: DV-01
TEST(Device, TheListHasFullNamesOfAllDevices) {
  const Device other = second();
  const std::vector<Device> all = list_devices();
  ASSERT_GE(all.size(), 2U);
  EXPECT_EQ(all[0], Device());
  EXPECT_EQ(all[0].full_name(), "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_NE(std::find(all.begin(), all.end(), other), all.end());
  EXPECT_EQ(other.full_name(),
            "/job:localhost/replica:0/task:0/device:CPU:" + std::to_string(other.index()));
  for (const Device device : all) {
    EXPECT_EQ(Device(device.full_name()), device);
    EXPECT_EQ(Device(device.to_string()), device);
    std::ostringstream text;
    text << device;
    EXPECT_EQ(text.str(), device.to_string());
  }
  EXPECT_EQ(Device().to_string(), "cpu:0");
  EXPECT_EQ(Device().kind(), Device::Kind::kCpu);
  // A device that is known by name only is not in the list.
  const Device gpu = internal::device_called("gpu:7");
  EXPECT_EQ(gpu.to_string(), "gpu:7");
  EXPECT_EQ(gpu.kind(), Device::Kind::kGpu);
  EXPECT_EQ(internal::device_called("gpu:7"), gpu);
  EXPECT_EQ(list_devices(), all);
}

// spec: DV-02, Z2.c
TEST(Device, ACopyIsOnItsDevice) {
  const Device other = second();
  const Tensor x = {1.0, 2.0};
  const Tensor y = x.to(other);
  EXPECT_EQ(y.device(), other);
  EXPECT_EQ(x.device(), Device());
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(y.to(other).ref() == y.ref(), true);
  EXPECT_EQ(y.to("cpu:0").device(), Device());
  EXPECT_TRUE(same_value(y.to("cpu:0"), x));
  EXPECT_FALSE(same_value(y, x));
  EXPECT_EQ(to_device(x, other.to_string()).device(), other);
}

// spec: DV-02, RM-02
TEST(Device, AMissingDeviceIsNamedWithThoseThereAre) {
  const Device other = second();
  const Tensor x = {1.0, 2.0};
  expect_error([&] { static_cast<void>(x.to("cpu:63")); }, ErrorCode::kNotFound,
               {"there is no device 'cpu:63' in this process. Its devices are: cpu:0, ",
                other.to_string(), "device_test.cc:"});
  expect_error([&] { to_device(x, "gpu:0"); }, ErrorCode::kNotFound,
               {"to_device: there is no device 'gpu:0' in this process. Its devices are: cpu:0"});
  // A partial name of several devices lists them.
  expect_error(
      [&] { static_cast<void>(x.to("cpu")); }, ErrorCode::kInvalidArgument,
      {"'cpu' is the name of ", " devices: cpu:0, ", other.to_string(), "Write one of them"});
  expect_error([&] { static_cast<void>(x.to("/job:localhost")); }, ErrorCode::kInvalidArgument,
               {"'/job:localhost' is the name of "});
  expect_error([&] { static_cast<void>(x.to("")); }, ErrorCode::kInvalidArgument,
               {"the name of a device is empty"});
  expect_error([&] { static_cast<void>(x.to("chip:0")); }, ErrorCode::kInvalidArgument,
               {"has the unknown word 'chip'"});
  const Type* away = intern_type(kFloat32, {2}, internal::device_called("gpu:7"));
  expect_error([&] { static_cast<void>(internal::make_tensor(away)); }, ErrorCode::kNotFound,
               {"there is no device 'gpu:7' in this process"});
}

TEST(Device, ATensorAwayHasNoInlinePayload) {
  const Tensor y = Tensor(1.0f).to(second());
  const internal::TensorRep* rep = TensorAccess::rep(y);
  ASSERT_NE(rep->buffer, nullptr);
  EXPECT_EQ(rep->buffer->memory, internal::memory_of(second()));
  EXPECT_EQ(rep->block_bytes, sizeof(internal::TensorRep));
  // A small view shares the buffer, too.
  const Tensor row = reshape(y, {1, 1});
  EXPECT_EQ(TensorAccess::rep(row)->buffer, rep->buffer);
  EXPECT_EQ(row.device(), second());
}

TEST(Device, EmptyTensorsTravel) {
  const Tensor none = zeros({0, 3}).to(second());
  EXPECT_EQ(none.device(), second());
  EXPECT_TRUE(none.to_vector<float>().empty());
  EXPECT_EQ(none.to("cpu:0").shape(), Shape({0, 3}));
}

TEST(Device, StatisticsAndLimitsArePerDevice) {
  const Device other = add_cpu_device({.memory_limit_bytes = 1 << 20});
  const int64_t home = memory_stats().live_bytes;
  EXPECT_EQ(memory_stats(other).live_bytes, 0);
  EXPECT_EQ(memory_stats(other).limit_bytes, 1 << 20);
  Tensor x = zeros({1 << 16}, {.device = other.to_string()});
  EXPECT_EQ(memory_stats(other).live_bytes, (1 << 18) + 0);
  EXPECT_EQ(memory_stats(other).live_tensors, 1);
  EXPECT_LT(memory_stats().live_bytes - home, 1 << 16);
  EXPECT_EQ(memory_stats(Device()).limit_bytes, memory_stats().limit_bytes);
  expect_error([&] { static_cast<void>(zeros({1 << 18}, {.device = other.to_string()})); },
               ErrorCode::kResourceExhausted,
               {"1.0 MiB were requested on " + other.to_string() +
                    ", but 256.0 KiB of the limit of 1.0 MiB are in use",
                "1 buffer of 256.0 KiB", "raise the limit with set_memory_limit"});
  set_memory_limit(other, 2 << 20);
  const Tensor y = zeros({1 << 18}, {.device = other.to_string()});
  EXPECT_EQ(y.device(), other);
  EXPECT_GE(memory_stats(other).peak_bytes, (1 << 20) + (1 << 18));
  x.reset();
  reset_peak_memory(other);
  EXPECT_EQ(memory_stats(other).peak_bytes, memory_stats(other).live_bytes);
  expect_error([&] { set_memory_limit(other, -1); }, ErrorCode::kInvalidArgument,
               {"a memory limit of -1 bytes is below zero"});
  expect_error([] { add_cpu_device({.memory_limit_bytes = -1}); }, ErrorCode::kInvalidArgument,
               {"a memory limit of -1 bytes is below zero"});
}

TEST(Device, HostCodeReadsThroughTheDoorOnly) {
  const Tensor y = Tensor({1.0, 2.0}).to(second());
  expect_error([&] { static_cast<void>(y.data<float>()); }, ErrorCode::kFailedPrecondition,
               {"data() is a view of elements in the memory of cpu:0, but this tensor is on " +
                    second().to_string(),
                "Use to_vector(), or keep x.to(\"cpu:0\") and view that"});
  EXPECT_THROW(static_cast<void>(internal::host_elements(y)), Error);
  EXPECT_EQ(y.at(1).item<float>(), 2);
  EXPECT_TRUE(static_cast<bool>(y.at(0)));
  EXPECT_NE(y.to_string().find("Tensor([1., 2.]"), std::string::npos) << y.to_string();
  EXPECT_NE(y.to_string().find("device=" + second().to_string()), std::string::npos);
}

TEST(Device, ALookAfterACallSeesItsResult) {
  Tensor x = Tensor({1.0, 2.0}).to(second());
  for (int i = 0; i < 100; ++i) {
    x += 1.0;
    ASSERT_EQ(x.to_vector<float>(),
              (std::vector<float>{2.0f + static_cast<float>(i), 3.0f + static_cast<float>(i)}));
  }
  Tensor copy = x;
  copy.at(0) = 7.0;
  EXPECT_EQ(copy.device(), second());
  EXPECT_EQ(x.at(0).item<float>(), 101);
  EXPECT_EQ(copy.at(0).item<float>(), 7);
}

}  // namespace
}  // namespace etude
