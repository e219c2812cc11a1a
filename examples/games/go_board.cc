// SPDX-License-Identifier: Apache-2.0
#include "examples/games/go.h"

namespace go {
namespace {

std::vector<int> around(const std::vector<int>& fields) {
  std::vector<int> near;
  for (const int field : fields) {
    if (field % kSide > 0) near.push_back(field - 1);
    if (field % kSide < kSide - 1) near.push_back(field + 1);
    if (field >= kSide) near.push_back(field - kSide);
    if (field < kFields - kSide) near.push_back(field + kSide);
  }
  return near;
}

}  // namespace

std::vector<int> Board::group(int field) const {
  std::array<bool, kFields> seen{};
  std::vector<int> all = {field};
  for (std::size_t k = 0; k < all.size(); ++k) {
    seen[static_cast<std::size_t>(all[k])] = true;
    for (const int near : around({all[k]})) {
      bool& is_seen = seen[static_cast<std::size_t>(near)];
      if (at(near) == at(field) && !is_seen) all.push_back(near);
      is_seen = true;
    }
  }
  return all;
}

bool Board::is_free(const std::vector<int>& fields) const {
  for (const int near : around(fields)) {
    if (at(near) == 0) return true;
  }
  return false;
}

bool Board::place(int field) {
  if (at(field) != 0 || field == ko_) return false;
  Board next = *this;
  next.put(field, turn_);
  std::vector<int> taken;
  for (const int near : around({field})) {
    if (next.at(near) != -turn_) continue;
    const std::vector<int> stones = next.group(near);
    if (next.is_free(stones)) continue;
    for (const int gone : stones) next.put(gone, 0);
    taken.insert(taken.end(), stones.begin(), stones.end());
  }
  const std::vector<int> own = next.group(field);
  if (!next.is_free(own)) return false;
  next.ko_ = taken.size() == 1 && own.size() == 1 ? taken[0] : -1;
  *this = next;
  return true;
}

bool Board::play(int field) {
  if (field != kPass && !place(field)) return false;
  if (field == kPass) ko_ = -1;
  passes_ = field == kPass ? passes_ + 1 : 0;
  ++moves_;
  turn_ = -turn_;
  return true;
}

double Board::score() const {
  double sum = -5.5;
  for (int field = 0; field < kFields; ++field) {
    bool black = at(field) == 1, white = at(field) == -1;
    const std::vector<int> empty = at(field) == 0 ? group(field) : std::vector<int>();
    for (const int near : around(empty)) black |= at(near) == 1, white |= at(near) == -1;
    sum += static_cast<int>(black) - static_cast<int>(white);
  }
  return sum;
}

}  // namespace go
