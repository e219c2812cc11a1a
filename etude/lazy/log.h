// SPDX-License-Identifier: Apache-2.0
// The log of lazy execution, which LazyMetrics reads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/base/internal/fork_lock.h"
#include "etude/lazy/metrics.h"

namespace etude::internal {

// In the order of the members of LazyCounts.
enum class LazyCount : std::size_t {
  kRecorded,
  kDropped,
  kFollowed,
  kExecutes,
  kNodes,
  kCompiles,
  kHits,
  kSymbolicHits,
  kMisses,
  kCollisions,
  kPromotions,
  kDonations,
  kObservations,
  kObservedElsewhere,
  kEagerCalls,
  kFallbacks,
  kUnready,
  kOverLimit,
  kObservationCuts,
  kBarrierCuts,
  kAutomaticCuts,
  kScopeCuts,
  kEnd,
};
inline constexpr std::size_t kLazyCounts = static_cast<std::size_t>(LazyCount::kEnd);
static_assert(sizeof(LazyCounts) == kLazyCounts * sizeof(int64_t));

struct LazyRun {
  int64_t nodes;
  double seconds;
};
struct LazyCompile {
  double seconds;
  std::string text;
};

// threads: thread-safe.
struct LazyLog {
  static LazyLog& instance();

  void count(LazyCount what, int64_t n = 1) noexcept {
    counts[static_cast<std::size_t>(what)].fetch_add(n, std::memory_order_relaxed);
  }
  void note_eager(std::string_view op);
  // Records an observation at this line. Warns once if a line observes very often.
  void note_observation(CallSite where);
  void note_run(int64_t nodes, double seconds);
  void note_compile(double seconds, std::string text);

  std::array<std::atomic<int64_t>, kLazyCounts> counts{};
  ForkSafeMutex mutex;  // of the following members
  std::map<std::string, int64_t, std::less<>> eager, observed;
  std::deque<LazyRun> runs;
  std::deque<LazyCompile> compiles;
  uint64_t runs_seen = 0, compiles_seen = 0;
};

// Adds the counts that wait in the trace of this thread. Other threads add theirs at their next
// cut.
void flush_lazy_counts();

// "train.cc:52"; "" for an unknown line.
std::string line_text(CallSite where);

}  // namespace etude::internal
