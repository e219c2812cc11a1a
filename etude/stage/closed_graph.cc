// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/closed_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/stage/make_graph.h"

namespace etude {

GraphRef closed_graph(const Graph& graph, std::span<const Tensor> captures) {
  std::vector<Graph::Input> open;
  std::size_t count = 0;
  for (const Graph::Input& input : graph.inputs()) {
    if (input.role != InputRole::kCapture) {
      open.push_back(input);
      continue;
    }
    ETUDE_REQUIRE(count == captures.size() || captures[count].type() == input.type,
                  "capture {} of graph '{}', '{}', is {}, but {} was given. Give the captures of "
                  "the trace that made it",
                  count, graph.name(), input.name, input.type->to_string(),
                  captures[count].type()->to_string());
    count += count < captures.size() ? 1 : 0;
  }
  const auto wanted = graph.inputs().size() - open.size();
  ETUDE_REQUIRE(captures.size() == wanted,
                "graph '{}' has {} captures, but {} were given. Give the captures of the trace "
                "that made it",
                graph.name(), wanted, captures.size());
  return internal::make_graph(graph.name(), open, [&](std::span<const Tensor> in) {
    std::vector<Tensor> all(in.begin(), in.end());  // captures are the last inputs
    all.insert(all.end(), captures.begin(), captures.end());
    return interpret(graph, all);
  });
}

SymbolicGraphRef closed_symbolic_graph(const SymbolicGraph& symbolic,
                                       std::span<const Tensor> captures) {
  std::vector<GraphRef> closed;
  for (const GraphRef& graph : symbolic.graphs()) closed.push_back(closed_graph(*graph, captures));
  SymbolicFound found = SymbolicGraph::of(closed);
  ETUDE_CHECK(found.symbolic, "graphs of a symbolic graph with one set of captures are none: {}",
              found.difference);
  return std::move(found.symbolic);
}

}  // namespace etude
