// SPDX-License-Identifier: Apache-2.0
// Statistics of lazy execution: counters of the whole process between two moments, observations and
// their lines, ops that were not compiled, and reasons of compiles. For people, tests and
// benchmarks. Lazy execution itself is in lazy/lazy.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "etude/version.h"

namespace ETUDE_API etude {

struct LazyCounts {
  int64_t recorded = 0;            // calls
  int64_t dropped = 0;             // recorded calls that never ran: no result was needed
  int64_t followed = 0;            // recorded calls that matched the expected call: no look-up
  int64_t executes = 0;            // runs of segments
  int64_t nodes = 0;               // calls in them
  int64_t compiles = 0;            // programs compiled
  int64_t hits = 0;                // segments whose program was cached
  int64_t symbolic_hits = 0;       // hits with new sizes: a plan was made, no pass ran
  int64_t misses = 0;              // segments without a cached program
  int64_t collisions = 0;          // programs of different structure with equal hashes
  int64_t promotions = 0;          // constants that turned out to change
  int64_t donations = 0;           // results in the memory of inputs
  int64_t observations = 0;        // observations of pending values
  int64_t observed_elsewhere = 0;  // by another thread than the recording thread
  int64_t eager_calls = 0;         // calls that are not compiled: LazyMetrics::eager_ops()
  int64_t fallbacks = 0;           // segments run call by call since their program failed
  int64_t unready = 0;             // segments run call by call while their program compiled
  int64_t over_limit = 0;          // segments run call by call since their line compiled too often
  int64_t observation_cuts = 0;    // segments by the cause of their cut
  int64_t barrier_cuts = 0;
  int64_t automatic_cuts = 0;
  int64_t scope_cuts = 0;
};

// Durations of several runs, in seconds.
struct LazyTimes {
  int64_t count = 0;
  double median = 0, p90 = 0, max = 0, total = 0;  // of the last 4096
};

// A cached program.
struct LazyProgram {
  std::size_t number = 0;  // 1, 2, 3, ... in the order in which they were made
  std::size_t nodes = 0;
  std::size_t planned = 0;  // its calls; the calls of a loop count once
  int64_t uses = 0;
  double compile_seconds = 0;
  int64_t bytes = 0;   // of its memory for intermediate values
  std::string where;   // the line that cut it first: "train.cc:52"
  std::string reason;  // why it was made: "node 41 'reshape' has shape=[80,784], was ..."
};

// The counts over all threads since this object was made, or since reset(). Calls that another
// thread recorded count from its next cut on. threads: thread-safe to read.
class LazyMetrics {
 public:
  LazyMetrics() { reset(); }
  void reset();

  LazyCounts counts() const;
  // Calls of each op that ran at once instead of being compiled.
  std::map<std::string, int64_t> eager_ops() const;
  // Observations of pending values, by line.
  std::map<std::string, int64_t> observed() const;
  // The number of nodes of each of the last 4096 segments that ran.
  std::vector<int64_t> segments() const;
  LazyTimes compile_times() const;
  LazyTimes execute_times() const;
  // A line for each compile: "compile 7 at train.cc:52: like program 3 but ...".
  std::vector<std::string> compiles() const;
  // All statistics as a table.
  std::string to_string() const;

  // The cached programs.
  static std::vector<LazyProgram> programs();
  // The first difference between programs number a and b. throws: kNotFound.
  static std::string explain(std::size_t a, std::size_t b);

 private:
  LazyCounts start_;
  std::map<std::string, int64_t> start_eager_, start_observed_;
  uint64_t first_run_ = 0, first_compile_ = 0;
};

}  // namespace etude
