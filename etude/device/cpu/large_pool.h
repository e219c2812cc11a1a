// SPDX-License-Identifier: Apache-2.0
// Chunks cut from arenas that are aligned to 2 MiB and advised to use huge pages: best fit with
// split and merge. Up to a limit, freed chunks are kept for reuse. Used by the allocator for large
// buffers and for the spans of small blocks. Memory held by tensors is counted in memory_ledger.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "etude/base/sanitizers.h"

namespace etude::internal {

// With the address sanitizer, pools are bypassed: it detects use after free and overruns only in
// its own heap.
inline constexpr bool kBypassPools = kHasAddressSanitizer;

// threads: thread-safe. The two pools of the process are never destroyed: values may be freed until
// the process ends.
class LargePool {
 public:
  // Two pools, so that small long-lived values do not keep a large arena from being returned.
  static LargePool& for_buffers();
  static LargePool& for_blocks();
  // Caches up to `mark` bytes. The first `plain` bytes of each arena, a multiple of 2 MiB, have
  // pages of the usual size, so that a program with few tensors does not wait until a huge page is
  // zeroed.
  explicit LargePool(std::size_t mark, std::size_t plain = 0);
  LargePool(const LargePool&) = delete;
  LargePool& operator=(const LargePool&) = delete;

  // Memory aligned to `alignment`, a power of two of at least 64; null if the system has none.
  // cost: 50-100 ns without a fresh arena.
  void* allocate(std::size_t bytes, std::size_t alignment = 64) noexcept;
  void free(void* memory) noexcept;
  // Returns memory to the system until at most `keep` cached bytes are left.
  void trim(std::size_t keep) noexcept;
  // For fork().
  bool try_lock() noexcept { return mutex_.try_lock(); }
  void unlock() noexcept { mutex_.unlock(); }
  // Freed memory kept for reuse.
  std::size_t cached_bytes() const noexcept { return dirty_.load(std::memory_order_relaxed); }

 private:
  struct Chunk;
  static constexpr int kBins = 192;

  Chunk* find(std::size_t need) noexcept;
  Chunk* grow(std::size_t need) noexcept;
  Chunk* split(Chunk* chunk, std::size_t bytes) noexcept;
  void insert(Chunk* chunk) noexcept;
  void remove(Chunk* chunk) noexcept;
  void trim_locked(std::size_t keep) noexcept;
  void release_chunk(Chunk* chunk) noexcept;

  std::mutex mutex_;
  std::array<Chunk*, kBins> bins_ = {};
  std::array<uint64_t, kBins / 64> filled_ = {};
  std::atomic<std::size_t> dirty_{0};
  std::size_t mark_ = 0;
  std::size_t plain_ = 0;
};

}  // namespace etude::internal
