// SPDX-License-Identifier: Apache-2.0
// Finds the parts of a graph that can be clusters (cluster.h), and makes them. Used by plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/plan/cluster.h"

namespace etude::internal {

// The numbers of carried values and rows of a loop's step graph, and the direction of its rows.
struct LoopShape {
  std::size_t carried = 0, rows = 0;
  bool is_reverse = false;
};

// threads: confined to the thread that made it; graph and calls must outlive this object.
class ClusterMaker {
 public:
  // The prepared calls of the nodes.
  ClusterMaker(const Graph& graph, std::span<const RefPtr<Prepared>> calls);

  struct Range {
    std::size_t first, last;  // nodes [first, last)
  };
  // The maximal sequences of at least two nodes that can be clusters. No sequence crosses a border,
  // since other steps may run before a border.
  std::vector<Range> ranges(const std::set<std::size_t>& borders) const;

  // The reason, as text for people, why a node is in no range.
  std::string why_not(std::size_t node) const;
  bool is_view(std::size_t node) const { return calls_[node]->view_of >= 0; }

  // The slot of operand o of a node; operand -1 is the result.
  using SlotOf = std::function<uint32_t(std::size_t node, int operand)>;
  // Makes the cluster of a range. It reads and writes the places of the steps of its nodes.
  Cluster cluster_of(const Range& range, const SlotOf& slot_of) const;

  // The whole graph as the steps of a loop; std::nullopt if that is impossible. Its slots are the
  // elements of the inputs, of the outputs, and the constants, in this order.
  std::optional<Cluster> loop_of(const LoopShape& loop) const;

 private:
  // The elements that a value views: `count` elements of `root` from `first` on.
  struct Shown {
    GraphValue root;
    int64_t first, count;
    auto operator<=>(const Shown&) const = default;
  };
  class Draft;

  void describe(std::size_t node);
  void find_shown();
  std::size_t work_of(std::size_t node) const;

  const Graph& graph_;
  std::span<const RefPtr<Prepared>> calls_;
  std::vector<std::optional<SmallCall>> described_;  // by node
  std::vector<std::optional<Shown>> shown_;          // by value; none: too large, or another dtype
  std::vector<std::size_t> last_read_;               // by root: its last reader
};

}  // namespace etude::internal
