// SPDX-License-Identifier: Apache-2.0
// Processes that get no further thread from the n-th on: fewer threads, or an error of
// kResourceExhausted; never an abort, a deadlock or a wrong value. Each case is a child process,
// since threads stay once they have started.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/device/cpu/parallel.h"
#include "etude/etude.h"
#include "tests/failures/injection.h"
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace {

// Work that starts all kinds of threads: workers of loops, the compiler in the background,
// prefetching.
std::vector<Job> jobs_with_threads() {
  std::vector<Job> out = {
      plain_job("a parallel loop",
                [] {
                  return bits(sum(tanh(ones({300000})))) +
                         bits(sum(matmul(ones({300, 300}), ones({300, 300}))));
                }),
      plain_job("a parallel pipeline",
                [] {
                  std::string text;
                  for (const Tensor& x :
                       data::count_up(20)
                           .map([](int64_t i) { return Tensor(static_cast<float>(i)); },
                                {.parallel = 4})
                           .batch(5)
                           .prefetch(2)) {
                    text += bits(x);
                  }
                  return text;
                }),
      plain_job("compilation in the background",
                [] {
                  const LazyScope lazy;
                  Tensor x = ones({3});
                  for (int i = 0; i < 4; ++i) {
                    x = tanh(x) + x;
                    lazy_barrier();
                  }
                  wait_for_compile();
                  return bits(x);
                }),
  };
  for (const Job& job : all_jobs()) {
    if (job.name == "loader: prefetching" || job.name == "fit: lazy" ||
        job.name == "staged: new functions" || job.name == "serve: a server with three workers") {
      out.push_back(job);
    }
  }
  return out;
}

constexpr int kThreads = 3;

enum Ending {
  kSame = 0,
  kError = 3,
  kWrongValue = 4,
  kWrongError = 5,
  kNoSuchThread = 6,
  kStuck = 7
};

// In a child: the job under a limit of n - 1 further threads.
int try_with_few_threads(const Job& job, long n, HowOften how_often) {
  describe_work(job.name + ", thread " + std::to_string(n) + ": ", 60);
  set_warning_handler([](std::string_view) {});
  // Workers of loops exist before all jobs but one: it fails while they are counted. oneTBB itself
  // does not end where a thread fails that was counted before.
  const bool is_loop = job.name == "a parallel loop";
  if (is_loop && (n >= kThreads || how_often == HowOften::kOnce)) return kNoSuchThread;
  if (!is_loop) sum(tanh(ones({300000})));
  Run run = job.start();
  FailureScope scope(What::kThread, n, how_often);
  std::string seen;
  try {
    seen = run.go();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) return kWrongError;
    scope.end();
    return run.go().empty() ? kStuck : kError;
  } catch (const std::exception&) {
    return kWrongError;
  }
  const bool has_come = scope.has_failed();
  scope.end();
  if (run.go() != seen) return kWrongValue;
  return has_come ? kSame : kNoSuchThread;
}

TEST(ThreadFailures, FewerThreadsOrAnError) {
  if constexpr (!kFailsThreads) GTEST_SKIP() << "sanitizers have their own pthread_create()";
  set_thread_count(kThreads);
  for (const Job& job : jobs_with_threads()) {
    for (const HowOften how_often : {HowOften::kOnce, HowOften::kForEver}) {
      for (long n = 1;; ++n) {
        ASSERT_LT(n, 100);
        const pid_t child = fork();
        if (child == 0) _exit(try_with_few_threads(job, n, how_often));
        int status = 0;
        waitpid(child, &status, 0);
        const int ending = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        EXPECT_TRUE(ending == kSame || ending == kError || ending == kNoSuchThread)
            << job.name << ", thread " << n << ": status " << status << ", exit " << ending;
        if (ending == kNoSuchThread || testing::Test::HasFailure()) break;
      }
    }
  }
}

}  // namespace
}  // namespace etude::failures
