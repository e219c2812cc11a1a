// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/hoist.h"

#include <algorithm>
#include <vector>

#include "etude/passes/facts.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/inline.h"

namespace etude::internal {
namespace {

using Draft = GraphBuilder::Draft;

bool is_loop(const Graph::Node& node) { return node.op.def().loop.facts != nullptr; }

// A graph that runs in steps, and the nodes to be hoisted out of it.
class Step {
 public:
  // The last `facts.fixed` inputs are equal in all steps.
  Step(GraphRef graph, const LoopFacts& facts)
      : graph_(std::move(graph)), roles_(graph_->size()), is_needed_(graph_->value_count()) {
    find_leaving(facts);
    find_hoisted();
  }

  // The hoisted values that remaining nodes read.
  const std::vector<GraphValue>& hoisted() const { return hoisted_; }
  const Graph& graph() const { return *graph_; }

  // A graph with the same inputs that computes the hoisted values.
  GraphRef outside() const {
    GraphCopy copy(*graph_);
    for (std::size_t i = 0; i < graph_->size(); ++i) {
      if (roles_[i] != Role::kStays) copy.copy(graph_->node(i));
    }
    std::vector<Draft> outputs;
    for (const GraphValue v : hoisted_) outputs.push_back(copy.at(v));
    return copy.build().finish(outputs);
  }
  // The remaining graph, with additional inputs of these types; the hoisted values are the inputs
  // from `first` on.
  GraphRef inside(std::span<const Type* const> further, std::size_t first) const {
    GraphCopy copy(*graph_);
    const auto inputs = graph_->inputs();
    const InputRole role = inputs.empty() ? InputRole::kArgument : inputs.back().role;
    for (std::size_t k = 0; k < further.size(); ++k) {
      const Draft input = copy.build().add_input("same", further[k], role);
      if (k >= first && k - first < hoisted_.size()) copy.set(hoisted_[k - first], input);
    }
    for (std::size_t i = 0; i < graph_->size(); ++i) {
      const Graph::Node node = graph_->node(i);
      if (is_read_inside(i, node)) copy.copy(node);
    }
    return copy.finish();
  }

 private:
  // A view is free, so it is made in both graphs.
  enum class Role : uint8_t { kStays, kLeaves, kLeavesAsView };

  void find_leaving(const LoopFacts& facts) {
    std::vector<bool> is_same(graph_->value_count());
    for (GraphValue v = 0; v < graph_->first_result(); ++v) {
      is_same[v] = v + facts.fixed >= graph_->inputs().size();
    }
    const auto same = [&](GraphValue v) { return v == kNoValue || is_same[v]; };
    for (std::size_t i = 0; i < graph_->size(); ++i) {
      const Graph::Node node = graph_->node(i);
      if (node.operands.empty() || !std::ranges::all_of(node.operands, same)) continue;
      if (facts.least_steps == 0 && !is_cheap(node.op)) continue;
      if (!takes_all_elements(*graph_, node)) continue;
      roles_[i] = viewed_operand(*graph_, node) >= 0 ? Role::kLeavesAsView : Role::kLeaves;
      for (uint32_t r = 0; r < node.results; ++r) is_same[node.first_result + r] = true;
    }
  }

  bool is_read_inside(std::size_t i, const Graph::Node& node) const {
    return roles_[i] == Role::kStays ||
           (roles_[i] == Role::kLeavesAsView && is_needed_[node.first_result]);
  }
  void find_hoisted() {
    for (const GraphValue v : graph_->outputs()) {
      if (v != kNoValue) is_needed_[v] = true;
    }
    for (std::size_t i = graph_->size(); i-- > 0;) {
      const Graph::Node node = graph_->node(i);
      if (is_read_inside(i, node)) {
        for (const GraphValue v : node.operands) {
          if (v != kNoValue) is_needed_[v] = true;
        }
      }
      for (uint32_t r = 0; r < node.results; ++r) {
        const GraphValue v = node.first_result + r;
        if (roles_[i] == Role::kLeaves && is_needed_[v]) hoisted_.push_back(v);
      }
    }
    std::ranges::sort(hoisted_);
  }

  GraphRef graph_;
  std::vector<Role> roles_;      // by node
  std::vector<bool> is_needed_;  // by value: read by remaining nodes, or an output
  std::vector<GraphValue> hoisted_;
};

// A loop, in the graph that contains it.
class Loop {
 public:
  explicit Loop(const Graph::Node& node)
      : node_(node),
        values_(node.attrs.values().begin(), node.attrs.values().end()),
        facts_(node.op.def().loop.facts(node.operands.size(), node.attrs)) {
    each_graph([&](AttrObjectRef& object) {
      const auto& graph = dynamic_cast<const Graph&>(*object);
      steps_.emplace_back(hoist_invariants(graph), facts_);  // of loops in it first
      object = AttrObjectRef(&steps_.back().graph());
    });
  }

  void copy_to(GraphCopy& copy) {
    const auto own = copy.operands(node_);
    std::vector<Draft> operands(own.begin(), own.end());
    std::vector<const Type*> types;
    std::vector<std::size_t> first;
    for (const Step& step : steps_) {
      first.push_back(types.size());
      if (step.hoisted().empty()) continue;
      for (const Draft hoisted : hoist(copy, step, operands)) {
        types.push_back(copy.build().type(hoisted));
        further_.push_back(hoisted);
      }
    }
    operands.insert(operands.end(), further_.begin(), further_.end());
    std::size_t next = 0;
    if (!types.empty()) {
      each_graph([&](AttrObjectRef& object) {
        object = AttrObjectRef(steps_[next].inside(types, first[next]).get());
        ++next;
      });
    }
    copy.build().set_frame(node_.frame);
    const Draft made =
        copy.build().add_node(node_.op, node_.op.attrs(std::span<const AttrValue>(values_)),
                              operands, result_types(copy.graph(), node_), node_.where);
    for (uint32_t r = 0; r < node_.results; ++r) copy.set(node_.first_result + r, made + r);
  }

 private:
  using AttrObjectRef = RefPtr<const AttrObject>;

  template <class F>
  void each_graph(const F& f) {
    const OpDef& def = node_.op.def();
    for (const std::string_view name : def.loop.graphs) {
      const auto at = std::ranges::find(def.attrs, name, &AttrDef::name) - def.attrs.begin();
      AttrValue& value = values_[static_cast<std::size_t>(at)];
      if (auto* one = std::get_if<AttrObjectRef>(&value)) f(*one);
      if (auto* list = std::get_if<std::vector<AttrObjectRef>>(&value)) {
        for (AttrObjectRef& each : *list) f(each);
      }
    }
  }

  // The hoisted values of a step, computed from the operands that are equal in all steps.
  std::vector<Draft> hoist(GraphCopy& copy, const Step& step,
                           std::span<const Draft> operands) const {
    std::vector<Draft> inputs(step.graph().inputs().size(), GraphBuilder::kNoDraft);
    const auto fixed = operands.last(facts_.fixed);
    std::ranges::copy(fixed, inputs.end() - static_cast<std::ptrdiff_t>(fixed.size()));
    return splice(copy.build(), *step.outside(), inputs, node_.where, node_.frame);
  }

  const Graph::Node node_;
  std::vector<AttrValue> values_;
  const LoopFacts facts_;
  std::vector<Step> steps_;
  std::vector<Draft> further_;
};

}  // namespace

GraphRef hoist_invariants(const Graph& graph) {
  if (!has_node(graph, is_loop)) return GraphRef(&graph);
  GraphCopy copy(graph);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    if (is_loop(node)) {
      Loop(node).copy_to(copy);
    } else {
      copy.copy(node);
    }
  }
  GraphRef out = copy.finish();
  return out->same(graph) ? GraphRef(&graph) : out;
}

}  // namespace etude::internal
