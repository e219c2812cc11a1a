// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/internal/tracing_lock.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "etude/base/check.h"
#include "etude/base/permanent.h"

namespace etude::internal {

namespace {

using std::chrono::steady_clock;

std::atomic<std::chrono::milliseconds> patience{std::chrono::minutes(5)};

}  // namespace

std::chrono::milliseconds trace_patience() noexcept { return patience; }
std::chrono::milliseconds set_trace_patience(std::chrono::milliseconds now) noexcept {
  return patience.exchange(now);
}

bool TracingMutex::try_lock_for(std::string_view function) {
  if (!mutex_.try_lock()) return false;
  if (depth_++ == 0) {
    const std::lock_guard guard(name_mutex_);
    name_ = function;
  }
  return true;
}

void TracingMutex::lock_for(std::string_view function) {
  if (try_lock_for(function)) return;
  const auto limit = steady_clock::now() + trace_patience();
  // Sleeps, since thread sanitizers do not know the waits of timed mutexes.
  for (std::chrono::microseconds pause(50); !try_lock_for(function);) {
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, steady_clock::now() < limit,
        "function '{}' cannot be traced: another thread is tracing function '{}', for {} ms now, "
        "and "
        "one thread of the process traces at a time. If that function waits for this "
        "thread, call '{}' once before, or start the thread outside of it",
        function, holder(), trace_patience().count(), function);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
  }
}

void TracingMutex::unlock() {
  --depth_;
  mutex_.unlock();
}

std::string TracingMutex::holder() {
  const std::lock_guard guard(name_mutex_);
  return name_;
}

TracingLock lock_tracing(std::string_view function) {
  static Permanent<TracingMutex> mutex;
  mutex->lock_for(function);
  return TracingLock(*mutex, std::adopt_lock);
}

}  // namespace etude::internal
