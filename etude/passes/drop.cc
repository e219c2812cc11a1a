// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/drop.h"

#include "etude/passes/graph_copy.h"

namespace etude::internal {

GraphRef drop_dead_nodes(const Graph& graph) {
  GraphCopy copy(graph);
  for (std::size_t i = 0; i < graph.size(); ++i) copy.copy(graph.node(i));
  GraphRef kept = copy.finish(false);
  const bool is_same =
      kept->size() == graph.size() && kept->constants().size() == graph.constants().size();
  return is_same ? GraphRef(&graph) : kept;
}

}  // namespace etude::internal
