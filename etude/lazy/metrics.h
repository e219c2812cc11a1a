// SPDX-License-Identifier: Apache-2.0
// Statistics of lazy execution: counters of the whole process between two moments, observations by
// line, ops that were not compiled, and the reason of each compile. For people, tests and
// benchmarks. lazy/lazy.h declares lazy execution, and explains traces, cuts and segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "etude/version.h"

namespace ETUDE_API etude {

struct LazyCounts {
  int64_t recorded = 0;            // calls that were recorded
  int64_t dropped = 0;             // recorded calls that never ran: no result was needed
  int64_t followed = 0;            // recorded calls that matched the expected call: no look-up
  int64_t executes = 0;            // segments that ran
  int64_t nodes = 0;               // calls in these segments
  int64_t compiles = 0;            // programs compiled
  int64_t hits = 0;                // segments that caused no compile
  int64_t symbolic_hits = 0;       // hits with new sizes: a plan was made, no pass ran
  int64_t misses = 0;              // segments that caused a compile
  int64_t collisions = 0;          // programs of different structure with equal hashes
  int64_t promotions = 0;          // constants whose value changed, so that they became inputs
  int64_t donations = 0;           // results in the memory of inputs
  int64_t observations = 0;        // observations of pending values
  int64_t observed_elsewhere = 0;  // observations by another thread than the recording thread
  int64_t eager_calls = 0;         // calls that are not compiled: LazyMetrics::eager_ops()
  int64_t fallbacks = 0;           // segments run call by call because their program failed
  int64_t unready = 0;             // segments run call by call because no program was ready
  int64_t over_limit = 0;          // segments run call by call because of max_compiles
  int64_t observation_cuts = 0;    // segments cut by an observation
  int64_t barrier_cuts = 0;        // segments cut by a barrier
  int64_t automatic_cuts = 0;      // segments cut because of the size of the trace
  int64_t scope_cuts = 0;          // segments cut by the end of a scope
};

// Durations of runs or of compiles, in seconds.
struct LazyTimes {
  int64_t count = 0;
  double median = 0, p90 = 0, max = 0, total = 0;  // of the last 4096 durations
};

// A cached program.
struct LazyProgram {
  std::size_t number = 0;   // 1, 2, 3, ... in order of creation
  std::size_t nodes = 0;    // recorded calls
  std::size_t planned = 0;  // calls after the passes; the calls of a loop count once
  int64_t uses = 0;
  double compile_seconds = 0;
  int64_t bytes = 0;   // size of the memory for intermediate values
  std::string where;   // the line of the first cut: "train.cc:52"
  std::string reason;  // why the program was made: "node 41 'reshape' has shape=[80,784], was ..."
};

// Statistics of all threads since this object was made, or since reset(). Calls that another thread
// recorded are counted at the next cut of that thread. threads: thread-safe to read.
class LazyMetrics {
 public:
  LazyMetrics() { reset(); }
  void reset();

  LazyCounts counts() const;
  // Returns, for each op, the number of calls that ran at once and were not compiled.
  std::map<std::string, int64_t> eager_ops() const;
  // Returns, for each line, the number of observations of pending values.
  std::map<std::string, int64_t> observed() const;
  // Returns the number of calls of each of the last 4096 segments that ran.
  std::vector<int64_t> segments() const;
  LazyTimes compile_times() const;
  LazyTimes execute_times() const;
  // Returns a line for each of the last 4096 compiles: "compile 7 at train.cc:52: like program 3
  // but ...".
  std::vector<std::string> compiles() const;
  // Returns all statistics as a table.
  std::string to_string() const;

  // Returns the cached programs.
  static std::vector<LazyProgram> programs();
  // Returns the first difference between the programs with the numbers a and b.
  // throws: kNotFound if one of them is not cached.
  static std::string explain(std::size_t a, std::size_t b);

 private:
  LazyCounts start_;
  std::map<std::string, int64_t> start_eager_, start_observed_;
  uint64_t first_run_ = 0, first_compile_ = 0;
};

}  // namespace etude
