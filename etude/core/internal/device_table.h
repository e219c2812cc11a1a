// SPDX-License-Identifier: Apache-2.0
// The table of devices of the process, and the memory of a device that is not the home. A new kind
// of device adds entries here; CONTRIBUTING.md, "Add a device", lists the steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "etude/base/call_site.h"
#include "etude/core/buffer.h"
#include "etude/core/device.h"
#include "etude/core/device_name.h"

namespace etude {

class Op;
struct PrepareCall;

namespace internal {

// A buffer that is not in the memory of the home, with the line of the call that made it.
struct DeviceBuffer : Buffer {
  CallSite made_at;
};

// The memory of a device. Addresses belong to the device: only the device's kernels and this class
// read or write them. All sizes are in bytes.
//
// A device may have a queue: its kernels, put(), copy() and free() then return before their work is
// done, and the work runs in the order of these calls, of all threads. So memory may be reused as
// soon as it is freed. Its kernels set `state.stream` of the prepared call. A fault of queued work
// is late: it belongs to the values that depend on this work, and is thrown where the host looks at
// one of them (late_calls.h).
// threads: thread-safe.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  // A buffer with count 1 that names this memory; `data` is never null.
  // throws: kResourceExhausted beyond the limit, naming the device.
  virtual DeviceBuffer* allocate(int64_t bytes) = 0;
  virtual void free(DeviceBuffer* buffer) noexcept = 0;
  // Copies from the host. `from` may be changed after the return.
  virtual void put(void* to, const void* from, std::size_t bytes) = 0;
  // Copies to the host: waits until all calls that were made before have run. throws: the late
  // error of these elements.
  virtual void get(void* to, const void* from, std::size_t bytes) = 0;
  // Copies within the memory.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // Waits like get(), and copies nothing. throws: the late error of these elements.
  virtual void wait_for(const void* /*data*/, std::size_t /*bytes*/) {}
  // Whether the device has a queue.
  virtual bool is_queued() const noexcept { return false; }
  virtual MemoryStats stats() = 0;
  virtual void set_limit(int64_t bytes) = 0;
  virtual void reset_peak() = 0;
};

// A device of the table. Immutable and never destroyed.
struct DeviceEntry {
  Device::Kind kind = Device::Kind::kCpu;
  DeviceName name;                 // all parts
  std::string text;                // "cpu:0"
  bool is_there = true;            // false: known by name only, as from the text of a graph
  DeviceMemory* memory = nullptr;  // null: of the home. Never destroyed
  // Prepares a call, instead of the kernels of the op's record for this kind of device. Returns
  // false if the device has no kernel for it. Null: the column of the record.
  bool (*prepare)(const PrepareCall& call) = nullptr;
  // Whether the device has a kernel of the op; with `prepare` only. Null: if there is one for CPUs.
  bool (*has_kernel)(const Op& op) = nullptr;

  static Device with_id(uint16_t id) noexcept { return Device(id); }
};

const DeviceEntry& device_entry(Device device) noexcept;
// The memory of a device; null for the home.
DeviceMemory* memory_of(Device device) noexcept;

// Adds a device of this type ("CPU", "TEST") under the next free index of the type. `made` gets the
// device and returns its memory. throws: kResourceExhausted beyond 256 devices.
struct NewDevice {
  Device::Kind kind = Device::Kind::kTest;
  std::string type = "TEST";
  std::unique_ptr<DeviceMemory> (*make_memory)(const std::string& name,
                                               int64_t limit_bytes) = nullptr;
  int64_t memory_limit_bytes = 0;
  bool (*prepare)(const PrepareCall& call) = nullptr;
  bool (*has_kernel)(const Op& op) = nullptr;
};
Device add_device(const NewDevice& device);
// The device of a short name, "gpu:1", from the text of a graph. It need not be in this process: it
// is known by name then, and calls on it are refused. throws: kInvalidArgument for no such name;
// kResourceExhausted beyond 256 names.
Device device_called(std::string_view text);
// The devices of this process that the name fits.
std::vector<Device> devices_of(const DeviceName& name);
// The only one of them. throws: as Device(name).
Device only_device_of(const DeviceName& name, std::string_view text);
// "cpu:0, cpu:1", for messages.
std::string device_list();

// The memory of a CPU device besides the home. Implemented in device/cpu/cpu_memory.cc.
std::unique_ptr<DeviceMemory> make_cpu_memory(const std::string& name, int64_t limit_bytes);

}  // namespace internal
}  // namespace etude
