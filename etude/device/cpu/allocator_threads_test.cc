// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/core/buffer.h"

namespace etude::internal {
namespace {

struct Held {
  Buffer* buffer = nullptr;  // or a block:
  void* block = nullptr;
  std::size_t bytes = 0;
  unsigned char mark = 0;

  unsigned char* data() const {
    return static_cast<unsigned char*>(buffer != nullptr ? buffer->data : block);
  }
  void release() const {
    // The first and last byte were written by the thread that made it, and by no other since.
    EXPECT_EQ(data()[0], mark);
    EXPECT_EQ(data()[bytes - 1], mark);
    buffer != nullptr ? free_buffer(buffer) : free_block(block, bytes);
  }
};

Held make(std::mt19937& random) {
  Held held;
  const std::size_t kinds[] = {64, 200, 4160, 20000, 65536, 100000, 1 << 20};
  held.bytes = kinds[random() % 7] + random() % 64;
  held.mark = static_cast<unsigned char>(random());
  if (held.bytes <= 4300) {
    held.block = allocate_block(held.bytes);
  } else {
    held.buffer = allocate_buffer(static_cast<int64_t>(held.bytes));
  }
  held.data()[0] = held.data()[held.bytes - 1] = held.mark;
  return held;
}

TEST(ThreadsAllocator, StressAcrossThreads) {
  const MemoryStats before = memory_stats();
  constexpr int kThreads = 8, kRounds = 20000;
  std::mutex mutex;
  std::deque<Held> shared;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(t));
        std::vector<Held> own;
        for (int i = 0; i < kRounds; ++i) {
          own.push_back(make(random));
          count_tensor(+1);
          if (own.size() > 8) {
            const std::size_t k = random() % own.size();
            std::swap(own[k], own.back());
            const std::lock_guard lock(mutex);
            shared.push_back(own.back());
            own.pop_back();
          }
          Held other;
          {
            const std::lock_guard lock(mutex);
            if (shared.size() < 16) continue;
            other = shared.front();
            shared.pop_front();
          }
          other.release();
          count_tensor(-1);
          if (i % 5000 == 0) trim_memory();
          if (i % 1000 == 0) memory_stats();
        }
        for (const Held& held : own) held.release();
        count_tensor(-static_cast<int64_t>(own.size()));
      });
    }
  }
  for (const Held& held : shared) held.release();
  count_tensor(-static_cast<int64_t>(shared.size()));
  const MemoryStats after = memory_stats();
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_EQ(after.live_tensors, before.live_tensors);
  EXPECT_EQ(after.allocations, before.allocations + kThreads * kRounds);
}

TEST(ThreadsAllocator, FreesOfAnotherThreadsBlocksStayBounded) {
  trim_memory();
  const int64_t before = memory_stats().cached_bytes;
  for (int round = 0; round < 20; ++round) {
    std::vector<void*> blocks(5000);
    std::jthread([&] {
      for (void*& block : blocks) block = allocate_block(512);
    }).join();
    for (void* block : blocks) free_block(block, 512);
  }
  // One round's worth, not twenty.
  EXPECT_LT(memory_stats().cached_bytes - before, 2 * 5000 * 512);
}

TEST(ThreadsAllocator, EndedThreadsGiveTheirListsBack) {
  trim_memory();
  const MemoryStats before = memory_stats();
  for (int i = 0; i < 50; ++i) {
    std::jthread([] {
      std::vector<void*> blocks(300);
      for (void*& block : blocks) block = allocate_block(4000);
      for (void* block : blocks) free_block(block, 4000);
    }).join();
  }
  EXPECT_LT(memory_stats().cached_bytes - before.cached_bytes, 4 << 20);
  EXPECT_EQ(memory_stats().allocations, before.allocations + 50 * 300);
}

struct LateFree {
  void* block = nullptr;
  ~LateFree() {
    if (block == nullptr) return;
    free_block(block, 64);
    free_block(allocate_block(64), 64);
    count_tensor(-1);
  }
};

TEST(ThreadsAllocator, ThreadLocalValuesOutliveTheLists) {
  const MemoryStats before = memory_stats();
  std::jthread([] {
    thread_local LateFree late;
    late.block = nullptr;  // made before the lists, so destroyed after them
    late.block = allocate_block(64);
    count_tensor(+1);
  }).join();
  EXPECT_EQ(memory_stats().live_bytes, before.live_bytes);
  EXPECT_EQ(memory_stats().live_tensors, before.live_tensors);
}

TEST(ThreadsAllocator, TheLimitHoldsForAllThreadsTogether) {
  constexpr int64_t kMiB = 1 << 20;
  const int64_t live = memory_stats().live_bytes;
  set_memory_limit(live + 10 * kMiB);
  std::atomic<int> refused{0};
  std::mutex mutex;
  std::vector<Buffer*> got;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 4; ++i) {
          try {
            Buffer* buffer = allocate_buffer(kMiB);
            const std::lock_guard lock(mutex);
            got.push_back(buffer);
          } catch (const Error&) {
            ++refused;
          }
        }
      });
    }
  }
  EXPECT_EQ(got.size(), 10u);
  EXPECT_EQ(refused, 22);
  set_memory_limit(0);
  for (Buffer* buffer : got) free_buffer(buffer);
}

}  // namespace
}  // namespace etude::internal
