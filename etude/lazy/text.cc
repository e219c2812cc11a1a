// SPDX-License-Identifier: Apache-2.0
// The pending calls of a thread as the text of a graph.
#include <unordered_map>

#include "etude/graph/builder.h"
#include "etude/graph/text/print.h"
#include "etude/lazy/trace.h"

namespace etude::internal {
namespace {

// Puts nodes into a graph and leaves them as they are.
class PendingGraph {
 public:
  void add(const LazyNode& node) {
    std::vector<Draft> operands;
    for (const LazyOperand& operand : node.operands) operands.push_back(number(operand));
    Types types;
    for (const LazyResult& r : node.results) types.push_back(r.type);
    const Draft first = builder_.add_node(*node.op, node.attrs, operands, types, node.where);
    first_.emplace(&node, first);
    for (uint32_t r = 0; r < node.results.size(); ++r) {
      if (node.results[r].marks != nullptr) outputs_.push_back(first + r);
    }
  }

  GraphRef finish() { return builder_.finish(outputs_); }

 private:
  using Draft = GraphBuilder::Draft;

  Draft number(const LazyOperand& operand) {
    if (operand.node != nullptr) {
      const auto known = first_.find(operand.node);
      if (known != first_.end()) return known->second + operand.result;
      const LazyResult& result = operand.node->results[operand.result];
      return result.value.has_value() ? input(result.value) : fresh(result.type);
    }
    if (!operand.value.has_value()) return GraphBuilder::kNoDraft;
    return operand.is_number ? builder_.add_constant(operand.value) : input(operand.value);
  }

  Draft input(const Tensor& x) {
    const auto known = inputs_.find(TensorAccess::rep(x));
    if (known != inputs_.end()) return known->second;
    return inputs_[TensorAccess::rep(x)] = fresh(x.type());
  }

  Draft fresh(const Type* type) { return builder_.add_input("x" + std::to_string(count_++), type); }

  GraphBuilder builder_{"pending"};
  std::unordered_map<const LazyNode*, Draft> first_;
  std::unordered_map<const TensorRep*, Draft> inputs_;
  std::vector<Draft> outputs_;
  std::size_t count_ = 0;
};

}  // namespace

std::string LazyTrace::to_text() {
  PendingGraph graph;
  GraphRef made;
  {
    const Lock lock(mutex_);
    for (const LazyNode* n = first_; n != nullptr; n = n->next) graph.add(*n);
    made = graph.finish();
  }
  return etude::to_text(*made);
}

}  // namespace etude::internal
