// SPDX-License-Identifier: Apache-2.0
// Repeated stretches of a list. Used by rolled_loops.cc on hashes of nodes: results are only
// candidates, which rolled_loops.cc compares exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace etude::internal {

// `count` repetitions of the same `period` items, from item `first` on.
struct Repeat {
  std::size_t first = 0, period = 0, count = 0;
};

// threads: thread-compatible.
class RepeatFinder {
 public:
  // Finds stretches of at least `least_count` repetitions, in which all but the first have at least
  // `least_saved` items together.
  RepeatFinder(std::vector<uint64_t> items, std::size_t least_count, std::size_t least_saved);

  // The first stretch that begins at or after `from`, with the shortest period there. A count of 0:
  // none. `from` must not decrease between calls.
  //
  // cost: at most a few hundred comparisons per item in all calls together; after that returns
  // none.
  Repeat next(std::size_t from);

 private:
  // The end of the items from `at` on that equal the items one period later.
  std::size_t end_of_run(std::size_t at, std::size_t period);

  std::vector<uint64_t> items_;
  std::size_t least_count_, least_saved_;
  std::vector<std::size_t> next_;  // by item: its next occurrence; the size: none
  std::unordered_map<std::size_t, std::size_t> run_end_;  // by period, for the latest run
  std::size_t budget_;
};

}  // namespace etude::internal
