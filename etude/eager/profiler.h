// SPDX-License-Identifier: Apache-2.0
// Reports of the eager context and of plans to the profiler. Used while mode_word has kModeProfile.
#pragma once

#include <chrono>
#include <cstdint>

#include "etude/core/context/context.h"

namespace etude::internal {

class Recorder;

// Measures one call; alive during the call.
class ProfiledCall {
 public:
  ProfiledCall(const Op& op, Operands in, CallSite where);
  // A step of a plan, with the bytes that it touches.
  ProfiledCall(const Op& op, int64_t bytes, CallSite where);
  ProfiledCall(const ProfiledCall&) = delete;
  ~ProfiledCall();
  void ended_with(const Values& results);

 private:
  const Op& op_;
  CallSite where_;
  Recorder* recorder_;
  int64_t bytes_;
  int64_t allocations_;
  int64_t outer_inside_;              // time of calls within the enclosing one
  int64_t outer_allocations_inside_;  // and their allocations
  std::chrono::steady_clock::time_point start_;
};

// Also records the calls of this thread if the whole program is profiled. Called once per thread.
void profile_this_thread();

}  // namespace etude::internal
