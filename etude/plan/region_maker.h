// SPDX-License-Identifier: Apache-2.0
// Finds what of a graph can be regions (region.h), and makes them. Used by plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/plan/region.h"

namespace etude::internal {

// How many carried values and rows the graph of a loop's step takes, and how its rows run.
struct LoopShape {
  std::size_t carried = 0, rows = 0;
  bool is_reverse = false;
};

// confined to the thread that made it; graph and calls outlive it.
class RegionMaker {
 public:
  // The calls of the nodes, made ready.
  RegionMaker(const Graph& graph, std::span<const RefPtr<Prepared>> calls);

  struct Range {
    std::size_t first, last;  // nodes [first, last)
  };
  // Runs of nodes that can be regions, as long as they get, of two calls at least.
  std::vector<Range> ranges() const;

  // Why a node is of none of them, for people.
  std::string why_not(std::size_t node) const;
  bool is_view(std::size_t node) const { return calls_[node]->view_of >= 0; }

  // Where operand o of a node lies, and its result; operand -1 is the result.
  using SlotOf = std::function<uint32_t(std::size_t node, int operand)>;
  // A range as a region that reads and writes where the steps of its nodes do.
  Region region_of(const Range& range, const SlotOf& slot_of) const;

  // The whole graph as the steps of a loop: none where that cannot be. Its slots are the elements
  // of the inputs, those of the outputs, and the constants, one behind the other.
  std::optional<Region> loop_of(const LoopShape& loop) const;

 private:
  // The bytes that a value shows: `count` elements of `root` from `first` on.
  struct Shown {
    GraphValue root;
    int64_t first, count;
    auto operator<=>(const Shown&) const = default;
  };
  class Draft;

  void tell(std::size_t node);
  void find_shown();
  std::size_t work_of(std::size_t node) const;

  const Graph& graph_;
  std::span<const RefPtr<Prepared>> calls_;
  std::vector<std::optional<SmallCall>> told_;  // by node
  std::vector<std::optional<Shown>> shown_;     // by value; none: too many elements, another dtype
  std::vector<std::size_t> last_read_;          // by root: the last node that reads it
};

}  // namespace etude::internal
