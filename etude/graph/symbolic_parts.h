// SPDX-License-Identifier: Apache-2.0
// The parts of a symbolic graph, and the search for them. For symbolic_graph.cc and
// compare_graphs.cc.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "etude/graph/size_formula.h"
#include "etude/graph/symbolic_graph.h"

namespace etude::internal {

// The numbers that differ, in order of their positions in the first graph; everything else is as in
// that graph.
class SymbolicParts {
 public:
  struct TypeSpot {
    GraphValue value;
    int axis;
    SizeNumber size;  // for a result possibly without formulas: the type rules compute it
  };
  struct ConstantSpot {
    std::size_t constant;
    int64_t element;
    std::variant<SizeNumber, RealNumber> number;
  };
  struct AttrSpot {
    std::size_t node, attr, element;  // index in a list; 0 otherwise
    std::variant<SizeNumber, RealNumber> number;
  };
  struct InnerSpot {  // a graph attribute, or an element of a list of graphs
    std::size_t node, attr, element;
    std::shared_ptr<const SymbolicParts> inner;
  };

  std::vector<GraphRef> graphs;
  std::vector<SymbolicGraph::Size> sizes;
  std::vector<TypeSpot> types;
  std::vector<ConstantSpot> constants;
  std::vector<AttrSpot> attrs;
  std::vector<InnerSpot> inner;

  const Graph& first() const { return *graphs.front(); }
};

// Fills in everything except `graphs` and `sizes`: the differences between the graphs, explained by
// `points`. Returns a difference that cannot be explained; "" if there is none.
std::string compare_graphs(SymbolicParts& parts, const SizePoints& points);

}  // namespace etude::internal
