// SPDX-License-Identifier: Apache-2.0
// Liveness analysis: the lifetimes of the values of a graph whose nodes run in order. Passes that
// choose between graphs use it to estimate the memory of a plan (plan/planner.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "etude/graph/graph.h"

namespace etude::internal {

// Values in the same memory are grouped by their root; the others are views of the root. `graph`
// must outlive it.
struct Lifetimes {
  static constexpr uint32_t kNone = ~uint32_t{0};  // not made by a node: an input or a constant

  explicit Lifetimes(const Graph& graph);

  // By step: the bytes of all live values, without inputs, constants and outputs.
  std::vector<int64_t> live_bytes() const;
  int64_t most_bytes() const;
  bool is_view(GraphValue v) const { return root[v] != v; }
  int64_t bytes(GraphValue v) const;
  // Whether the value is placed in the arena of a plan.
  bool is_placed(GraphValue v) const { return maker[v] != kNone && !is_output[v]; }

  const Graph& graph;
  std::vector<GraphValue> root;  // by value
  std::vector<uint32_t> maker;   // by value: the node
  // For roots:
  std::vector<uint32_t> last;  // the last node that reads or makes it
  std::vector<bool> is_output;

 private:
  bool is_written_over(std::size_t i, const Graph::Node& node) const;
};

}  // namespace etude::internal
