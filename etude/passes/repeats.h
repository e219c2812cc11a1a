// SPDX-License-Identifier: Apache-2.0
// Stretches of a list that repeat themselves. Used by rolled_loops.cc on hashes of nodes: what is
// found here is only alike, and is compared there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace etude::internal {

// `count` times the same `period` items, from item `first` on.
struct Repeat {
  std::size_t first = 0, period = 0, count = 0;
};

// thread-compatible.
class RepeatFinder {
 public:
  // Looks for stretches of at least so many repetitions, in which all but the first one have at
  // least `least_saved` items together.
  RepeatFinder(std::vector<uint64_t> items, std::size_t least_count, std::size_t least_saved);

  // The first stretch that begins at `from` or behind it, with the shortest period there; a count
  // of 0: there is none. `from` never falls from one call to the next.
  //
  // cost: some hundred comparisons an item in all calls together at most; then there is none.
  Repeat next(std::size_t from);

 private:
  // The end of the items from `at` on that are the same one period later.
  std::size_t end_of_run(std::size_t at, std::size_t period);

  std::vector<uint64_t> items_;
  std::size_t least_count_, least_saved_;
  std::vector<std::size_t> next_;  // by item: where it comes again; the size: nowhere
  std::unordered_map<std::size_t, std::size_t> run_end_;  // by period, of the latest run
  std::size_t budget_;
};

}  // namespace etude::internal
