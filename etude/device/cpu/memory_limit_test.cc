// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "etude/base/error.h"
#include "etude/core/buffer.h"

namespace etude::internal::memory_limit_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

// The text of the error that `call` throws, after a check of its code.
template <class F>
std::string exhaustion(F call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MemoryLimit, NamesTheHoldersAndTheProgramGoesOn) {
  const int64_t live = memory_stats().live_bytes;
  Buffer* a = allocate_buffer(256 * kMiB);
  Buffer* b = allocate_buffer(256 * kMiB);
  Buffer* c = allocate_buffer(3 * kMiB);
  set_memory_limit(live + 520 * kMiB);
  const MemoryStats before = memory_stats();
  const std::string text = exhaustion([] { free_buffer(allocate_buffer(64 * kMiB)); });
  EXPECT_TRUE(contains(text,
                       "64.0 MiB were requested, but 515.0 MiB of the limit of 520.0 MiB are in "
                       "use; largest holders: 2 buffers of 256.0 MiB, 1 buffer of 3.0 MiB"))
      << text;
  EXPECT_EQ(memory_stats().live_bytes, before.live_bytes);
  EXPECT_EQ(memory_stats().allocations, before.allocations);
  EXPECT_EQ(memory_stats().limit_bytes, live + 520 * kMiB);
  const std::string alone = exhaustion([=] { free_buffer(allocate_buffer(live + 521 * kMiB)); });
  EXPECT_TRUE(contains(alone,
                       "521.0 MiB were requested, which is more than the limit of 520.0 MiB "
                       "for all tensors together. Use smaller sizes"))
      << alone;
  free_buffer(allocate_buffer(5 * kMiB));  // exactly up to the limit
  exhaustion([] { free_buffer(allocate_buffer(5 * kMiB + 1)); });
  free_buffer(a);
  free_buffer(allocate_buffer(64 * kMiB));
  set_memory_limit(0);
  Buffer* d = allocate_buffer(600 * kMiB);
  for (Buffer* buffer : {b, c, d}) free_buffer(buffer);
  EXPECT_EQ(memory_stats().live_bytes, live);
}

TEST(MemoryLimit, HoldsForSmallBlocks) {
  const int64_t live = memory_stats().live_bytes;
  set_memory_limit(live + kMiB);
  std::vector<void*> blocks;
  const std::string text = exhaustion([&] {
    for (int i = 0; i < 10000; ++i) blocks.push_back(allocate_block(1024));
  });
  EXPECT_TRUE(contains(text, "1.0 KiB were requested")) << text;
  const auto most = static_cast<double>(kMiB + 64 * 1024);
  EXPECT_NEAR(static_cast<double>(memory_stats().live_bytes - live), static_cast<double>(kMiB),
              most - static_cast<double>(kMiB));
  set_memory_limit(0);
  blocks.push_back(allocate_block(1024));
  for (void* block : blocks) free_block(block, 1024);
  EXPECT_EQ(memory_stats().live_bytes, live);
}

TEST(MemoryLimit, MustNotBeNegative) { EXPECT_THROW(set_memory_limit(-1), Error); }

TEST(AbsurdSizes, AreErrors) {
  const int64_t live = memory_stats().live_bytes;
  for (const int64_t bytes : {int64_t{1} << 46, int64_t{1} << 62, INT64_MAX}) {
    const std::string text = exhaustion([=] { allocate_buffer(bytes); });
    EXPECT_TRUE(contains(text, " were requested, but the system has ")) << text;
    EXPECT_TRUE(contains(text, " in all. Use smaller sizes")) << text;  // no value to free helps
    EXPECT_FALSE(contains(text, "ree values")) << text;
  }
  EXPECT_TRUE(
      contains(exhaustion([] { allocate_buffer(int64_t{1} << 46); }), "64.0 TiB were requested"));
  EXPECT_EQ(memory_stats().live_bytes, live);
  Buffer* buffer = allocate_buffer(kMiB);
  std::memset(buffer->data, 0, kMiB);
  free_buffer(buffer);
}

// Ends the process: with 0 if all is well.
[[noreturn]] void use_up_the_system() {
  const rlimit limit = {rlim_t{2} << 30, rlim_t{2} << 30};
  setrlimit(RLIMIT_AS, &limit);
  std::vector<Buffer*> buffers;
  std::string text = exhaustion([&] {
    for (int i = 0; i < 100; ++i) buffers.push_back(allocate_buffer(100 * kMiB));
  });
  if (!contains(text, "100.0 MiB were requested, but the system has no more")) std::exit(1);
  std::vector<void*> blocks;
  text = exhaustion([&] {
    for (;;) blocks.push_back(allocate_block(4000));
  });
  if (!contains(text, "3.9 KiB were requested") || buffers.size() < 10) std::exit(2);
  // Allocation continues with the returned memory: a larger request needs the pages of others.
  for (Buffer* buffer : buffers) free_buffer(buffer);
  free_buffer(allocate_buffer(900 * kMiB));
  std::exit(0);
}

TEST(OutOfMemory, OfTheSystemIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs the address space";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // oneTBB's threads may be alive
  EXPECT_EXIT(use_up_the_system(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace etude::internal::memory_limit_test
