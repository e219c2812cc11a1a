// SPDX-License-Identifier: Apache-2.0
// Devices hold tensors and run calls. A device is an id in a table of the process. The device of a
// tensor is part of its type. Scopes that select devices are in core/context/device_scope.h.
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/buffer.h"
#include "etude/version.h"

namespace ETUDE_API etude {

namespace internal {
struct DeviceEntry;
}

// The id of a device. The default is "cpu:0", which every process has. Devices are never destroyed.
// Plain value of two bytes.
class Device {
 public:
  enum class Kind : uint8_t {
    kCpu,   // the host's processors; each device has its own memory and limit
    kGpu,   // not in this version: such names parse, but there are no kernels
    kXla,   // as above
    kTest,  // for tests
  };

  constexpr Device() noexcept = default;
  // Finds the device with this name, such as "cpu:1", "device:CPU:1" or
  // "/job:localhost/task:0/device:CPU:1" (core/device_name.h).
  // throws: kInvalidArgument for a malformed name, and for a name that matches several devices;
  // kNotFound if no device matches. The message quotes the name or lists the devices.
  Device(std::string_view name,
         CallSite where = CallSite::here());  // NOLINT(google-explicit-constructor)
  Device(const char* name,
         CallSite where = CallSite::here())  // NOLINT(google-explicit-constructor)
      : Device(std::string_view(name), where) {}
  Device(const std::string& name,
         CallSite where = CallSite::here())  // NOLINT(google-explicit-constructor)
      : Device(std::string_view(name), where) {}

  Kind kind() const noexcept;
  int index() const noexcept;
  // Whether this is cpu:0. Host code reads elements directly only in the memory of cpu:0.
  constexpr bool is_home() const noexcept { return id_ == 0; }
  // Ids count up from 0 in the order in which devices became known.
  constexpr uint16_t id() const noexcept { return id_; }
  // "cpu:0".
  std::string to_string() const;
  // "/job:localhost/replica:0/task:0/device:CPU:0".
  std::string full_name() const;
  friend constexpr bool operator==(const Device&, const Device&) noexcept = default;
  friend constexpr auto operator<=>(const Device&, const Device&) noexcept = default;

 private:
  friend struct internal::DeviceEntry;
  explicit constexpr Device(uint16_t id) noexcept : id_(id) {}
  uint16_t id_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Device& device);  // "cpu:0"

// The devices of this process: cpu:0 first, then the others in the order in which they were added.
// The environment variable ETUDE_CPU_DEVICES sets the number of CPU devices at the start.
// threads: thread-safe.
std::vector<Device> list_devices();

// Adds a CPU device with its own memory, statistics and limit. Use it to test programs for several
// devices, or to bound the memory of a part of a program. Kernels of all CPU devices share the
// threads of the process. Devices cannot be removed.
// throws: kInvalidArgument for a negative limit; kResourceExhausted beyond 256 devices.
// threads: thread-safe.
struct CpuDeviceOptions {
  int64_t memory_limit_bytes = 0;  // 0: no limit
};
Device add_cpu_device(const CpuDeviceOptions& options = {});

// The memory use of one device. The 64-byte header of every tensor is in the memory of cpu:0. The
// counts deep_copies and copies_avoided of cpu:0 cover all devices.
// threads: thread-safe.
MemoryStats memory_stats(const Device& device);
// Sets the memory limit of one device, like set_memory_limit(bytes).
// threads: thread-safe.
void set_memory_limit(const Device& device, int64_t bytes);
// Resets peak_bytes of one device to live_bytes.
// threads: thread-safe.
void reset_peak_memory(const Device& device);

}  // namespace etude
