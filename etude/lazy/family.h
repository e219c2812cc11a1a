// SPDX-License-Identifier: Apache-2.0
// Families of segments: one program for segments that differ in sizes only (graph/family.h). A
// segment of further sizes needs a plan of its own, but no pass runs for it and no code is made,
// since kernels take sizes as arguments.
//
// Two families stand side by side, found from the same segments: of the graphs as recorded, and of
// those that the passes made of them. A segment of other sizes is served if
// * the first family at its sizes is the segment: the same attributes, types and constants, each
//   compared. What was recorded is the truth, formulas only say what the second family may do;
// * each number that differs in the second family is one that differs in the first (or a size of a
//   type there), with the same values in all graphs. Then the formulas for both are the same ones,
//   and the number is what the recorded segment has. So no pass has computed a number of its own
//   from sizes: constants are not folded here.
// A pass that takes two numbers for equal does so in all graphs of the family; then they have the
// same formulas, and are equal in the segment as well.
//
// Repeated calls become loops before the passes (passes/roll.h), unless the loops of graphs differ.
//
// A size may come from no input: ones({n}) has it as an attribute. Where graphs agree in the sizes
// of their inputs, such attributes become inputs, of which only the type matters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "etude/graph/family.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Segments that agree but for sizes, as their graphs before any pass. Not thread-safe: under the
// lock of the programs.
class LazyFamily {
 public:
  // `words`: what all its segments have in common.
  explicit LazyFamily(std::vector<uint64_t> words) : words_(std::move(words)) {}

  const std::vector<uint64_t>& words() const noexcept { return words_; }
  // The graph to plan for `graph`, a segment as recorded; null if this family does not serve it. It
  // may have further inputs behind those of `graph`, which no node reads.
  GraphRef serve(const GraphRef& graph) const;
  // Takes the graph of a segment in, which has no program yet, and looks whether one serves all
  // sizes from now on: gives its graph for this one, or null. cost: passes of all its graphs.
  GraphRef extend(const GraphRef& graph);

 private:
  static constexpr std::size_t kMostGraphs = 4;  // compared with each other
  static constexpr int kMostFailures = 2;        // after which nothing is sought any more
  bool find(const std::vector<GraphRef>& graphs);
  // By passes of `starts`, which compute what the graphs do.
  bool find(const std::vector<GraphRef>& graphs, const std::vector<GraphRef>& starts,
            const char* without);

  std::vector<uint64_t> words_;
  std::vector<GraphRef> graphs_;
  FamilyRef recorded_, passed_;   // both or none
  bool has_size_inputs_ = false;  // of these two
  int failures_ = 0;
};

}  // namespace etude::internal
