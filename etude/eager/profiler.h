// SPDX-License-Identifier: Apache-2.0
// Reports of the eager context and of plans to the profiler. Used while mode_word has kModeProfile.
#pragma once

#include <chrono>
#include <cstdint>

#include "etude/core/context/context.h"
#include "etude/core/internal/late_calls.h"

namespace etude::internal {

class Recorder;

// Measures one call; alive during the call. A call that enqueues work on a device takes the time of
// this work; the time on the host is then a part of the call around it.
class ProfiledCall {
 public:
  ProfiledCall(const Op& op, Operands in, CallSite where);
  // A step of a plan, with the bytes that it touches.
  ProfiledCall(const Op& op, int64_t bytes, CallSite where);
  ProfiledCall(const ProfiledCall&) = delete;
  ~ProfiledCall();
  void ended_with(const Values& results);
  // A timer for work that the call enqueues.
  RefPtr<const LateTimer> timer();

 private:
  const Op& op_;
  CallSite where_;
  Recorder* recorder_;
  ProfiledCall* outer_;
  bool is_queued_ = false;
  int64_t bytes_;
  int64_t allocations_;
  int64_t outer_inside_;              // time of calls within the enclosing one
  int64_t outer_allocations_inside_;  // and their allocations
  std::chrono::steady_clock::time_point start_;
};

// The timer of the innermost call of this thread that is measured; null if there is none.
RefPtr<const LateTimer> timer_of_profiled_call();

// Also records the calls of this thread if the whole program is profiled. Called once per thread.
void profile_this_thread();

}  // namespace etude::internal
