// SPDX-License-Identifier: Apache-2.0
// Parses attributes of calls in the text of graphs, for parse.cc.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "etude/core/op/op.h"
#include "etude/files/read_budget.h"
#include "etude/graph/graph.h"
#include "etude/graph/text/text_reader.h"

namespace etude::internal {

// A graph to which other graphs may refer, and the number of graph levels below it.
struct SubGraph {
  GraphRef graph;
  int depth;
};
using SubGraphs = std::map<std::string, SubGraph, std::less<>>;  // by spelling, "@body"

// Parses an attribute value of the kind in the record. Raises `depth` to at least one more than the
// depth of a referenced graph, up to the limit of the budget.
AttrValue read_attr(TextReader& in, const AttrDef& def, const SubGraphs& graphs, int& depth,
                    ReadBudget& budget);

}  // namespace etude::internal
