// SPDX-License-Identifier: Apache-2.0
// The layers that the calls of a graph belong to, by the paths of the state that they read. For
// pages and for TensorBoard.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/graph/graph.h"

namespace etude::internal {

// {"net", "hidden"}: at most kDeepestLayer components, since files may have longer paths.
using LayerPath = std::vector<std::string>;
inline constexpr std::size_t kDeepestLayer = 32;

// By node: the common path of the state that it reads, without the last component. A call that
// reads no state has the most exact path among the calls that made its operands, or their common
// beginning. `state` is by input: "net/hidden/weight", or "" for an input that is no state.
std::vector<LayerPath> layer_paths(const Graph& graph, std::span<const std::string> state);

// Shortens `common` to the common beginning of paths; takes the first path.
void meet(std::optional<LayerPath>& common, const LayerPath& path);

}  // namespace etude::internal
