// SPDX-License-Identifier: Apache-2.0
// Tickets of the functions that are being traced. No lock is held while a function is traced: its
// host code runs then, and may wait for other threads, which trace and call functions as well. A
// ticket holds back only the threads that would make the same graph a second time.
//
// A child of fork() has the calling thread alone. fork() waits until no other thread traces, since
// a trace takes locks of the whole library, and no trace begins meanwhile. It waits two seconds at
// most: the host code of a trace may wait for this thread. The tickets of other threads are gone in
// the child.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

class FunctionCore;
struct Arguments;
struct TracingEntry;

// Returns the ticket when it is destroyed.
// threads: confined to the thread that took it.
class TracingTicket {
 public:
  TracingTicket() = default;
  explicit TracingTicket(std::shared_ptr<TracingEntry> entry) noexcept : entry_(std::move(entry)) {}
  TracingTicket(TracingTicket&&) noexcept = default;
  TracingTicket& operator=(TracingTicket&& other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~TracingTicket();

 private:
  std::shared_ptr<TracingEntry> entry_;  // null: none
};

// Takes the ticket to trace `function` for this call. Waits while another thread traces it for the
// same arguments; and for any arguments while `is_first()`, since the first trace may make
// Variables. Threads that would wait for each other in a circle do not wait: each makes a graph,
// and the function keeps one of them. throws: kFailedPrecondition after trace_patience(): the
// tracing thread may be waiting for this
//   thread.
TracingTicket take_tracing_ticket(const FunctionCore& function, const Arguments& call,
                                  const std::function<bool()>& is_first);

// The time for which a thread waits for the trace of another thread; initially five minutes, since
// a first call that makes Variables may train. set_trace_patience() returns the previous time, and
// is for tests. threads: thread-safe.
std::chrono::milliseconds trace_patience() noexcept;
std::chrono::milliseconds set_trace_patience(std::chrono::milliseconds patience) noexcept;

// Makes the locks of background work ready for fork(), if they are not yet. fork() runs handlers in
// the reverse order of their registration: the handler of traces has to come first, since traces
// take these locks. Defined in etude/startup.cc.
void prepare_background_for_forks();

}  // namespace internal
}  // namespace etude
