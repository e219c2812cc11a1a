// SPDX-License-Identifier: Apache-2.0
// Finds repeated stretches of a list. rolled_loops.cc uses it on hashes of nodes; the results are
// candidates, which rolled_loops.cc then compares exactly.
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
  // Finds stretches with at least `least_count` repetitions, if the repetitions after the first
  // have at least `least_saved` items together.
  RepeatFinder(std::vector<uint64_t> items, std::size_t least_count, std::size_t least_saved);

  // The first stretch that begins at or after `from`, with the shortest period there. A count of 0
  // means that there is none. `from` must not decrease between calls.
  //
  // cost: at most a few hundred comparisons for each item, over all calls; beyond that it finds no
  // more stretches.
  Repeat next(std::size_t from);

 private:
  // The end of the items from `at` on that are equal to the items one period later.
  std::size_t end_of_run(std::size_t at, std::size_t period);

  std::vector<uint64_t> items_;
  std::size_t least_count_, least_saved_;
  std::vector<std::size_t> next_;  // by item: its next occurrence; the size: none
  std::unordered_map<std::size_t, std::size_t> run_end_;  // by period, for the latest run
  std::size_t budget_;
};

}  // namespace etude::internal
