// SPDX-License-Identifier: Apache-2.0
// What a family consists of, and how it is found. For family.cc and compare_graphs.cc.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "etude/graph/family.h"
#include "etude/graph/size_formula.h"

namespace etude::internal {

// The numbers that differ, in order of their places in the first graph; all else is as there.
class FamilyParts {
 public:
  struct TypeSpot {
    GraphValue value;
    int axis;
    SizeNumber size;  // of a result it may be without formulas: the type rules give it
  };
  struct ConstantSpot {
    std::size_t constant;
    int64_t element;
    std::variant<SizeNumber, RealNumber> number;
  };
  struct AttrSpot {
    std::size_t node, attr, element;  // the element of a list; 0 elsewhere
    std::variant<SizeNumber, RealNumber> number;
  };
  struct InnerSpot {  // an attribute that is a graph, or an element of a list of graphs
    std::size_t node, attr, element;
    std::shared_ptr<const FamilyParts> inner;
  };

  std::vector<GraphRef> graphs;
  std::vector<Family::Size> sizes;
  std::vector<TypeSpot> types;
  std::vector<ConstantSpot> constants;
  std::vector<AttrSpot> attrs;
  std::vector<InnerSpot> inner;

  const Graph& first() const { return *graphs.front(); }
};

// Fills in all but `graphs`, `sizes`: what the graphs differ in, explained by `points`. Gives what
// cannot be explained; "" if all can.
std::string compare_graphs(FamilyParts& parts, const SizePoints& points);

}  // namespace etude::internal
