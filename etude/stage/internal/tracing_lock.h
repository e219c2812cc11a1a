// SPDX-License-Identifier: Apache-2.0
// Only one thread of the process traces at a time. A function may call others while it is traced;
// with a lock per function, two functions that call each other from two threads would deadlock.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A recursive mutex that records for which function it was first taken.
class TracingMutex {
 public:
  // Waits until no other thread traces.
  // throws: kFailedPrecondition after trace_patience(): the tracing thread may be waiting for this
  // thread.
  void lock_for(std::string_view function);
  void unlock();

 private:
  bool try_lock_for(std::string_view function);
  std::string holder();
  std::recursive_mutex mutex_;
  int depth_ = 0;  // of the thread that holds it
  std::mutex name_mutex_;
  std::string name_;
};

using TracingLock = std::unique_lock<TracingMutex>;
// throws: as TracingMutex::lock_for().
TracingLock lock_tracing(std::string_view function);

// The time for which a thread waits while another thread traces; initially five minutes, since a
// first call that makes Variables may train. set_trace_patience() returns the previous time, and is
// for tests. threads: thread-safe.
std::chrono::milliseconds trace_patience() noexcept;
std::chrono::milliseconds set_trace_patience(std::chrono::milliseconds patience) noexcept;

}  // namespace internal
}  // namespace etude
