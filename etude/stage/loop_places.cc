// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/loop_places.h"

#include <algorithm>

#include "etude/core/context/placement.h"

namespace etude::internal {

void keep_places(std::vector<Tensor>& results, std::span<const Tensor> like, CallSite where) {
  for (std::size_t i = 0; i < std::min(results.size(), like.size()); ++i) {
    if (!results[i].has_value() || !like[i].has_value()) continue;
    const Device place = like[i].type()->device();
    if (results[i].type()->device().is_home()) results[i] = moved(results[i], place, where);
  }
}

bool follow_results(std::vector<Tensor>& carried, const Graph& body, CallSite where) {
  const Types types = body.output_types();
  bool has_moved = false;
  for (std::size_t i = 0; i < std::min(carried.size(), types.size()); ++i) {
    const Type* const after = types[i];
    if (after == nullptr || after->device().is_home()) continue;
    if (!carried[i].type()->device().is_home()) continue;
    carried[i] = moved(carried[i], after->device(), where);
    has_moved = true;
  }
  return has_moved;
}

bool are_at_places_of(std::span<const Tensor> values, std::span<const Tensor> like) {
  return std::ranges::equal(values, like, [](const Tensor& a, const Tensor& b) {
    return a.type()->device() == b.type()->device();
  });
}

std::vector<Tensor> common_places(std::span<const Graph* const> branches, std::size_t results) {
  std::vector<Tensor> out(results);
  for (const Graph* const branch : branches) {
    const Types types = branch->output_types();
    for (std::size_t r = 0; r < std::min(results, types.size()); ++r) {
      if (types[r] == nullptr) continue;
      if (!out[r].has_value() || out[r].type()->device().is_home()) {
        out[r] = types[r]->abstract_tensor();
      }
    }
  }
  return out;
}

}  // namespace etude::internal
