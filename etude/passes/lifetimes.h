// SPDX-License-Identifier: Apache-2.0
// Liveness analysis: when the values of a graph are alive while its nodes run in their order: an
// estimate of what a plan (plan/planner.cc) will need, for passes that choose between graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "etude/graph/graph.h"

namespace etude::internal {

// Values that lie in the same memory are one, known by its root: the value that all others are
// views of. `graph` must outlive it.
struct Lifetimes {
  static constexpr uint32_t kNone = ~uint32_t{0};  // no node made it: an input or a constant

  explicit Lifetimes(const Graph& graph);

  // By step: the bytes of all values that are alive then, without those of inputs, constants and
  // outputs.
  std::vector<int64_t> live_bytes() const;
  int64_t most_bytes() const;
  bool is_view(GraphValue v) const { return root[v] != v; }
  int64_t bytes(GraphValue v) const;
  // Whether its memory is part of the arena of a plan.
  bool is_placed(GraphValue v) const { return maker[v] != kNone && !is_output[v]; }

  const Graph& graph;
  std::vector<GraphValue> root;  // by value
  std::vector<uint32_t> maker;   // by value: the node
  // Of roots:
  std::vector<uint32_t> last;  // the last node that reads it, or that made it
  std::vector<bool> is_output;

 private:
  bool is_written_over(std::size_t i, const Graph::Node& node) const;
};

}  // namespace etude::internal
