// SPDX-License-Identifier: Apache-2.0
// Each write, fsync, close, rename and mkdir of each saver fails once, as on a full disk: an error,
// the older file or checkpoint as before or the newer one whole, nothing else in the folder, and
// the next try succeeds. Calls of the C library by other libraries fail, too.
#include <string>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/failures/injection.h"
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace {

void fail_at_each_change(const Job& job) {
  Run clean = job.start();
  const std::string older = clean.state();
  const std::string right = clean.go();
  const std::string newer = clean.state();
  int failures = 0;
  for (long n = 1;; ++n) {
    ASSERT_LT(n, 1000);
    const std::string where = job.name + ", change " + std::to_string(n) + ": ";
    describe_work(where, 60);
    Run run = job.start();
    std::string failure;
    bool has_come = false;
    {
      FailureScope scope(What::kFileChange, n);
      try {
        run.go();
        scope.end();
      } catch (const Error& error) {
        scope.end();
        failure = error.what();
        EXPECT_TRUE(error.code() == ErrorCode::kResourceExhausted ||
                    error.code() == ErrorCode::kDataLoss ||
                    error.code() == ErrorCode::kFailedPrecondition)
            << where << failure;
      }
      has_come = scope.has_failed();
    }
    if (!has_come) break;
    failures += failure.empty() ? 0 : 1;
    const std::string now = run.state();
    EXPECT_TRUE(now == newer || (!failure.empty() && now == older)) << where << failure << "\n"
                                                                    << now;
    EXPECT_EQ(run.go(), right) << where << failure;
    EXPECT_EQ(run.state(), newer) << where << failure;
  }
  EXPECT_GE(failures, 4) << job.name;  // write, fsync, close, rename at least
}

TEST(WriteFailures, TheOlderOrTheNewerFile) {
  for (const Job& job : saving_jobs()) fail_at_each_change(job);
  describe_work("", 0);
}

}  // namespace
}  // namespace etude::failures
