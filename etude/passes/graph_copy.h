// SPDX-License-Identifier: Apache-2.0
// GraphCopy: how a pass makes its graph, node by node of the one that it reads. Not for cutting a
// graph in two: graph_derivatives.cc.
#pragma once

#include <span>
#include <vector>

#include "etude/base/function_ref.h"
#include "etude/core/call/values.h"
#include "etude/core/op/op.h"
#include "etude/graph/builder.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Starts with the inputs of `graph`. A value is known by its draft once its node was copied or
// set() was called; constants are copied when they are first asked for. `graph` must outlive it.
class GraphCopy {
 public:
  using Draft = GraphBuilder::Draft;

  explicit GraphCopy(const Graph& graph);

  GraphBuilder& build() { return build_; }
  const Graph& graph() const { return graph_; }
  // kNoDraft for kNoValue.
  Draft at(GraphValue value);
  // The operands of a node; valid until the next call.
  std::span<const Draft> operands(const Graph::Node& node);
  // The node as it is; gives its first result.
  Draft copy(const Graph::Node& node);
  // The same with other attributes.
  Draft copy(const Graph::Node& node, const Attrs& attrs);
  // The node once more: from here on its result `value` is that of the new one.
  void copy_again(const Graph::Node& node, GraphValue value);
  // Its first result by an op that takes its other ones too, and its attributes (OpDef::again).
  void copy_again_by(const Op& op, const Graph::Node& node);
  void set(GraphValue value, Draft draft) { drafts_[value] = draft; }
  // With all nodes, or with those alone that an output needs. The copy is empty afterwards.
  GraphRef finish(bool keep_all = true);

 private:
  Draft append(const Graph::Node& node, const Attrs& attrs);

  const Graph& graph_;
  GraphBuilder build_;
  std::vector<Draft> drafts_;  // by value
  std::vector<Draft> scratch_;
};

// Whether a node satisfies the condition: a pass that finds none has nothing to copy.
template <class Condition>
bool has_node(const Graph& graph, Condition&& condition) {
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (condition(graph.node(i))) return true;
  }
  return false;
}

// The attributes of a call with f(graph) in the place of each graph that it carries.
Attrs with_graphs(const Op& op, const Attrs& attrs, FunctionRef<GraphRef(const Graph&)> f);

// The types of the operands (null for an absent one) and of the results of node `node` of `graph`.
Types operand_types(const Graph& graph, const Graph::Node& node);
Types result_types(const Graph& graph, const Graph::Node& node);

}  // namespace etude::internal
