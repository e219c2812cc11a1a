// SPDX-License-Identifier: Apache-2.0
// The memory of a simulated device. Its addresses fault when the host follows them: the memory is
// mapped a second time, where the kernels of the device find it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "etude/core/internal/device_table.h"
#include "etude/device/cpu/memory_ledger.h"
#include "tests/devices/sim/sim_queue.h"

namespace etude::sim {

// threads: thread-safe. Never destroyed.
class Memory final : public internal::DeviceMemory {
 public:
  Memory(const std::string& device, int64_t limit_bytes);

  internal::DeviceBuffer* allocate(int64_t bytes) override;
  void free(internal::DeviceBuffer* buffer) noexcept override;
  void put(void* to, const void* from, std::size_t bytes) override;
  void get(void* to, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void wait_for(const void* data, std::size_t bytes) override { queue_.wait_for({data, bytes}); }
  bool is_queued() const noexcept override { return true; }
  MemoryStats stats() override;
  void set_limit(int64_t bytes) override { ledger_.set_limit(bytes); }
  void reset_peak() override { ledger_.reset_peak(); }

  Queue& queue() { return queue_; }
  // Whether this is an address of the device.
  bool holds(const void* address) const noexcept;
  // Where kernels of the device find the bytes at an address; other addresses are returned
  // unchanged.
  void* found_at(const void* address) const noexcept;

 private:
  struct Buffer;
  // Places in the mapping. take() returns a negative number if there is no room.
  int64_t take(int64_t bytes);
  void give(int64_t offset, int64_t bytes) noexcept;

  Queue queue_;
  internal::MemoryLedger ledger_;
  char* shown_ = nullptr;  // to the host: not accessible
  char* found_ = nullptr;  // to kernels
  std::mutex mutex_;
  std::map<int64_t, int64_t> free_;  // offset to size
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> live_buffers_{0};
};

}  // namespace etude::sim
