// SPDX-License-Identifier: Apache-2.0
// Draws a graph as HTML: its rows with the lines between them (graph_layout.h). Used by
// inspect_html.h.
#pragma once

#include <string>
#include <vector>

#include "etude/graph/graph.h"
#include "tools/etude/stored.h"

namespace etude::tools {

struct DrawnGraph {
  const Graph* graph = nullptr;
  std::vector<GraphInput> inputs = {};
  std::vector<std::string> outputs = {};  // "" for an output without a path
  std::vector<std::string> types = {};    // by value: "float32[n,10]"
  std::vector<double> micros = {};        // by node; empty: not measured
  std::string id = {};                    // begins the names of its anchors
};

// The graph, and after it the graphs in attributes of its calls.
std::string graph_html(const DrawnGraph& drawn);

// The types of all values; of a symbolic graph with its formulas.
std::vector<std::string> type_texts(const Graph& graph, const SymbolicGraph* symbolic);

}  // namespace etude::tools
