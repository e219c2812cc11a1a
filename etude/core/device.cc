// SPDX-License-Identifier: Apache-2.0
#include "etude/core/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <ostream>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/device_table.h"

namespace etude {
namespace internal {
namespace {

constexpr std::size_t kMostDevices = 256;
constexpr int kMostCpus = 64;  // from the environment

// The number of CPU devices at the start. A wrong value is reported and ignored: the table is made
// by the first type, which may be in a static object.
int cpu_count() {
  const char* const text = std::getenv("ETUDE_CPU_DEVICES");
  if (text == nullptr || *text == '\0') return 1;
  int count = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, fault] = std::from_chars(text, end, count);
  if (fault == std::errc() && stop == end && count >= 1 && count <= kMostCpus) return count;
  warn(
      fmt::format("ETUDE_CPU_DEVICES is '{}', but must be a number from 1 to {}; there is one CPU "
                  "device",
                  text, kMostCpus));
  return 1;
}

// Entries are appended under the mutex and read without it.
class DeviceTable {
 public:
  DeviceTable() {
    auto* home = new DeviceEntry;
    home->name = name_of("CPU", 0);
    home->text = "cpu:0";
    append(home);
    for (int i = 1; i < cpu_count(); ++i) {
      add({.kind = Device::Kind::kCpu, .type = "CPU", .make_memory = make_cpu_memory});
    }
  }

  const DeviceEntry& at(std::size_t id) const noexcept {
    return *entries_[id].load(std::memory_order_acquire);
  }
  std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }

  Device add(const NewDevice& device) {
    const std::lock_guard lock(mutex_);
    int index = 0;
    while (find(name_of(device.type, index), true)) ++index;
    auto made = std::make_unique<DeviceEntry>();
    made->kind = device.kind;
    made->name = name_of(device.type, index);
    made->text = text_of(made->name);
    made->prepare = device.prepare;
    made->has_kernel = device.has_kernel;
    require_room();
    made->memory = device.make_memory(made->text, device.memory_limit_bytes).release();
    // A device that was known by name only is there from now on.
    const std::optional<std::size_t> known = find(made->name, false);
    if (!known) return append(made.release());
    entries_[*known].store(made.release(), std::memory_order_release);
    return DeviceEntry::with_id(static_cast<uint16_t>(*known));
  }

  // The device of this type and index, known by name only if it is not there.
  Device called(const DeviceName& name) {
    const std::lock_guard lock(mutex_);
    if (const auto id = find(name, false)) return DeviceEntry::with_id(static_cast<uint16_t>(*id));
    require_room();
    auto made = std::make_unique<DeviceEntry>();
    made->kind = kind_of(*name.type);
    made->name = name;
    made->text = text_of(name);
    made->is_there = false;
    return append(made.release());
  }

  static DeviceName name_of(std::string type, int index) {
    return {.job = "localhost", .replica = 0, .task = 0, .type = std::move(type), .index = index};
  }

 private:
  // The place of a device with this whole name; with `there` only if it is in the process.
  std::optional<std::size_t> find(const DeviceName& name, bool there) const {
    for (std::size_t id = 0; id < size(); ++id) {
      if (at(id).name == name && (at(id).is_there || !there)) return id;
    }
    return std::nullopt;
  }
  static std::string text_of(const DeviceName& name) {
    std::string text = *name.type;
    for (char& c : text) c = static_cast<char>(c - 'A' + 'a');
    return fmt::format("{}:{}", text, *name.index);
  }
  static Device::Kind kind_of(std::string_view type) {
    return type == "CPU"   ? Device::Kind::kCpu
           : type == "GPU" ? Device::Kind::kGpu
           : type == "XLA" ? Device::Kind::kXla
                           : Device::Kind::kTest;
  }
  void require_room() const {
    ETUDE_REQUIRE_CODE(kResourceExhausted, size() < kMostDevices,
                       "a process knows at most {} devices. Use those that there are: {}",
                       kMostDevices, device_list());
  }
  Device append(const DeviceEntry* entry) {
    const std::size_t id = size();
    entries_[id].store(entry, std::memory_order_release);
    size_.store(id + 1, std::memory_order_release);
    return DeviceEntry::with_id(static_cast<uint16_t>(id));
  }

  std::mutex mutex_;
  std::atomic<std::size_t> size_{0};
  std::array<std::atomic<const DeviceEntry*>, kMostDevices> entries_{};
};

// Never destroyed: tensors in static objects name devices.
DeviceTable& table() {
  static DeviceTable& instance = *new DeviceTable;
  return instance;
}

std::string list_of(const std::vector<Device>& devices) {
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const Device device : devices) names.push_back(device.to_string());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

const DeviceEntry& device_entry(Device device) noexcept { return table().at(device.id()); }

DeviceMemory* memory_of(Device device) noexcept {
  return device.is_home() ? nullptr : device_entry(device).memory;
}

Device add_device(const NewDevice& device) { return table().add(device); }

Device device_called(std::string_view text) {
  DeviceName name = DeviceName::parse(text);
  ETUDE_REQUIRE(name.type && name.index, "'{}' is no device: its kind and index are needed", text);
  return table().called(
      DeviceTable::name_of("", 0).merged({.type = *name.type, .index = *name.index}));
}

std::vector<Device> devices_of(const DeviceName& name) {
  std::vector<Device> out;
  for (std::size_t id = 0; id < table().size(); ++id) {
    const DeviceEntry& entry = table().at(id);
    if (entry.is_there && name.fits(entry.name)) {
      out.push_back(DeviceEntry::with_id(static_cast<uint16_t>(id)));
    }
  }
  return out;
}

Device only_device_of(const DeviceName& name, std::string_view text) {
  const std::vector<Device> found = devices_of(name);
  ETUDE_REQUIRE_CODE(kNotFound, !found.empty(),
                     "there is no device '{}' in this process. Its devices are: {}", text,
                     device_list());
  ETUDE_REQUIRE(found.size() == 1, "'{}' is the name of {} devices: {}. Write one of them", text,
                found.size(), list_of(found));
  return found[0];
}

std::string device_list() { return list_of(devices_of({})); }

}  // namespace internal

Device::Device(std::string_view name, CallSite where) {
  internal::located("", where, [&] {
    ETUDE_REQUIRE(!name.empty(), "the name of a device is empty. Its devices are: {}",
                  internal::device_list());
    *this = internal::only_device_of(DeviceName::parse(name), name);
  });
}

Device::Kind Device::kind() const noexcept { return internal::device_entry(*this).kind; }
int Device::index() const noexcept { return *internal::device_entry(*this).name.index; }
std::string Device::to_string() const { return internal::device_entry(*this).text; }
std::string Device::full_name() const { return internal::device_entry(*this).name.to_string(); }

std::ostream& operator<<(std::ostream& out, const Device& device) {
  return out << device.to_string();
}

std::vector<Device> list_devices() { return internal::devices_of({}); }

Device add_cpu_device(const CpuDeviceOptions& options) {
  const int64_t bytes = options.memory_limit_bytes;
  ETUDE_REQUIRE(bytes >= 0, "a memory limit of {} bytes is below zero. Pass 0 for no limit", bytes);
  return internal::add_device({.kind = Device::Kind::kCpu,
                               .type = "CPU",
                               .make_memory = internal::make_cpu_memory,
                               .memory_limit_bytes = bytes});
}

MemoryStats memory_stats(const Device& device) {
  internal::DeviceMemory* const memory = internal::memory_of(device);
  return memory != nullptr ? memory->stats() : memory_stats();
}

void set_memory_limit(const Device& device, int64_t bytes) {
  internal::DeviceMemory* const memory = internal::memory_of(device);
  if (memory == nullptr) return set_memory_limit(bytes);
  ETUDE_REQUIRE(bytes >= 0, "a memory limit of {} bytes is below zero. Pass 0 for no limit", bytes);
  memory->set_limit(bytes);
}

void reset_peak_memory(const Device& device) {
  internal::DeviceMemory* const memory = internal::memory_of(device);
  return memory != nullptr ? memory->reset_peak() : reset_peak_memory();
}

}  // namespace etude
