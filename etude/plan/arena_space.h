// SPDX-License-Identifier: Apache-2.0
// Offsets in the arenas of a plan, while the planner assigns them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "etude/core/device.h"

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

// The arenas of a plan, one for each device with values, by number.
class ArenaSpaces {
 public:
  struct OfDevice {
    Device device;
    ArenaSpace space;
  };
  // The number of the arena of a device, which begins empty.
  uint32_t number_of(Device device);
  ArenaSpace& at(uint32_t arena);
  // All free stretches of other spaces of the same arenas; those are empty afterwards.
  void give_all(ArenaSpaces& other);
  const std::vector<OfDevice>& all() const { return all_; }

 private:
  std::vector<OfDevice> all_;
};

}  // namespace etude::internal
