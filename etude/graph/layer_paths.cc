// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/layer_paths.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace etude::internal {
namespace {

LayerPath layer_path(std::string_view state) {
  LayerPath out;
  for (std::size_t at = state.find('/'); at != state.npos && out.size() < kDeepestLayer;
       at = state.find('/')) {
    out.emplace_back(state.substr(0, at));
    state.remove_prefix(at + 1);
  }
  return out;
}

// The more exact of two paths, if one begins with the other; else their common beginning. So the
// derivative of a layer, which reads values of the layer, has its path.
void narrow(std::optional<LayerPath>& known, const LayerPath& path) {
  if (!known) {
    known = path;
    return;
  }
  const auto [end, other] = std::ranges::mismatch(*known, path);
  if (end == known->end()) {
    known = path;
  } else if (other != path.end()) {
    known->erase(end, known->end());
  }
}

}  // namespace

void meet(std::optional<LayerPath>& common, const LayerPath& path) {
  if (!common) {
    common = path;
    return;
  }
  const auto end = std::ranges::mismatch(*common, path).in1;
  common->erase(end, common->end());
}

std::vector<LayerPath> layer_paths(const Graph& graph, std::span<const std::string> state) {
  std::vector<LayerPath> out, of_value(graph.value_count());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    std::optional<LayerPath> of_state, of_operands;
    for (const GraphValue v : node.operands) {
      if (v == kNoValue) continue;
      if (v >= graph.first_result()) narrow(of_operands, of_value[v]);
      if (v < state.size() && !state[v].empty()) meet(of_state, layer_path(state[v]));
    }
    out.push_back(of_state ? std::move(*of_state) : of_operands.value_or(LayerPath()));
    for (uint32_t r = 0; r < node.results; ++r) of_value[node.first_result + r] = out.back();
  }
  return out;
}

}  // namespace etude::internal
