// SPDX-License-Identifier: Apache-2.0
// The distance of two names, and the names nearest to one, for messages that list similar names.
// Used by core/op/registry.cc and by kinds/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace etude::internal {

// The least number of characters to insert, remove or replace (Levenshtein). cost: the product of
// the lengths.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

// The names nearest to `name`, the nearest first, equally near ones in their given order; at most
// three. A name with a namespace, "nn.relu", is as near as its last part, since a user may write
// either. `only_similar`: at most a third of the characters of `name` differ. Names may come from
// files: characters after the first kCompared do not count.
inline std::vector<std::string_view> nearest_names(std::string_view name,
                                                   std::span<const std::string_view> names,
                                                   bool only_similar) {
  constexpr std::size_t kMost = 3, kCompared = 100;
  name = name.substr(0, kCompared);
  const std::size_t farthest = std::max<std::size_t>(1, name.size() / 3);
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const std::string_view other : names) {
    const std::string_view whole = other.substr(0, kCompared);
    const std::string_view part = other.substr(other.rfind('.') + 1).substr(0, kCompared);
    const std::size_t distance = std::min(edit_distance(whole, name), edit_distance(part, name));
    if (!only_similar || distance <= farthest) near.emplace_back(distance, other);
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string_view>::first);
  std::vector<std::string_view> best;
  for (std::size_t i = 0; i < std::min(near.size(), kMost); ++i) best.push_back(near[i].second);
  return best;
}

}  // namespace etude::internal
