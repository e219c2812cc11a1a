// SPDX-License-Identifier: Apache-2.0
// Offsets in the arena of a plan, while the planner assigns them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace etude::internal {

// The free stretches of an arena that grows at its end. take() uses the smallest stretch that fits.
class ArenaSpace {
 public:
  int64_t take(int64_t bytes);
  // The same, but does not grow the arena.
  std::optional<int64_t> take_free(int64_t bytes);
  void give(int64_t offset, int64_t bytes);
  // Adds all free stretches of another space of the same arena, which is empty afterwards.
  void give_all(ArenaSpace& other);
  int64_t end() const { return end_; }

 private:
  using Free = std::map<int64_t, int64_t>;
  void add(int64_t offset, int64_t bytes);
  Free::iterator remove(Free::iterator at);

  Free free_;                                      // offset to size
  std::set<std::pair<int64_t, int64_t>> by_size_;  // size and offset
  int64_t end_ = 0;
};

}  // namespace etude::internal
