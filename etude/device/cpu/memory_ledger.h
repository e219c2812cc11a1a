// SPDX-License-Identifier: Apache-2.0
// The total bytes held by tensors, their peak, and the limit. Large buffers are counted one by one,
// small blocks as sums. Used by the allocator only. Owns no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "etude/core/buffer.h"

namespace etude::internal {

// A large buffer: this header, then the data. Linked into the list of holders while it lives.
struct alignas(64) LargeBuffer : Buffer {
  LargeBuffer* before = nullptr;
  LargeBuffer* after = nullptr;
};

// threads: thread-safe. Never destroyed.
class MemoryLedger {
 public:
  static MemoryLedger& instance();  // of cpu:0
  // `device` is named in errors.
  explicit MemoryLedger(std::string device) : device_(std::move(device)) {}

  int64_t live_bytes() const noexcept { return live_.load(std::memory_order_relaxed); }
  int64_t peak_bytes() noexcept;
  int64_t limit_bytes() const noexcept { return limit_.load(std::memory_order_relaxed); }
  void set_limit(int64_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }

  // Whether `bytes` more fit within the limit and the host's memory.
  bool has_room(int64_t bytes) const noexcept { return bytes <= most_bytes() - live_bytes(); }
  // Counts `bytes` as held if there is room; else returns false.
  bool reserve(int64_t bytes) noexcept;
  // Counts a difference of small blocks that were already allocated or freed. Since the last
  // report, live_bytes was higher by up to `high`.
  void report(int64_t difference, int64_t high) noexcept;
  void give_back(int64_t bytes) noexcept { live_.fetch_sub(bytes, std::memory_order_relaxed); }

  void reset_peak() noexcept;
  void add_watch(PeakWatch* watch) noexcept;
  void remove_watch(PeakWatch* watch) noexcept;
  int64_t peak_of(const PeakWatch& watch) noexcept;

  // For fork().
  bool try_lock() noexcept { return mutex_.try_lock(); }
  void unlock() noexcept { mutex_.unlock(); }

  void add_holder(LargeBuffer* buffer) noexcept;
  void remove_holder(LargeBuffer* buffer) noexcept;

  // throws: kResourceExhausted, naming the requested bytes, the bytes in use, and their holders.
  [[noreturn]] void throw_exhausted(int64_t bytes);

 private:
  int64_t most_bytes() const noexcept;
  void note(int64_t live) noexcept;
  std::string largest_holders();

  alignas(64) std::atomic<int64_t> live_{0};
  std::atomic<int64_t> limit_{0};
  std::atomic<int64_t> lowest_peak_{0};  // the lowest peak of the process and all watches

  const std::string device_;
  std::mutex mutex_;  // guards the members below
  int64_t peak_ = 0;
  PeakWatch* watches_ = nullptr;
  LargeBuffer* holders_ = nullptr;
};

}  // namespace etude::internal
