// SPDX-License-Identifier: Apache-2.0
// Memory of tensors: reference-counted large buffers and thread-local small blocks, with exact
// counters and a limit. Implemented by device/cpu/allocator.cc. Functions without a device
// parameter refer to cpu:0; functions for other devices are in core/device.h. Not a general-purpose
// allocator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "etude/version.h"

namespace ETUDE_API etude {

// Memory use of this process so far, in bytes and counts.
struct MemoryStats {
  int64_t live_bytes = 0;    // held by tensors
  int64_t peak_bytes = 0;    // highest live_bytes since the last reset
  int64_t cached_bytes = 0;  // kept for reuse, not held by a tensor
  int64_t allocations = 0;   // buffers and tensor blocks allocated
  int64_t live_tensors = 0;  // tensor values alive
  int64_t deep_copies = 0;   // writes that copied a shared tensor; explain_copy() names its holder
  int64_t copies_avoided = 0;  // writes that happened in place
  int64_t limit_bytes = 0;     // 0: no limit
};

// threads: thread-safe. cost: sums the counters of all threads.
MemoryStats memory_stats();
// Resets peak_bytes to live_bytes.
void reset_peak_memory();
// Allocations beyond the limit fail with kResourceExhausted. 0 removes the limit.
// threads: thread-safe.
void set_memory_limit(int64_t bytes);
// Returns cached blocks to the system. threads: thread-safe.
void trim_memory();

namespace internal {
// The highest live_bytes since construction. Registered in a list while alive.
struct PeakWatch {
  PeakWatch();
  PeakWatch(const PeakWatch&) = delete;
  PeakWatch& operator=(const PeakWatch&) = delete;
  ~PeakWatch();

  int64_t peak_bytes = 0;
  PeakWatch* next = nullptr;
};
}  // namespace internal

// Counts the allocations since its construction. threads: thread-safe reads; counts all threads.
//
//   MemoryScope scope;
//   x += y;
//   assert(scope.stats().allocations == 0);
class MemoryScope {
 public:
  MemoryScope();
  // Differences since construction. Live and peak bytes are relative to live_bytes at construction.
  // cached_bytes and limit_bytes are current values.
  MemoryStats stats() const;

 private:
  internal::PeakWatch watch_;
  MemoryStats start_;
};

namespace internal {

class DeviceMemory;

// Payloads up to this size follow the tensor header in one block.
inline constexpr int64_t kInlineBytes = 4096;

// A large payload, 64-byte aligned. The reference count is a plain field, next to the address of
// the data.
struct Buffer {
  std::atomic<uint32_t> count{1};
  std::size_t bytes = 0;
  void* data = nullptr;
  // For foreign memory: called after the last tensor over it is destroyed. The count is then at
  // least 2 while a tensor uses the memory, so that no tensor considers the memory unshared and
  // writes to it.
  void (*give_back)(Buffer* buffer) noexcept = nullptr;
  std::atomic<uint64_t> id{0};     // 0 until core/copies.h needs an id
  DeviceMemory* memory = nullptr;  // where `data` is; null: the host, whose code may read it
};

// A buffer with count 1. throws: kResourceExhausted beyond the limit or if the system has no
// memory.
Buffer* allocate_buffer(int64_t bytes);
void free_buffer(Buffer* buffer) noexcept;  // of any memory
// 64-byte aligned blocks for headers with small payloads. throws: as above.
void* allocate_block(std::size_t bytes);
void free_block(void* block, std::size_t bytes) noexcept;

// Counters of this thread. memory_stats() adds them up over all threads.
void count_tensor(int64_t difference) noexcept;
void count_deep_copy() noexcept;
void count_copy_avoided() noexcept;
// The number of buffers and blocks that this thread has allocated so far.
int64_t thread_allocations() noexcept;

}  // namespace internal
}  // namespace etude
