// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/large_pool.h"

#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace etude::internal::large_pool_test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

char* fill(void* memory, std::size_t bytes) {
  std::memset(memory, 1, bytes);
  return static_cast<char*>(memory);
}

TEST(LargePool, KeepsUpToItsMark) {
  if (kBypassPools) GTEST_SKIP();
  LargePool pool(64 * kMiB);
  std::vector<char*> parts;
  for (int i = 0; i < 5; ++i) parts.push_back(fill(pool.allocate(20 * kMiB), 20 * kMiB));
  EXPECT_EQ(pool.cached_bytes(), 0u);
  for (char* part : parts) {
    pool.free(part);
    EXPECT_LE(pool.cached_bytes(), 64 * kMiB);
    EXPECT_GE(pool.cached_bytes(), 19 * kMiB);
  }
  pool.trim(0);
  EXPECT_EQ(pool.cached_bytes(), 0u);
}

TEST(LargePool, TakesTheBestFit) {
  if (kBypassPools) GTEST_SKIP();
  LargePool pool(256 * kMiB);
  std::vector<std::pair<void*, void*>> parts;  // each followed by a small chunk that stays
  for (const std::size_t size : {5, 3, 4, 6}) {
    void* part = pool.allocate(size * kMiB);
    parts.emplace_back(part, pool.allocate(4096));
  }
  for (const auto& [part, wall] : parts) pool.free(part);
  EXPECT_EQ(pool.allocate(4 * kMiB - 8192), parts[2].first);
  EXPECT_EQ(pool.allocate(5 * kMiB), parts[0].first);
  for (const std::size_t i : {2, 0}) pool.free(parts[i].first);
  for (const auto& [part, wall] : parts) pool.free(wall);
  pool.trim(0);
}

TEST(LargePool, RandomRequestsNeverOverlap) {
  LargePool pool(48 * kMiB);
  std::mt19937 random(7);
  struct Part {
    std::size_t bytes;
    unsigned char mark;
  };
  std::map<unsigned char*, Part> parts;
  const auto release = [&](std::map<unsigned char*, Part>::iterator it) {
    const auto& [memory, part] = *it;
    ASSERT_EQ(memory[0], part.mark);
    ASSERT_EQ(memory[part.bytes / 2], part.mark);
    ASSERT_EQ(memory[part.bytes - 1], part.mark);
    pool.free(memory);
    parts.erase(it);
  };
  for (int i = 0; i < 20000; ++i) {
    if (parts.size() > 60 || (!parts.empty() && random() % 2 == 0)) {
      release(std::next(parts.begin(), random() % parts.size()));
      continue;
    }
    const std::size_t bytes = 1 + random() % (std::size_t{1} << (6 + random() % 16));
    const std::size_t alignment = std::size_t{64} << (random() % 4 == 0 ? random() % 11 : 0);
    auto* memory = static_cast<unsigned char*>(pool.allocate(bytes, alignment));
    ASSERT_NE(memory, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u);
    const auto after = parts.lower_bound(memory);
    ASSERT_TRUE(after == parts.end() || memory + bytes <= after->first);
    if (after != parts.begin()) {
      const auto& [below, part] = *std::prev(after);
      ASSERT_LE(below + part.bytes, memory);
    }
    const auto mark = static_cast<unsigned char>(random());
    memory[0] = memory[bytes / 2] = memory[bytes - 1] = mark;
    parts[memory] = {bytes, mark};
    if (i % 4000 == 0) pool.trim(random() % (8 * kMiB));
  }
  while (!parts.empty()) release(parts.begin());
  pool.trim(0);
  EXPECT_EQ(pool.cached_bytes(), 0u);
}

TEST(LargePool, RefusesWhatNoMachineHas) {
  LargePool pool(kMiB);
  EXPECT_EQ(pool.allocate(std::size_t{1} << 50), nullptr);
}

}  // namespace
}  // namespace etude::internal::large_pool_test
