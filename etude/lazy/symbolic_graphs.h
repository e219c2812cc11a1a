// SPDX-License-Identifier: Apache-2.0
// Symbolic graphs of segments: one program for segments that differ only in sizes
// (graph/symbolic_graph.h). A segment of further sizes needs a plan of its own, but no pass and no
// code generation, since kernels take sizes as arguments.
//
// Two symbolic graphs are found from the same segments: one from the graphs as recorded, one from
// the graphs after the passes. They serve a segment of other sizes if
// * the first symbolic graph at its sizes equals the segment: attributes, types and constants are
//   compared. The recorded graph is decisive; formulas only determine the sizes at which the second
//   symbolic graph is valid;
// * each number that differs in the second symbolic graph has a counterpart in the first: a number
//   that differs (or a size of a type) with the same values in all graphs. Both then have the same
//   formulas, and the number is known from the recorded segment. So no pass may compute a new
//   number from sizes: constants are not folded here.
// If a pass treats two numbers as equal, it does so in all graphs of the symbolic graph. Both then
// have the same formula, and are equal in the segment as well.
//
// Repeated calls become loops before the passes (passes/roll.h), unless the loops of graphs differ.
//
// A size need not be the size of an input: in ones({n}) it is an attribute. If graphs agree in the
// sizes of their inputs, such attributes become inputs, and only their types matter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/graph/symbolic_graph.h"

namespace etude::internal {

// Segments that agree except for sizes, stored as graphs before any pass. Not thread-safe: used
// under the lock of LazyPrograms.
class LazySymbolicGraph {
 public:
  // `words`: the common part of all its segments.
  explicit LazySymbolicGraph(std::vector<uint64_t> words) : words_(std::move(words)) {}

  const std::vector<uint64_t>& words() const noexcept { return words_; }
  // The graph to plan for `graph`, a recorded segment; null if this symbolic graph does not serve
  // it. It may have further inputs after the inputs of `graph`, which no node reads.
  GraphRef serve(const GraphRef& graph) const;
  // Adds the graph of a segment without a program, and tries to find a program for all sizes.
  // Returns the graph of that program for this segment, or null. cost: passes of all its graphs.
  GraphRef extend(const GraphRef& graph);

 private:
  static constexpr std::size_t kMostGraphs = 4;  // compared with each other
  static constexpr int kMostFailures = 2;        // after which the search ends
  bool find(const std::vector<GraphRef>& graphs);
  // Runs the passes on `starts`, which compute the same values as `graphs`.
  bool find(const std::vector<GraphRef>& graphs, const std::vector<GraphRef>& starts,
            const char* without);

  std::vector<uint64_t> words_;
  std::vector<GraphRef> graphs_;
  SymbolicGraphRef recorded_, passed_;  // both or none
  bool has_size_inputs_ = false;        // of these two
  int failures_ = 0;
};

}  // namespace etude::internal
