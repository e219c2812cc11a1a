// SPDX-License-Identifier: Apache-2.0
// Finds the graphs that may serve a call of a loaded function, so that a call of a function with
// many graphs takes no longer than with one graph. Used by match.cc and function.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "etude/core/context/ambient.h"
#include "etude/core/tensor.h"
#include "etude/saved/loaded.h"
#include "etude/saved/match.h"

namespace etude::saved::internal {

// Each function returns numbers of graphs of the phase of this thread, in ascending order: all
// graphs that serve the call, and perhaps others. `is_symbolic`: graphs for many sizes, else graphs
// for exact types. threads: thread-safe.
class GraphIndex {
 public:
  using Numbers = std::vector<uint32_t>;

  // The graphs must outlive the index.
  explicit GraphIndex(const std::deque<LoadedGraph>& graphs);

  // Plain graphs (LoadedGraph::is_plain) for these tensors.
  std::span<const uint32_t> of_tensors(std::span<const Tensor* const> arguments,
                                       bool is_symbolic) const;
  // Graphs for these leaves. A number may be a host value of the graph, or become a tensor.
  Numbers of_leaves(const std::vector<CallLeaf>& leaves, HostValues hosts, bool is_symbolic) const;
  // Whether a graph for exact types is not plain.
  bool has_other_form() const { return has_other_form_[static_cast<std::size_t>(ambient().phase)]; }

 private:
  using Table = std::unordered_map<uint64_t, Numbers>;
  void add(const LoadedGraph& graph, uint32_t number);

  Table plain_;     // by the types of the tensors
  Table by_call_;   // by the paths of all arguments, the types of tensors, and host values
  Table by_names_;  // the same without host values
  // The paths of the host values of a graph. Most functions have one set, whatever the values are.
  std::set<std::vector<std::string>> host_paths_;
  bool has_other_form_[2] = {false, false};
};

// Whether `fits(graph)` is true for a graph of the function, in ascending order, up to the first.
// `candidates(index)` are the numbers of the graphs that may fit; without an index all may.
template <class Candidates, class Fits>
bool any_graph(const LoadedFunction& function, const Candidates& candidates, const Fits& fits) {
  if (function.index == nullptr) return std::ranges::any_of(function.graphs, fits);
  return std::ranges::any_of(candidates(*function.index),
                             [&](uint32_t number) { return fits(function.graphs[number]); });
}

}  // namespace etude::saved::internal
