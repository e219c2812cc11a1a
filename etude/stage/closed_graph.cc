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

FamilyRef closed_family(const Family& family, std::span<const Tensor> captures) {
  std::vector<GraphRef> closed;
  for (const GraphRef& graph : family.graphs()) closed.push_back(closed_graph(*graph, captures));
  FamilyFound found = Family::of(closed);
  ETUDE_CHECK(found.family, "graphs of a family with one set of captures are none: {}",
              found.difference);
  return std::move(found.family);
}

}  // namespace etude
