// SPDX-License-Identifier: Apache-2.0
// Memory of tensors: reference-counted large buffers and thread-local small blocks, with exact
// counters and a limit. Implemented by device/cpu/allocator.cc. Functions without a device
// parameter refer to cpu:0. Functions for other devices are in core/device.h. Not a general-purpose
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
  int64_t live_bytes = 0;      // held by tensors
  int64_t peak_bytes = 0;      // highest live_bytes since the last reset
  int64_t cached_bytes = 0;    // kept for reuse, not held by a tensor
  int64_t allocations = 0;     // buffers and tensor blocks allocated
  int64_t live_tensors = 0;    // tensor values alive
  int64_t deep_copies = 0;     // writes that copied a shared tensor: see explain_copy()
  int64_t copies_avoided = 0;  // writes that happened in place
  int64_t limit_bytes = 0;     // 0: no limit
};

// threads: thread-safe. cost: sums the counters of all threads.
MemoryStats memory_stats();
// Resets peak_bytes to live_bytes.
void reset_peak_memory();
// Sets a limit. Allocations beyond the limit fail with kResourceExhausted. 0 removes the limit.
// throws: kInvalidArgument for a negative number.
// threads: thread-safe.
void set_memory_limit(int64_t bytes);
// Returns cached memory to the system. Small blocks that other threads have cached stay with these
// threads. threads: thread-safe.
void trim_memory();

namespace internal {
// Records the highest live_bytes since its construction. While alive, it is in a list of watches.
struct PeakWatch {
  PeakWatch();
  PeakWatch(const PeakWatch&) = delete;
  PeakWatch& operator=(const PeakWatch&) = delete;
  ~PeakWatch();

  int64_t peak_bytes = 0;
  PeakWatch* next = nullptr;
};
}  // namespace internal

// Measures the memory use of all threads since its construction. threads: stats() is thread-safe.
//
//   MemoryScope scope;
//   x += y;
//   assert(scope.stats().allocations == 0);
class MemoryScope {
 public:
  MemoryScope();
  // Returns the differences since construction. live_bytes and peak_bytes are relative to
  // live_bytes at construction. cached_bytes and limit_bytes are current values.
  MemoryStats stats() const;

 private:
  internal::PeakWatch watch_;
  MemoryStats start_;
};

namespace internal {

class DeviceMemory;

// On cpu:0, a payload of up to this size is in one block with the tensor header.
inline constexpr int64_t kInlineBytes = 4096;

// A large payload, 64-byte aligned. The reference count is next to the address of the data.
struct Buffer {
  std::atomic<uint32_t> count{1};
  std::size_t bytes = 0;
  void* data = nullptr;
  // For foreign memory: called after the last tensor that uses the memory is destroyed. While a
  // tensor uses foreign memory, the count is at least 2. So no tensor considers the memory unshared
  // and writes to it.
  void (*give_back)(Buffer* buffer) noexcept = nullptr;
  std::atomic<uint64_t> id{0};     // 0 until core/copies.h needs an id
  DeviceMemory* memory = nullptr;  // the memory that holds `data`; null: host memory
};

// Returns a buffer with count 1. throws: kResourceExhausted beyond the limit or if the system has
// no memory.
Buffer* allocate_buffer(int64_t bytes);
void free_buffer(Buffer* buffer) noexcept;  // on any device
// Returns a 64-byte aligned block for a tensor header and a small payload. throws: as above.
void* allocate_block(std::size_t bytes);
void free_block(void* block, std::size_t bytes) noexcept;

// These functions update the counters of this thread. memory_stats() sums the counters of all
// threads.
void count_tensor(int64_t difference) noexcept;
void count_deep_copy() noexcept;
void count_copy_avoided() noexcept;
// The number of buffers and blocks that this thread has allocated so far.
int64_t thread_allocations() noexcept;

}  // namespace internal
}  // namespace etude
