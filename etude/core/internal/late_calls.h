// SPDX-License-Identifier: Apache-2.0
// Calls that run after they have returned. A device with a queue runs a call later, on another
// thread or processor, and may report its fault later still. The fault belongs to the call: a
// kernel that enqueues work takes a note of the op and the user's line, under a number, and the
// device reports faults by number. So late errors have the texts of errors that are thrown at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/base/error.h"
#include "etude/base/internal/ref_ptr.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Op;
class Attrs;

namespace internal {

// A staged function around a call.
struct LateCaller : RefCounted {
  std::string function;
  CallSite where;
  RefPtr<const LateCaller> outer;
};

// The op and the line of a call. `callers` are functions that were inlined around a node of a
// graph.
struct LateCall : RefCounted {
  LateCall() = default;
  LateCall(const Op& op, const Attrs& attrs, CallSite where);

  std::string op;
  CallSite where;
  RefPtr<const LateCaller> callers;  // innermost first
};

// Receives the time that a call took on its device, for a profile.
struct LateTimer : RefCounted {
  using Time = std::chrono::steady_clock::time_point;
  // Called once for each piece of work that ran, on any thread.
  virtual void ran(const std::string& device, Time start, Time end) const = 0;
};

// The facts that the error of a call needs, and its timer. All may be null. Plain value, for any
// thread.
struct CallNote {
  RefPtr<const LateCall> call;
  RefPtr<const LateCaller> callers;  // the staged functions that were running
  RefPtr<const LateTimer> timer = {};

  // The error with op, line and functions, as the call would have thrown it.
  Error placed(const Error& fact) const;
};

// While alive, work that kernels of this thread enqueue belongs to this call. Only calls on devices
// with a queue open one. confined to its thread.
class LateCallScope {
 public:
  explicit LateCallScope(RefPtr<const LateCall> call);
  LateCallScope(const LateCallScope&) = delete;
  LateCallScope& operator=(const LateCallScope&) = delete;
  ~LateCallScope();

 private:
  RefPtr<const LateCall> outer_;
};

// While alive, calls of this thread on devices with a queue are calls inside this staged function.
// confined to its thread.
class LateCallerScope {
 public:
  LateCallerScope(const std::string& function, CallSite where);
  LateCallerScope(const LateCallerScope&) = delete;
  LateCallerScope& operator=(const LateCallerScope&) = delete;
  ~LateCallerScope();
};

// The note for work that is enqueued now: of the innermost scopes of this thread.
CallNote note_of_call();
// The timer for work that is enqueued now, while calls are profiled; null: not measured. Defined in
// etude/startup.cc.
RefPtr<const LateTimer> timer_of_call();

// The fault of a call, which all values that depend on it share.
struct LateFault : RefCounted {
  explicit LateFault(Error of) : error(std::move(of)) {}
  Error error;
};

// The calls in the queue of one device. thread-safe.
class Mailbox {
 public:
  // `device` is named in profiles.
  explicit Mailbox(std::string device) : device_(std::move(device)) {}
  // Enters a call. Numbers count up from 1 in the order of the queue.
  uint64_t note(CallNote call);
  // The call begins to run. A call that ends without it, since an operand has a fault, took no
  // time.
  void begin(uint64_t number) noexcept;
  // The call ran without a fault.
  void finish(uint64_t number) noexcept;
  // The call failed. Returns its error with op and line.
  RefPtr<const LateFault> report(uint64_t number, const Error& fact);

 private:
  struct Entry {
    CallNote note;
    LateTimer::Time start = {};  // of a call that is measured
  };
  // Removes the entry, and reports its time to its timer.
  Entry take(uint64_t number);

  const std::string device_;
  std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;
  uint64_t last_ = 0;
};

}  // namespace internal
}  // namespace etude
