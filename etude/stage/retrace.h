// SPDX-License-Identifier: Apache-2.0
// Why functions are traced again: the difference between a call and a trace in words, and the
// warning about functions that are traced again and again. Used by function_core.cc.
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

// The calls and traces of all functions that are made of one type of callable at one line, so that
// one that is made anew for each call is seen. A helper that makes functions of what it is given
// has one line, but the callables are of other types. thread-safe.
class TraceHistory {
 public:
  // Of the functions made at `where` of such a callable; one of its own for an unknown line.
  static std::shared_ptr<TraceHistory> of(CallSite where, std::type_index callable);

  // May miss calls that are made at once: the warning comes a call later then.
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
  std::array<uint64_t, kTraces> at_{};  // the calls that made the latest traces
  std::size_t traces_ = 0;              // since the latest warning
  int warnings_ = 0;
};

// Says that the function is traced again and again, what differs from the trace that is nearest,
// and what usually makes it so. `before`: its traces, which do not serve `key`.
void warn_of_traces(const std::string& function, std::span<const TraceRef> before,
                    const TraceKey& key, const ArgumentNames& names, CallSite where);

}  // namespace etude::internal
