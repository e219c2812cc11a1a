// SPDX-License-Identifier: Apache-2.0
// GraphCopy: builds the result of a pass node by node from its input graph. graph_derivatives.cc
// cuts a graph in two.
#pragma once

#include <span>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/core/call/values.h"
#include "etude/core/op/op.h"
#include "etude/graph/builder.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Starts with the inputs of `graph`. A value has a draft once its node was copied or set() was
// called; constants are copied on first use. `graph` must outlive it.
class GraphCopy {
 public:
  using Draft = GraphBuilder::Draft;

  explicit GraphCopy(const Graph& graph);

  GraphBuilder& build() { return build_; }
  const Graph& graph() const { return graph_; }
  // The draft of a value; kNoDraft for kNoValue.
  Draft at(GraphValue value);
  // The operands of a node; valid until the next call.
  std::span<const Draft> operands(const Graph::Node& node);
  // Copies the node unchanged; returns its first result.
  Draft copy(const Graph::Node& node);
  // The same with other attributes.
  Draft copy(const Graph::Node& node, const Attrs& attrs);
  // Copies the node again: from here on its result `value` is the result of the copy.
  void copy_again(const Graph::Node& node, GraphValue value);
  // Recomputes the first result of the node with `op` and the attributes of the node. `op` also
  // takes the other results (OpDef::again).
  void copy_again_by(const Op& op, const Graph::Node& node);
  void set(GraphValue value, Draft draft) { drafts_[value] = draft; }
  // Finishes with all nodes, or only with nodes that an output needs. The copy is empty afterwards.
  GraphRef finish(bool keep_all = true);

 private:
  Draft append(const Graph::Node& node, const Attrs& attrs);

  const Graph& graph_;
  GraphBuilder build_;
  std::vector<Draft> drafts_;  // by value
  std::vector<Draft> scratch_;
};

// Whether any node satisfies the condition. If not, a pass can return the same graph.
template <class Condition>
bool has_node(const Graph& graph, Condition&& condition) {
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (condition(graph.node(i))) return true;
  }
  return false;
}

// The attributes of a call, with each graph in them replaced by f(graph).
Attrs with_graphs(const Op& op, const Attrs& attrs, FunctionRef<GraphRef(const Graph&)> f);

// The types of the operands (null for an absent operand) and of the results of a node.
Types operand_types(const Graph& graph, const Graph::Node& node);
Types result_types(const Graph& graph, const Graph::Node& node);

}  // namespace etude::internal
