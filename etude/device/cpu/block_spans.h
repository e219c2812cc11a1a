// SPDX-License-Identifier: Apache-2.0
// Size classes of small blocks, and their process-wide stock. Thread-local lists exchange blocks
// with the stock in batches. Used by the allocator only. Blocks of up to 4.2 KiB share 64 KiB
// spans; larger blocks are chunks of a large pool.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace etude::internal {

inline constexpr std::size_t kMaxSpanBlock = 64 + 4096 + 64;
inline constexpr std::size_t kMaxBlock = 64 + 65536;
inline constexpr int kSpanClasses = static_cast<int>(kMaxSpanBlock / 64) + 1;
inline constexpr int kBlockClasses = kSpanClasses + 32;

// The size class of a block. Classes are multiples of 64 bytes up to 4.2 KiB, then eight classes
// for each power of two. Each class is 64 bytes longer, so that a power of two fits after a header.
inline int block_class(std::size_t bytes) noexcept {
  if (bytes <= kMaxSpanBlock) return static_cast<int>((bytes + 63) / 64);
  const std::size_t last = bytes - 65;
  const int power = std::bit_width(last) - 1;
  return kSpanClasses + (power - 12) * 8 + static_cast<int>((last >> (power - 3)) & 7);
}

// The block size of a class.
inline std::size_t block_bytes(int size_class) noexcept {
  if (size_class < kSpanClasses)
    return size_class == 0 ? 64 : static_cast<std::size_t>(size_class) * 64;
  const int step = size_class - kSpanClasses;
  return 64 + (static_cast<std::size_t>(9 + step % 8) << (step / 8 + 9));
}

// A free block holds the address of the next free block.
struct FreeBlock {
  FreeBlock* next;
};

// threads: thread-safe. Never destroyed.
class BlockSpans {
 public:
  static BlockSpans& instance();

  // Prepends up to `most` blocks to `chain`. Returns their number: 0 if the system has no memory.
  int take(int size_class, int most, FreeBlock*& chain) noexcept;
  // Takes back all blocks of a chain.
  void give(int size_class, FreeBlock* chain) noexcept;
  // Returns unused spans to their pool.
  void trim() noexcept;
  // For fork(): takes all locks, or none.
  bool try_lock() noexcept;
  void unlock() noexcept;
  // The bytes of free blocks in spans.
  int64_t cached_bytes() const noexcept { return cached_.load(std::memory_order_relaxed); }

 private:
  struct Span;
  struct alignas(64) Stock {
    std::mutex mutex;
    Span* spans = nullptr;  // spans with a free block
    int unused = 0;         // spans in the list that are entirely free
  };

  static Span* new_span(Stock& stock, int size_class) noexcept;
  static void link(Stock& stock, Span* span) noexcept;
  static void unlink(Stock& stock, Span* span) noexcept;

  std::array<Stock, kSpanClasses> stocks_;
  std::atomic<int64_t> cached_{0};
};

}  // namespace etude::internal
