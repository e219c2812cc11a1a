// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/arena_space.h"

#include <algorithm>
#include <iterator>

namespace etude::internal {

std::optional<int64_t> ArenaSpace::take_free(int64_t bytes) {
  const auto best = by_size_.lower_bound({bytes, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [size, offset] = *best;
  remove(free_.find(offset));
  if (size > bytes) add(offset + bytes, size - bytes);
  return offset;
}

int64_t ArenaSpace::take(int64_t bytes) {
  if (const auto offset = take_free(bytes)) return *offset;
  // A stretch at the end can grow.
  if (!free_.empty() && std::prev(free_.end())->first + std::prev(free_.end())->second == end_) {
    const int64_t offset = std::prev(free_.end())->first;
    remove(std::prev(free_.end()));
    end_ = offset + bytes;
    return offset;
  }
  return std::exchange(end_, end_ + bytes);
}

void ArenaSpace::give(int64_t offset, int64_t bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = remove(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      remove(before);
    }
  }
  add(offset, bytes);
}

void ArenaSpace::give_all(ArenaSpace& other) {
  for (const auto& [offset, bytes] : other.free_) give(offset, bytes);
  other.free_.clear();
  other.by_size_.clear();
}

void ArenaSpace::add(int64_t offset, int64_t bytes) {
  free_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

ArenaSpace::Free::iterator ArenaSpace::remove(Free::iterator at) {
  by_size_.erase({at->second, at->first});
  return free_.erase(at);
}

uint32_t ArenaSpaces::number_of(Device device) {
  const auto at = std::ranges::find(all_, device, &OfDevice::device);
  const auto number = static_cast<uint32_t>(at - all_.begin());
  if (number == all_.size()) all_.push_back({device, {}});
  return number;
}

ArenaSpace& ArenaSpaces::at(uint32_t arena) {
  if (all_.size() <= arena) all_.resize(arena + 1);
  return all_[arena].space;
}

void ArenaSpaces::give_all(ArenaSpaces& other) {
  for (uint32_t a = 0; a < other.all_.size(); ++a) at(a).give_all(other.all_[a].space);
}

}  // namespace etude::internal
