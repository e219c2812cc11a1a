// SPDX-License-Identifier: Apache-2.0
// Memory that runs out at each allocation of each job (jobs.h): an error of kResourceExhausted or
// std::bad_alloc, all values as before, and the next try succeeds. ETUDE_TEST_CASES is the number
// of places for each job, 0 for all of them; ETUDE_TEST_JOBS a part of the names of the jobs.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/failures/injection.h"
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace {

constexpr unsigned kMostSeconds = 60;  // of one try

// Two long texts that should be equal: the first difference, with its surroundings.
std::string difference(const std::string& seen, const std::string& right) {
  std::size_t at = 0;
  while (at < std::min(seen.size(), right.size()) && seen[at] == right[at]) ++at;
  const std::size_t from = at > 60 ? at - 60 : 0;
  return "'" + seen.substr(from, 160) + "' should be '" + right.substr(from, 160) + "'";
}

class Trial {
 public:
  Trial(const Job& job, std::string where) : job_(job), where_(std::move(where)) {}

  // Whether the n-th allocation came at all.
  bool fails_at(long n, HowOften how_often, const std::string& right, const std::string& after,
                const std::vector<std::string>& between) {
    describe_work(where_, kMostSeconds);
    Run run = job_.start();
    const std::string before = run.state();
    std::string seen, failure;
    bool has_come = false;
    {
      FailureScope scope(job_.fails, n, how_often);
      try {
        seen = run.go();
        scope.end();
      } catch (const Error& error) {
        scope.end();
        failure = error.what();
        EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << where_ << failure;
      } catch (const std::bad_alloc&) {
        scope.end();
        failure = "std::bad_alloc";
      } catch (const std::exception& error) {
        scope.end();
        failure = error.what();
        ADD_FAILURE() << where_ << "another exception: " << failure;
      }
      has_come = scope.has_failed();
    }
    if (failure.empty()) {
      EXPECT_TRUE(seen == right) << where_ << "wrong value: " << difference(seen, right);
    } else {
      check_state(run, before, between, failure);
      if (job_.starts_anew) run = job_.start();
      const std::string again = run.go();
      EXPECT_TRUE(again == right) << where_ << "next try: " << difference(again, right) << "\n"
                                  << failure;
    }
    const std::string last = run.state();
    EXPECT_TRUE(last == after) << where_ << "last state: " << difference(last, after) << "\n"
                               << failure;
    return has_come;
  }

 private:
  void check_state(const Run& run, const std::string& before,
                   const std::vector<std::string>& between, const std::string& failure) {
    std::string now;
    try {
      now = run.state();
    } catch (const Error& error) {
      EXPECT_TRUE(job_.loses_values && error.code() == ErrorCode::kResourceExhausted)
          << where_ << error.what() << "\n"
          << failure;
      return;
    }
    if (now == before || std::ranges::find(between, now) != between.end()) return;
    ADD_FAILURE() << where_ << "the state has changed: " << difference(now, before) << "\n"
                  << failure;
  }

  const Job& job_;
  const std::string where_;
};

void fail_everywhere(const Job& job, long most) {
  describe_work(job.name, kMostSeconds);
  const std::vector<std::string> between = job.between ? job.between() : std::vector<std::string>();
  job.start().go();  // caches that a process fills once
  Run clean = job.start();
  long all = 0;
  std::string right;
  {
    FailureScope counting(job.fails, 0);
    right = clean.go();
    all = counting.count();
  }
  const std::string after = clean.state();
  const long step = most == 0 ? 1 : std::max(1L, all / most);
  for (const HowOften how_often : {HowOften::kOnce, HowOften::kForEver}) {
    // Other places for each kind of failure, and the first ones in any case.
    const long first = how_often == HowOften::kOnce ? 1 : std::min(2L, step);
    for (long n = first; n <= all + step; n += step) {
      Trial trial(job, job.name + ", allocation " + std::to_string(n) + " of " +
                           std::to_string(all) +
                           (how_often == HowOften::kOnce ? ": " : " and all later ones: "));
      if (!trial.fails_at(n, how_often, right, after, between)) break;
      if (testing::Test::HasFailure() && std::getenv("ETUDE_TEST_GOES_ON") == nullptr) return;
    }
  }
}

// libpng reports many texts for a failed malloc.
TEST(FailedAllocation, OfLibpngIsNamed) {
  const internal::TempFolder folder;
  const std::string path = (folder.path() / "x.png").string();
  io::write_png(path, zeros({64, 64, 3}, {.dtype = kUInt8}));
  io::read_png(path);  // caches that a process fills once
  int of_libpng = 0;
  for (long n = 1;; ++n) {
    FailureScope scope(What::kAllocation, n);
    try {
      io::read_png(path);
      break;
    } catch (const Error& error) {
      scope.end();
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
      const std::string_view text = error.what();
      of_libpng += text.find("x.png: libpng has no memory for the image") != text.npos ? 1 : 0;
    } catch (const std::bad_alloc&) {
    }
    ASSERT_LT(n, 1000);
  }
  EXPECT_GE(of_libpng, 1);
}

// A call that is the first of its thread, without memory at each allocation.
void expect_thrown(const std::function<void()>& call) {
  const auto fails_at = [&](long n) {
    bool has_failed = false;
    std::thread([&] {
      FailureScope scope(What::kAllocation, n);
      try {
        call();
      } catch (const std::bad_alloc&) {
        has_failed = true;
      } catch (const Error& error) {
        scope.end();
        EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
        has_failed = true;
      }
    }).join();
    return has_failed;
  };
  fails_at(0);  // caches that a process fills once
  long n = 1;
  while (fails_at(n)) ASSERT_LT(++n, 1000);
  EXPECT_GT(n, 1);
}

// A thread makes its state in its first call, which may be a scope.
TEST(FailedAllocation, OfTheFirstCallOfAThreadIsThrown) {
  expect_thrown([] { static_cast<void>(init_scope([] { return ones({2}) + 1.0F; })); });
  expect_thrown([] { const PhaseScope scope(Phase::kTraining); });
  expect_thrown([] { const SeedScope scope(1); });
  expect_thrown([] { const DeviceScope scope("cpu:0"); });
  expect_thrown([] { const LazyScope scope; });
}

TEST(AllocationFailures, AnErrorAndTheStateAsBefore) {
  const char* const part = std::getenv("ETUDE_TEST_JOBS");
  const long most = places_per_job(internal::kHasAddressSanitizer ? 8 : 25);
  int tried = 0;
  for (const Job& job : all_jobs()) {
    if (part != nullptr && job.name.find(part) == std::string::npos) continue;
    ++tried;
    fail_everywhere(job, most);
  }
  EXPECT_GE(tried, part != nullptr ? 1 : 30);
  describe_work("", 0);
}

}  // namespace
}  // namespace etude::failures
