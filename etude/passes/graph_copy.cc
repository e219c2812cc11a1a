// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/graph_copy.h"

namespace etude::internal {

Attrs with_graphs(const Op& op, const Attrs& attrs, FunctionRef<GraphRef(const Graph&)> f) {
  using Object = RefPtr<const AttrObject>;
  std::vector<AttrValue> values(attrs.values().begin(), attrs.values().end());
  const auto replace = [&](Object& object) {
    const auto* graph = dynamic_cast<const Graph*>(object.get());
    if (graph != nullptr) object = Object(f(*graph));
  };
  for (AttrValue& value : values) {
    if (auto* one = std::get_if<Object>(&value)) replace(*one);
    if (auto* list = std::get_if<std::vector<Object>>(&value)) {
      for (Object& each : *list) replace(each);
    }
  }
  return op.attrs(std::span<const AttrValue>(values));
}

Types operand_types(const Graph& graph, const Graph::Node& node) {
  Types out;
  for (const GraphValue v : node.operands) out.push_back(v == kNoValue ? nullptr : graph.type(v));
  return out;
}

Types result_types(const Graph& graph, const Graph::Node& node) {
  Types out;
  for (uint32_t r = 0; r < node.results; ++r) out.push_back(graph.type(node.first_result + r));
  return out;
}

GraphCopy::GraphCopy(const Graph& graph)
    : graph_(graph), build_(graph.name()), drafts_(graph.value_count(), GraphBuilder::kNoDraft) {
  build_.keep_texts_of(graph);
  for (const Graph::Frame& frame : graph.frames()) build_.add_frame(frame);
  for (GraphValue v = 0; v < graph.first_constant(); ++v) {
    const Graph::Input& input = graph.inputs()[v];
    drafts_[v] = build_.add_input(input.name, input.type, input.role);
  }
}

GraphCopy::Draft GraphCopy::at(GraphValue value) {
  if (value == kNoValue) return GraphBuilder::kNoDraft;
  Draft& draft = drafts_[value];
  if (draft == GraphBuilder::kNoDraft && graph_.is_constant(value)) {
    draft = build_.add_constant(graph_.constants()[value - graph_.first_constant()]);
  }
  return draft;
}

std::span<const GraphCopy::Draft> GraphCopy::operands(const Graph::Node& node) {
  scratch_.clear();
  for (const GraphValue v : node.operands) scratch_.push_back(at(v));
  return scratch_;
}

GraphCopy::Draft GraphCopy::copy(const Graph::Node& node) { return copy(node, node.attrs); }

GraphCopy::Draft GraphCopy::copy(const Graph::Node& node, const Attrs& attrs) {
  const Draft first = append(node, attrs);
  for (uint32_t r = 0; r < node.results; ++r) drafts_[node.first_result + r] = first + r;
  return first;
}

void GraphCopy::copy_again(const Graph::Node& node, GraphValue value) {
  drafts_[value] = append(node, node.attrs) + (value - node.first_result);
}

void GraphCopy::copy_again_by(const Op& op, const Graph::Node& node) {
  std::vector<Draft> given(operands(node).begin(), operands(node).end());
  for (uint32_t r = 1; r < node.results; ++r) given.push_back(at(node.first_result + r));
  build_.set_frame(node.frame);
  drafts_[node.first_result] = build_.add_node(op, op.attrs(node.attrs.values()), given,
                                               {graph_.type(node.first_result)}, node.where);
}

GraphCopy::Draft GraphCopy::append(const Graph::Node& node, const Attrs& attrs) {
  build_.set_frame(node.frame);
  return build_.add_node(node.op, attrs, operands(node), result_types(graph_, node), node.where);
}

GraphRef GraphCopy::finish(bool keep_all) {
  std::vector<Draft> outputs;
  for (const GraphValue v : graph_.outputs()) outputs.push_back(at(v));
  return build_.finish(outputs, keep_all);
}

}  // namespace etude::internal
