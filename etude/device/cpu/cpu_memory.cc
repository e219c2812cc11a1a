// SPDX-License-Identifier: Apache-2.0
// The memory of CPU devices besides cpu:0: the shared pool of large buffers, with a ledger of its
// own. Kernels run on the calling thread, so that nothing here waits.
#include <atomic>
#include <cstring>
#include <new>

#include "etude/core/internal/device_table.h"
#include "etude/device/cpu/large_pool.h"
#include "etude/device/cpu/memory_ledger.h"

namespace etude::internal {
namespace {

// The header of a buffer, and its entry in the list of holders. The data follow.
struct alignas(64) CpuBuffer : DeviceBuffer {
  LargeBuffer listed;
};

class CpuMemory final : public DeviceMemory {
 public:
  CpuMemory(const std::string& name, int64_t limit_bytes) : ledger_(name) {
    ledger_.set_limit(limit_bytes);
  }

  DeviceBuffer* allocate(int64_t bytes) override {
    if (!ledger_.reserve(bytes)) ledger_.throw_exhausted(bytes);
    const std::size_t block = sizeof(CpuBuffer) + static_cast<std::size_t>(bytes);
    void* memory = LargePool::for_buffers().allocate(block);
    if (memory == nullptr) {
      trim_memory();
      memory = LargePool::for_buffers().allocate(block);
    }
    if (memory == nullptr) {
      ledger_.give_back(bytes);
      ledger_.throw_exhausted(bytes);
    }
    auto* buffer = new (memory) CpuBuffer;
    buffer->bytes = static_cast<std::size_t>(bytes);
    buffer->listed.bytes = buffer->bytes;
    buffer->data = buffer + 1;
    buffer->memory = this;
    ledger_.add_holder(&buffer->listed);
    allocations_.fetch_add(1, std::memory_order_relaxed);
    live_buffers_.fetch_add(1, std::memory_order_relaxed);
    return buffer;
  }

  void free(DeviceBuffer* buffer) noexcept override {
    auto* own = static_cast<CpuBuffer*>(buffer);
    ledger_.remove_holder(&own->listed);
    ledger_.give_back(static_cast<int64_t>(own->bytes));
    live_buffers_.fetch_sub(1, std::memory_order_relaxed);
    own->~CpuBuffer();
    LargePool::for_buffers().free(own);
  }

  void put(void* to, const void* from, std::size_t bytes) override { move(to, from, bytes); }
  void get(void* to, const void* from, std::size_t bytes) override { move(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { move(to, from, bytes); }

  MemoryStats stats() override {
    MemoryStats stats;
    stats.live_bytes = ledger_.live_bytes();
    stats.peak_bytes = ledger_.peak_bytes();
    stats.limit_bytes = ledger_.limit_bytes();
    stats.allocations = allocations_.load(std::memory_order_relaxed);
    stats.live_tensors = live_buffers_.load(std::memory_order_relaxed);
    return stats;
  }
  void set_limit(int64_t bytes) override { ledger_.set_limit(bytes); }
  void reset_peak() override { ledger_.reset_peak(); }

 private:
  static void move(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  MemoryLedger ledger_;
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> live_buffers_{0};
};

}  // namespace

std::unique_ptr<DeviceMemory> make_cpu_memory(const std::string& name, int64_t limit_bytes) {
  return std::make_unique<CpuMemory>(name, limit_bytes);
}

}  // namespace etude::internal
