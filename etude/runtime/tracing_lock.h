// SPDX-License-Identifier: Apache-2.0
// One thread of the process traces at a time: a function may call others while it is traced, and
// with a lock for each, two that call each other from two threads would wait for ever.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A recursive mutex that knows the function for which it was taken first.
class TracingMutex {
 public:
  // Waits until no other thread traces.
  // throws: kFailedPrecondition after trace_patience(): the thread that traces may wait for this
  //         one.
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

// How long a thread waits for one that traces; five minutes at first, since
// a first call that makes Variables may train. set_trace_patience() gives the
// time before, and is for tests. thread-safe.
std::chrono::milliseconds trace_patience() noexcept;
std::chrono::milliseconds set_trace_patience(std::chrono::milliseconds patience) noexcept;

}  // namespace internal
}  // namespace etude
