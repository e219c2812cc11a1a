// SPDX-License-Identifier: Apache-2.0
// Memory of tensors: counted large buffers and thread-local small blocks, with exact counters and a
// limit. Implemented by device/cpu/allocator.cc. Not a general-purpose allocator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "etude/version.h"

namespace ETUDE_API etude {

// What memory was asked for, in bytes and counts, on this process so far.
struct MemoryStats {
  int64_t live_bytes = 0;      // held by tensors
  int64_t peak_bytes = 0;      // highest live_bytes since the last reset
  int64_t cached_bytes = 0;    // kept for reuse, not held by a tensor
  int64_t allocations = 0;     // buffers and tensor blocks handed out
  int64_t live_tensors = 0;    // tensor values alive
  int64_t deep_copies = 0;     // writes that went to new memory since others shared the tensor;
                               // explain_copy() names who
  int64_t copies_avoided = 0;  // writes that happened in place
  int64_t limit_bytes = 0;     // 0: none
};

// thread-safe. cost: sums the counters of all threads.
MemoryStats memory_stats();
// Starts peak_bytes anew at live_bytes.
void reset_peak_memory();
// Requests beyond the limit are kResourceExhausted; 0 takes the limit away. thread-safe.
void set_memory_limit(int64_t bytes);
// Gives cached blocks back to the system. thread-safe.
void trim_memory();

namespace internal {
// The highest live_bytes since it was made; kept in a list while it lives.
struct PeakWatch {
  PeakWatch();
  PeakWatch(const PeakWatch&) = delete;
  PeakWatch& operator=(const PeakWatch&) = delete;
  ~PeakWatch();

  int64_t peak_bytes = 0;
  PeakWatch* next = nullptr;
};
}  // namespace internal

// Counts what happens between its construction and a look at it. thread-safe reads; counts all
// threads.
//
//   MemoryScope scope;
//   x += y;
//   assert(scope.stats().allocations == 0);
class MemoryScope {
 public:
  MemoryScope();
  // Differences since the start; live and peak are given relative to live_bytes at the start.
  // cached_bytes and limit_bytes are those of now.
  MemoryStats stats() const;

 private:
  internal::PeakWatch watch_;
  MemoryStats start_;
};

namespace internal {

// Payloads up to this size follow the tensor header in one block.
inline constexpr int64_t kInlineBytes = 4096;

// A large payload, 64-byte aligned. Counted by hand: the count lives beside the data's address.
struct Buffer {
  std::atomic<uint32_t> count{1};
  std::size_t bytes = 0;
  void* data = nullptr;
  // Memory of somebody else: called when the last tensor over it is gone. Its count starts at two,
  // one of which is never given up, so that no tensor takes it for its own and writes there.
  void (*give_back)(Buffer* buffer) noexcept = nullptr;
  std::atomic<uint64_t> id{0};  // 0 until somebody asks who shares it (core/copies.h)
};

// A buffer with count 1. throws: kResourceExhausted over the limit or when the system has none.
Buffer* allocate_buffer(int64_t bytes);
void free_buffer(Buffer* buffer) noexcept;
// 64-byte aligned blocks for headers with small payloads. throws as above.
void* allocate_block(std::size_t bytes);
void free_block(void* block, std::size_t bytes) noexcept;

// Counters of this thread; read together by memory_stats().
void count_tensor(int64_t difference) noexcept;
void count_deep_copy() noexcept;
void count_copy_avoided() noexcept;
// Buffers and blocks handed out to this thread so far.
int64_t thread_allocations() noexcept;

}  // namespace internal
}  // namespace etude
