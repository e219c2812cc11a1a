// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/device/cpu/block_spans.h"
#include "etude/device/cpu/large_pool.h"

namespace etude::internal {
namespace {

constexpr int64_t kMiB = 1 << 20;

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 64 == 0; }

TEST(BlockClasses, HoldTheirSizesAndRise) {
  for (std::size_t bytes = 1; bytes <= kMaxBlock; ++bytes) {
    const int c = block_class(bytes);
    ASSERT_LT(c, kBlockClasses);
    ASSERT_GE(block_bytes(c), bytes);
    ASSERT_EQ(block_bytes(c) % 64, 0u);
    ASSERT_TRUE(c <= 1 || block_bytes(c - 1) < bytes);
  }
  EXPECT_EQ(block_bytes(block_class(64 + 8192)), 64u + 8192u);
  EXPECT_EQ(block_bytes(block_class(kMaxBlock)), kMaxBlock);
}

TEST(Blocks, AreAlignedAndDistinct) {
  std::vector<std::pair<char*, std::size_t>> blocks;
  for (std::size_t bytes = 1; bytes < 140000; bytes += 1 + bytes / 9) {
    auto* block = static_cast<char*>(allocate_block(bytes));
    ASSERT_TRUE(is_aligned(block));
    std::memset(block, static_cast<int>(blocks.size()), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t k = 0; k < blocks[i].second; ++k) {
      ASSERT_EQ(blocks[i].first[k], static_cast<char>(i));
    }
    free_block(blocks[i].first, blocks[i].second);
  }
}

TEST(Blocks, AFreedOneComesBackFirst) {
  if (kBypassPools) GTEST_SKIP() << "the sanitizer keeps freed memory away";
  void* first = allocate_block(200);
  free_block(first, 200);
  void* second = allocate_block(193);
  EXPECT_EQ(first, second);
  free_block(second, 193);
}

TEST(Blocks, OfAFreedSpanServeOtherSizes) {
  if (kBypassPools) GTEST_SKIP() << "the sanitizer keeps freed memory away";
  trim_memory();
  const int64_t before = memory_stats().cached_bytes;
  std::vector<void*> blocks(40000);
  for (void*& block : blocks) block = allocate_block(1000);
  for (void* block : blocks) free_block(block, 1000);
  EXPECT_GE(memory_stats().cached_bytes - before, 40 * kMiB - 2 * kMiB);
  trim_memory();
  EXPECT_LE(memory_stats().cached_bytes, before + 128 * 1024);
}

TEST(Buffers, AreAlignedAndReused) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{5000}, int64_t{65536}, int64_t{65537},
                              kMiB, 3 * kMiB + 1, 70 * kMiB}) {
    Buffer* buffer = allocate_buffer(bytes);
    EXPECT_TRUE(is_aligned(buffer->data));
    EXPECT_EQ(buffer->bytes, static_cast<std::size_t>(bytes));
    EXPECT_EQ(buffer->count.load(), 1u);
    std::memset(buffer->data, 1, static_cast<std::size_t>(bytes));
    void* data = buffer->data;
    free_buffer(buffer);
    buffer = allocate_buffer(bytes);
    EXPECT_TRUE(kBypassPools || buffer->data == data) << bytes;
    free_buffer(buffer);
  }
}

TEST(Buffers, SplitAndMerge) {
  if (kBypassPools) GTEST_SKIP() << "the sanitizer keeps freed memory away";
  trim_memory();
  std::vector<Buffer*> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(allocate_buffer(2 * kMiB));
  // Freed in an order that merges with the neighbour below, above, and both.
  for (int i : {1, 0, 3, 5, 4, 2, 7, 6}) free_buffer(parts[i]);
  MemoryScope scope;
  Buffer* whole = allocate_buffer(15 * kMiB);
  // It comes from the merged parts, so the cache shrinks by about as much.
  EXPECT_LE(scope.stats().cached_bytes, 2 * kMiB);
  free_buffer(whole);
}

TEST(MemoryStats, AreExact) {
  MemoryScope scope;
  Buffer* big = allocate_buffer(3 * kMiB + 5);
  Buffer* middle = allocate_buffer(10000);
  void* small = allocate_block(100);
  EXPECT_EQ(scope.stats().live_bytes, 3 * kMiB + 5 + 10000 + 100);
  EXPECT_EQ(scope.stats().allocations, 3);
  free_buffer(big);
  free_block(small, 100);
  EXPECT_EQ(scope.stats().live_bytes, 10000);
  EXPECT_EQ(scope.stats().peak_bytes, 3 * kMiB + 5 + 10000 + 100);
  free_buffer(middle);
  EXPECT_EQ(scope.stats().live_bytes, 0);
  EXPECT_EQ(scope.stats().allocations, 3);
}

TEST(MemoryStats, PeaksOfManySmallBlocksAreExact) {
  MemoryScope scope;
  std::vector<void*> blocks(3000);
  for (int round = 0; round < 3; ++round) {
    for (void*& block : blocks) block = allocate_block(128);
    for (void* block : blocks) free_block(block, 128);
  }
  EXPECT_EQ(scope.stats().peak_bytes, 3000 * 128);
  EXPECT_EQ(scope.stats().live_bytes, 0);
  EXPECT_EQ(scope.stats().allocations, 9000);
}

TEST(MemoryStats, ScopesSeeTheirOwnPeaks) {
  MemoryScope outer;
  free_buffer(allocate_buffer(8 * kMiB));
  MemoryScope inner;
  EXPECT_EQ(inner.stats().peak_bytes, 0);
  free_buffer(allocate_buffer(2 * kMiB));
  EXPECT_EQ(inner.stats().peak_bytes, 2 * kMiB);
  EXPECT_EQ(outer.stats().peak_bytes, 8 * kMiB);
}

TEST(MemoryStats, PeakCanStartAnew) {
  free_buffer(allocate_buffer(64 * kMiB));
  reset_peak_memory();
  const MemoryStats stats = memory_stats();
  EXPECT_EQ(stats.peak_bytes, stats.live_bytes);
  free_buffer(allocate_buffer(kMiB));
  EXPECT_EQ(memory_stats().peak_bytes, stats.live_bytes + kMiB);
}

TEST(MemoryStats, CountTensorsAndCopies) {
  MemoryScope scope;
  count_tensor(+1);
  count_tensor(+1);
  count_tensor(-1);
  count_deep_copy();
  count_copy_avoided();
  count_copy_avoided();
  const MemoryStats stats = scope.stats();
  EXPECT_EQ(stats.live_tensors, 1);
  EXPECT_EQ(stats.deep_copies, 1);
  EXPECT_EQ(stats.copies_avoided, 2);
  count_tensor(-1);
}

TEST(UseAfterFree, IsSeenByTheSanitizer) {
  if (!kBypassPools) GTEST_SKIP() << "only the address sanitizer looks";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        auto* block = static_cast<volatile char*>(allocate_block(100));
        free_block(const_cast<char*>(block), 100);
        block[50] = 1;
      },
      "use-after-free");
  EXPECT_DEATH(
      {
        Buffer* buffer = allocate_buffer(1000001);
        static_cast<volatile char*>(buffer->data)[1000001] = 1;
      },
      "heap-buffer-overflow");
}

TEST(TrimMemory, GivesCachedMemoryBack) {
  if (kBypassPools) GTEST_SKIP() << "the sanitizer keeps freed memory away";
  Buffer* kept = allocate_buffer(kMiB);
  std::memset(kept->data, 7, kMiB);
  Buffer* buffer = allocate_buffer(40 * kMiB);
  std::memset(buffer->data, 1, 40 * kMiB);
  free_buffer(buffer);
  EXPECT_GE(memory_stats().cached_bytes, 40 * kMiB);
  trim_memory();
  EXPECT_LT(memory_stats().cached_bytes, kMiB);
  EXPECT_EQ(static_cast<char*>(kept->data)[kMiB - 1], 7);
  free_buffer(kept);
}

// Destroyed after the main thread's lists: by then frees and allocations have to work still.
struct AtExit {
  Buffer* buffer = nullptr;
  void* block = nullptr;
  ~AtExit() {
    if (buffer == nullptr) return;
    free_buffer(buffer);
    free_block(block, 64);
    free_block(allocate_block(640), 640);
    count_tensor(-1);
    if (memory_stats().live_tensors != 0) std::abort();
  }
};
AtExit at_exit;

TEST(Exit, StaticValuesOutliveTheLists) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // oneTBB's threads may be alive
  EXPECT_EXIT(
      {
        at_exit.buffer = allocate_buffer(2 * kMiB);
        at_exit.block = allocate_block(64);
        count_tensor(+1);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace etude::internal
