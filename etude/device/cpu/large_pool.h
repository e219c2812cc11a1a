// SPDX-License-Identifier: Apache-2.0
// Chunks cut from 2 MiB-aligned, huge-page-advised arenas: best fit with split and merge. Freed
// chunks are kept for reuse up to a mark. Used by the allocator for large buffers and for the spans
// of small blocks. Counts nothing that tensors hold: memory_ledger.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "etude/base/sanitizers.h"

namespace etude::internal {

// The address sanitizer sees use after free and overruns only in its own heap.
inline constexpr bool kBypassPools = kHasAddressSanitizer;

// thread-safe. The two pools of the process are never destroyed: values may be freed until the
// process ends.
class LargePool {
 public:
  // Two pools, so that small values that live long keep no large arena from being given back.
  static LargePool& for_buffers();
  static LargePool& for_blocks();
  // Keeps up to `mark` bytes.
  explicit LargePool(std::size_t mark);
  LargePool(const LargePool&) = delete;
  LargePool& operator=(const LargePool&) = delete;

  // Memory aligned to `alignment`, a power of two of at least 64; null when the system has none.
  // cost: 50-100 ns without a fresh arena.
  void* allocate(std::size_t bytes, std::size_t alignment = 64) noexcept;
  void free(void* memory) noexcept;
  // Gives memory back to the system until at most `keep` cached bytes are left.
  void trim(std::size_t keep) noexcept;
  // Freed memory that is kept.
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
};

}  // namespace etude::internal
