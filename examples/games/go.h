// SPDX-License-Identifier: Apache-2.0
// Go on 9 by 9: stones without a free neighbour are taken, a move must not take back at once (ko)
// or take own stones, and the score counts areas. Used by go.cc and go_search.h.
#pragma once

#include <array>
#include <numeric>
#include <vector>

namespace go {

constexpr int kSide = 9, kFields = kSide * kSide, kPass = kFields;

class Board {
 public:
  int turn() const { return turn_; }  // 1: black, -1: white
  int at(int field) const { return stones_[static_cast<std::size_t>(field)]; }
  bool is_over() const { return passes_ >= 2 || moves_ >= 2 * kFields; }
  // Whether the rules allow the move; if so it is made.
  bool play(int field);
  // Black's area less white's, and 5.5 for moving second: stones, and empty fields that only one
  // side's stones touch.
  double score() const;

 private:
  void put(int field, int stone) { stones_[static_cast<std::size_t>(field)] = stone; }
  // The connected fields of the same colour, or the connected empty fields, around this field.
  std::vector<int> group(int field) const;
  bool is_free(const std::vector<int>& fields) const;
  bool place(int field);

  std::array<int, kFields> stones_{};
  int turn_ = 1, ko_ = -1, passes_ = 0, moves_ = 0;
};

// All legal moves are equally likely; a pass is chosen only if there is no other move.
inline std::vector<float> by_chance(const Board& board) {
  std::vector<float> chances(kFields + 1, 0);
  for (std::size_t field = 0; field < kFields; ++field)
    chances[field] = Board(board).play(static_cast<int>(field)) ? 0.02F : 0;
  const float all = std::accumulate(chances.begin(), chances.end(), 0.0F);
  if (all > 0.1F) {
    for (float& x : chances) x /= all;
  } else {
    chances[kPass] = 1;
  }
  return chances;
}

}  // namespace go
