// SPDX-License-Identifier: Apache-2.0
// The queue of a simulated device: one thread runs the jobs of all host threads in their order,
// after random delays. A fault of a job poisons the values that the job would have written, and
// through them the values of later jobs. Knows memory as addresses only.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "etude/core/internal/late_calls.h"

namespace etude::sim {

// A range of the memory of the device.
struct Span {
  const void* at = nullptr;
  std::size_t bytes = 0;
};

// The faults of values, by their addresses. Confined to the lock of the queue.
class Poison {
 public:
  using Fault = internal::RefPtr<const internal::LateFault>;

  // A null fault: the values are sound from now on.
  void mark(Span span, const Fault& fault);
  // A fault of a value that has bytes in the span; null: none.
  Fault find(Span span) const;

 private:
  struct Part {
    uintptr_t end;
    Fault fault;
  };
  std::map<uintptr_t, Part> parts_;  // by their beginning; apart from each other
};

// threads: thread-safe. Never destroyed: the thread is detached.
class Queue {
 public:
  struct Job {
    std::vector<Span> reads, writes;
    std::function<bool()> run;  // false after report_fault()
  };

  // `device` is named in errors.
  explicit Queue(std::string device);
  // Enqueues work of the call for which the kernels of this thread run (LateCallScope).
  void add(Job job);
  // Waits until all jobs that were added before have run.
  // throws: the late error of the values in the span; kUnavailable if the device vanished.
  void wait_for(Span span);
  // While held, no job begins. Holds nest.
  void hold();
  void release();
  // The device vanishes: no further job runs, and all values are lost.
  void lose();
  // Jobs that have not run yet.
  int64_t pending();
  // Jobs that have run, with faults or without.
  uint64_t done();

 private:
  struct Entry {
    uint64_t number = 0;
    Job job;
  };
  void run();
  void sleep_sometimes();
  Poison::Fault run_job(Entry& entry);

  const std::string device_;
  internal::Mailbox mailbox_{device_};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  uint64_t added_ = 0, done_ = 0;  // numbers of the last jobs
  int holds_ = 0;
  bool is_lost_ = false;
  Poison poison_;
  std::minstd_rand random_;  // of the thread
};

}  // namespace etude::sim
