// SPDX-License-Identifier: Apache-2.0
// Axes in attributes of verified graphs, for writers of other formats: each is inside its rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace etude::saved::internal {

// An axis counted from the front; axis -1 is the last.
inline int64_t axis_from_front(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

inline std::vector<int64_t> axes_from_front(const std::vector<int64_t>& axes, int rank) {
  std::vector<int64_t> out;
  for (const int64_t axis : axes) out.push_back(axis_from_front(axis, rank));
  return out;
}

inline std::vector<int64_t> all_axes(int rank) {
  std::vector<int64_t> out(static_cast<std::size_t>(rank));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace etude::saved::internal
