// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/parallel.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "etude/base/error.h"
#include "etude/device/cpu/branches.h"
#include "etude/device/cpu/host.h"

namespace etude {
namespace {

constexpr double kLong = 1000;  // microseconds: enough to go parallel

class ThreadsParallel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_thread_count(GetParam()); }
  void TearDown() override { set_thread_count(0); }
};

TEST_P(ThreadsParallel, CoversEachChunkOnce) {
  EXPECT_EQ(worker_count(), GetParam());
  for (const int64_t chunks : {0, 1, 2, 3, 64, 1000}) {
    std::vector<std::atomic<int>> hits(static_cast<std::size_t>(chunks));
    parallel_for(chunks, kLong, [&](int64_t i) { ++hits[static_cast<std::size_t>(i)]; });
    for (const std::atomic<int>& hit : hits) ASSERT_EQ(hit, 1);
  }
}

TEST_P(ThreadsParallel, ALoopInAChunkStaysOnItsThread) {
  std::vector<std::atomic<int>> hits(32 * 16);
  parallel_for(32, kLong, [&](int64_t i) {
    const std::thread::id here = std::this_thread::get_id();
    int64_t expected = 0;
    parallel_for(16, kLong, [&](int64_t k) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_EQ(k, expected++);
      ++hits[static_cast<std::size_t>(i * 16 + k)];
    });
  });
  for (const std::atomic<int>& hit : hits) ASSERT_EQ(hit, 1);
}

TEST_P(ThreadsParallel, ExceptionsReachTheCaller) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> begun{0};
    try {
      parallel_for(100, kLong, [&](int64_t i) {
        ++begun;
        if (i == 37) throw Error(ErrorCode::kDataLoss, "chunk 37");
      });
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      EXPECT_STREQ(error.what(), "chunk 37");
    }
    EXPECT_LE(begun, 100);
  }
  std::atomic<int> sum{0};  // and loops work as before
  parallel_for(10, kLong, [&](int64_t i) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum, 45);
}

TEST_P(ThreadsParallel, ManyCallersAtOnce) {
  std::atomic<int64_t> sum{0};
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 12; ++t) {
      callers.emplace_back([&] {
        for (int round = 0; round < 50; ++round) {
          parallel_for(20, kLong, [&](int64_t i) { sum += i; });
        }
      });
    }
  }
  EXPECT_EQ(sum, 12 * 50 * 190);
}

TEST_P(ThreadsParallel, BranchesRunOnceAndTheirLoopsUseAllThreads) {
  for (const int64_t branches : {0, 1, 2, 5}) {
    std::vector<std::atomic<int>> hits(static_cast<std::size_t>(branches) * 16);
    internal::run_branches(branches, [&](int64_t b) {
      parallel_for(16, kLong, [&](int64_t i) { ++hits[static_cast<std::size_t>(b * 16 + i)]; });
    });
    for (const std::atomic<int>& hit : hits) ASSERT_EQ(hit, 1);
  }
}

// A worker that is pinned to the CPU of the caller would wait until the caller has done everything.
TEST(Parallel, WorkersLeaveTheCpuOfTheCaller) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "needs two CPUs";
#if defined(ETUDE_TSAN)
  GTEST_SKIP() << "under the thread sanitizer workers are not pinned";
#endif
  set_thread_count(CPU_COUNT(&before));
  parallel_for(100, kLong, [](int64_t) {});  // the pool is there before this thread is bound
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // as often as workers move
    std::atomic<int> started{0}, other{-1};
    const std::thread::id caller = std::this_thread::get_id();
    internal::run_branches(2, [&](int64_t) {
      ++started;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (started < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (std::this_thread::get_id() != caller) other = sched_getcpu();
    });
    EXPECT_NE(other, -1);
    EXPECT_NE(other, cpu);
  }
  sched_setaffinity(0, sizeof(before), &before);
  set_thread_count(0);
}

TEST_P(ThreadsParallel, BranchesInAChunkStayOnItsThread) {
  std::atomic<int> hits{0};
  parallel_for(8, kLong, [&](int64_t) {
    const std::thread::id here = std::this_thread::get_id();
    int64_t expected = 0;
    internal::run_branches(4, [&](int64_t b) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_EQ(b, expected++);
      ++hits;
    });
  });
  EXPECT_EQ(hits, 32);
}

TEST_P(ThreadsParallel, ExceptionsOfBranchesReachTheCaller) {
  for (int round = 0; round < 20; ++round) {
    try {
      internal::run_branches(4, [&](int64_t b) {
        parallel_for(8, kLong, [&](int64_t i) {
          if (b == 2 && i == 5) throw Error(ErrorCode::kDataLoss, "branch 2");
        });
      });
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "branch 2");
    }
  }
}

// A loop holds something of its thread, as kernels hold scratch memory. A branch that its thread
// ran while it waits for the last chunks would find it held.
TEST_P(ThreadsParallel, AThreadThatWaitsForItsLoopRunsNoBranch) {
  thread_local int held = 0;
  std::atomic<int> wrong{0};
  const auto fork = [&] {
    internal::run_branches(4, [&](int64_t) {
      for (int round = 0; round < 150; ++round) {
        if (held++ != 0) ++wrong;
        parallel_for(6, kLong, [&](int64_t i) {
          const auto end =
              std::chrono::steady_clock::now() + std::chrono::microseconds(5 * (i % 3));
          while (std::chrono::steady_clock::now() < end) {
          }
        });
        --held;
      }
    });
  };
  std::vector<std::jthread> callers;
  for (int t = 0; t < 4; ++t) callers.emplace_back(fork);
  callers.clear();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Counts, ThreadsParallel, testing::Values(1, 2, 7));

TEST(ThreadsParallelPool, AsManyThreadsWorkAsWereAsked) {
  for (const int wanted : {2, 7, 3}) {
    set_thread_count(wanted);
    std::atomic<int> arrived{0};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    // Each chunk waits for all: they end together only on as many threads.
    parallel_for(wanted, kLong, [&](int64_t) {
      ++arrived;
      while (arrived < wanted && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
    });
    EXPECT_LT(std::chrono::steady_clock::now(), deadline) << wanted;
  }
  set_thread_count(0);
}

#if !defined(ETUDE_TSAN)
TEST(ThreadsParallelPool, WorkersArePinnedAndCallersAreNot) {
  const std::size_t cpus = internal::allowed_cpus().size();
  if (cpus < 2 || std::getenv("ETUDE_PIN") != nullptr) GTEST_SKIP() << "nothing is pinned here";
  set_thread_count(2);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> arrived{0}, wrong{0};
  parallel_for(2, kLong, [&](int64_t) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    const bool is_caller = std::this_thread::get_id() == caller;
    if (static_cast<std::size_t>(CPU_COUNT(&set)) != (is_caller ? cpus : 1)) ++wrong;
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // one chunk for each thread
  });
  EXPECT_EQ(wrong, 0);
  set_thread_count(0);
}
#endif

TEST(Parallel, ShortLoopsStayOnTheCaller) {
  set_thread_count(4);
  const std::thread::id here = std::this_thread::get_id();
  int64_t expected = 0;
  parallel_for(8, 10.0, [&](int64_t i) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    EXPECT_EQ(i, expected++);
  });
  set_thread_count(0);
}

TEST(Parallel, TheCountIsCheckedAndHasADefault) {
  EXPECT_THROW(set_thread_count(-1), Error);
  EXPECT_THROW(set_thread_count(5000), Error);
  set_thread_count(0);
  EXPECT_GE(worker_count(), 1);
}

TEST(Parallel, TheEnvironmentDecides) {
  setenv("ETUDE_THREADS", "3", 1);
  set_thread_count(0);
  EXPECT_EQ(worker_count(), 3);
  for (const char* wrong : {"0", "many", "4x", "-2", "99999"}) {
    setenv("ETUDE_THREADS", wrong, 1);
    set_thread_count(0);
    EXPECT_THROW(worker_count(), Error) << wrong;
  }
  unsetenv("ETUDE_THREADS");
  EXPECT_GE(worker_count(), 1);
}

}  // namespace
}  // namespace etude
