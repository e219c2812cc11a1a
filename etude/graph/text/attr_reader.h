// SPDX-License-Identifier: Apache-2.0
// Attributes of calls in texts of graphs, for parse.cc.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "etude/core/op/op.h"
#include "etude/graph/graph.h"
#include "etude/graph/text/text_reader.h"

namespace etude::internal {

// A graph that others may refer to, and how many levels of graphs are below it.
struct SubGraph {
  GraphRef graph;
  int depth;
};
using SubGraphs = std::map<std::string, SubGraph, std::less<>>;  // by spelling, "@body"

// The value that stands here, of the kind that the record says. `depth` becomes at least one more
// than that of a graph which is read.
AttrValue read_attr(TextReader& in, const AttrDef& def, const SubGraphs& graphs, int& depth);

}  // namespace etude::internal
