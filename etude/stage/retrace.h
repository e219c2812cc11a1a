// SPDX-License-Identifier: Apache-2.0
// Causes of repeated tracing: the difference between a call and a trace in words, and the warning
// about functions that are traced too often. Used by function_core.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <typeindex>

#include "etude/stage/function_core.h"

namespace etude::internal {

// "x is float32[3], was float32[2] in trace 1": the first part in which `key` differs from the
// trace, which is number n.
std::string difference_from(const Trace& trace, std::size_t n, const TraceKey& key,
                            const ArgumentNames& names);

// The calls and traces of all functions made of one callable type at one line, so that a function
// that is made again for each call is detected. A helper that makes functions of its arguments has
// one line, but its callables have different types. threads: thread-safe.
class RetraceMonitor {
 public:
  // The history of functions made at `where` of such a callable; a separate one for an unknown
  // line.
  static std::shared_ptr<RetraceMonitor> of(CallSite where, std::type_index callable);

  // May miss concurrent calls: the warning then comes a call later.
  void note_call() noexcept {
    calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // True if this is the fifth trace within ten calls, for the first two times.
  bool note_trace();

 private:
  static constexpr std::size_t kTraces = 5;
  static constexpr uint64_t kCalls = 10;
  static constexpr int kMostWarnings = 2;

  std::atomic<uint64_t> calls_{0};
  std::mutex mutex_;
  std::array<uint64_t, kTraces> at_{};  // numbers of the calls that made the latest traces
  std::size_t traces_ = 0;              // since the latest warning
  int warnings_ = 0;
};

// Warns that the function is traced repeatedly, with the difference from the nearest trace and the
// usual causes. `before`: its traces; none of them serves `key`.
void warn_of_traces(const std::string& function, std::span<const TraceRef> before,
                    const TraceKey& key, const ArgumentNames& names, CallSite where);

}  // namespace etude::internal
