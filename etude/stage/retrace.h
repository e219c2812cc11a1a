// SPDX-License-Identifier: Apache-2.0
// Explains repeated tracing: describes the difference between a call and a trace, and warns about
// functions that are traced too often. Used by function_core.cc.
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

// "x is float32[3], was float32[2] in trace 1": describes the first part in which `key` differs
// from trace number n.
std::string difference_from(const Trace& trace, std::size_t n, const TraceKey& key,
                            const ArgumentNames& names);

// Counts the calls and traces of all functions that are made from one callable type at one line. So
// it detects a function that is made again for each call. It also looks at the type, since a helper
// that makes functions from its arguments makes all of them at one line. threads: thread-safe.
class RetraceMonitor {
 public:
  // The monitor of functions made at `where` from such a callable; a separate monitor if the line
  // is unknown.
  static std::shared_ptr<RetraceMonitor> of(CallSite where, std::type_index callable);

  // May miss concurrent calls; the warning then comes a call later.
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
// usual causes. `before` are its traces, which do not serve `key`.
void warn_of_traces(const std::string& function, std::span<const TraceRef> before,
                    const TraceKey& key, const ArgumentNames& names, CallSite where);

}  // namespace etude::internal
