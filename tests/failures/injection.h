// SPDX-License-Identifier: Apache-2.0
// Allocations, threads and changes of files that fail on request. The program that links
// injection.cc replaces malloc or operator new, pthread_create, write, fsync, rename and others.
#pragma once

#include <string>

#include "etude/base/sanitizers.h"

namespace etude::failures {

// Sanitizers have a malloc, a write and a pthread_create of their own. Under them calls inside
// shared libraries do not fail, and threads do not either.
inline constexpr bool kFailsThreads =
    !internal::kHasAddressSanitizer && !internal::kHasThreadSanitizer;

enum class What {
  kAllocation,          // of the calling thread: operator new, malloc and its relatives
  kAllocationAnywhere,  // of all threads
  kThread,              // pthread_create, of all threads: EAGAIN
  kFileChange,  // write, fsync, close of a written file, rename, mkdir, of all threads: ENOSPC
};

enum class HowOften {
  kOnce,
  kForEver,  // this one and all later ones, as under a limit
};

// While alive, the n-th of the events from now on fails; 0: none, they are only counted. One at a
// time.
class FailureScope {
 public:
  FailureScope(What what, long n, HowOften how_often = HowOften::kOnce) noexcept;
  FailureScope(const FailureScope&) = delete;
  FailureScope& operator=(const FailureScope&) = delete;
  ~FailureScope() { end(); }

  void end() noexcept;         // nothing fails from here on
  bool has_failed() noexcept;  // whether the n-th event came
  long count() noexcept;       // the events so far

 private:
  const What what_;
};

// Runs f without failures: for the parts of a job that are not to be tried.
class Quiet {
 public:
  Quiet() noexcept;
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet();

 private:
  bool was_on_[4];
};
template <class F>
auto quietly(const F& f) {
  const Quiet quiet;
  return f();
}

// Sets the text that a crash, or a run of more than `seconds`, prints before the process ends.
void describe_work(const std::string& text, unsigned seconds) noexcept;

// From ETUDE_TEST_CASES: the number of places at which a job fails, 0 for all of them.
long places_per_job(long by_default);

}  // namespace etude::failures
