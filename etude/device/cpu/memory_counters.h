// SPDX-License-Identifier: Apache-2.0
// Counters of memory, one set per thread, added up when somebody looks. For the allocator only.
#pragma once

#include <atomic>
#include <cstdint>

namespace etude::internal {

struct MemoryCounters {
  std::atomic<int64_t> allocations{0};
  std::atomic<int64_t> live_tensors{0};
  std::atomic<int64_t> deep_copies{0};
  std::atomic<int64_t> copies_avoided{0};
  std::atomic<int64_t> block_bytes{0};  // of small blocks; negative on a thread that frees more
};

// This thread's counters; they outlive the thread.
MemoryCounters& memory_counters() noexcept;

// Only the owning thread writes, so no locked instruction is needed.
inline void bump(std::atomic<int64_t>& counter, int64_t by) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace etude::internal
