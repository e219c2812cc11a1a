// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/builder.h"

#include <algorithm>
#include <unordered_set>

#include "etude/base/check.h"
#include "etude/base/internal/hash.h"
#include "etude/core/call/located.h"
#include "etude/core/context/context.h"
#include "etude/core/op/op.h"

namespace etude {
namespace {

uint64_t call_hash(const Op& op, const Attrs& attrs, std::span<const uint32_t> operands) {
  uint64_t h = internal::mix(op.index(), attrs.hash());
  for (const uint32_t operand : operands) h = internal::mix(h, operand);
  return h;
}

using Draft = GraphBuilder::Draft;

// The operands of a node. Operands that the list leaves out at the end are absent.
class FullOperands {
 public:
  FullOperands(const Op& op, std::span<const Draft> given) : view_(given) {
    const std::size_t count = internal::full_count(op, given.size());
    if (count == given.size()) return;
    for (std::size_t i = 0; i < count; ++i) {
      filled_.push_back(i < given.size() ? given[i] : GraphBuilder::kNoDraft);
    }
    view_ = {filled_.data(), filled_.size()};
  }
  FullOperands(const FullOperands&) = delete;
  FullOperands& operator=(const FullOperands&) = delete;

  std::span<const Draft> view() const { return view_; }

 private:
  internal::InlineVector<Draft, 6> filled_;
  std::span<const Draft> view_;
};

}  // namespace

struct Graph::Texts {
  std::unordered_set<std::string> places;
};

GraphBuilder::GraphBuilder(std::string name) : name_(std::move(name)) {}
GraphBuilder::GraphBuilder(GraphBuilder&& other) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&& other) noexcept = default;
GraphBuilder::~GraphBuilder() = default;

GraphBuilder::Draft GraphBuilder::add_input(std::string name, const Type* type, InputRole role) {
  values_.push_back({type, Origin::kInput, static_cast<uint32_t>(inputs_.size())});
  inputs_.push_back({std::move(name), type, role});
  return static_cast<Draft>(values_.size() - 1);
}

GraphBuilder::Draft GraphBuilder::add_constant(Tensor value) {
  values_.push_back({value.type(), Origin::kConstant, static_cast<uint32_t>(constants_.size())});
  constants_.push_back(std::move(value));
  return static_cast<Draft>(values_.size() - 1);
}

void GraphBuilder::drop_input(Draft input) {
  Value& v = values_[input];
  ETUDE_CHECK(v.origin == Origin::kInput, "value {} of a graph is no input", input);
  inputs_[v.index].type = nullptr;  // left out by finish()
  v = {};
}

void GraphBuilder::make_constant(Draft input, Tensor value) {
  Value& v = values_[input];
  ETUDE_CHECK(v.origin == Origin::kInput, "value {} of a graph is no input", input);
  inputs_[v.index].type = nullptr;  // left out by finish()
  v.origin = Origin::kConstant;
  v.index = static_cast<uint32_t>(constants_.size());
  constants_.push_back(std::move(value));
}

const char* GraphBuilder::keep_text(std::string_view text) {
  if (texts_ == nullptr) texts_ = std::make_shared<Graph::Texts>();
  return texts_->places.emplace(text).first->c_str();
}

void GraphBuilder::keep_texts_of(const Graph& graph) {
  for (const auto& texts : graph.texts_) {
    if (std::ranges::find(other_texts_, texts) == other_texts_.end()) other_texts_.push_back(texts);
  }
}

uint32_t GraphBuilder::add_frame(Graph::Frame frame) {
  frames_.push_back(std::move(frame));
  return static_cast<uint32_t>(frames_.size() - 1);
}

GraphBuilder::Made GraphBuilder::maker(Draft value) const {
  const Value& v = values_[value];
  if (v.origin != Origin::kResult) return {};
  const Node& node = nodes_[v.index];
  return {node.op, &node.attrs, operands_of(node)};
}

const Tensor* GraphBuilder::constant(Draft value) const {
  const Value& v = values_[value];
  return v.origin == Origin::kConstant ? &constants_[v.index] : nullptr;
}

GraphBuilder::Results GraphBuilder::append(const Op& op, const Attrs& attrs,
                                           std::span<const Draft> given, CallSite where) {
  const FullOperands full(op, given);
  const std::span<const Draft> operands = full.view();
  internal::InlineVector<const Type*, 6> types;
  for (const Draft operand : operands) {
    types.push_back(operand == kNoDraft ? nullptr : values_[operand].type);
  }
  const Types results = infer_types(op, {types.data(), types.size()}, attrs);
  for (const Type* type : results) {
    ETUDE_REQUIRE_CODE(
        kUnimplemented, type == nullptr || type->count() != kAny,
        "returns {}, with a size that depends on data, which graphs do not support yet. "
        "Use where() or a mask of the full size instead",
        type->to_string());
  }
  return {add_node(op, attrs, operands, results, where), static_cast<uint32_t>(results.size())};
}

GraphBuilder::Draft GraphBuilder::add_node(const Op& op, const Attrs& attrs,
                                           std::span<const Draft> given, const Types& results,
                                           CallSite where) {
  const FullOperands full(op, given);
  const std::span<const Draft> operands = full.view();
  const bool has_effects = internal::has_effects(op, attrs);
  const bool merges = merges_ && !has_effects;
  const uint64_t hash = merges ? call_hash(op, attrs, operands) : 0;
  if (merges) {
    if (const Node* known = find(hash, op, attrs, operands)) return known->first_result;
  }
  const auto node = static_cast<uint32_t>(nodes_.size());
  const auto first = static_cast<Draft>(values_.size());
  nodes_.push_back({&op, attrs, where, static_cast<uint32_t>(operands_.size()),
                    static_cast<uint32_t>(operands.size()), first,
                    static_cast<uint32_t>(results.size()), frame_, has_effects});
  effects_ += has_effects ? 1 : 0;
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  for (const Type* type : results) values_.push_back({type, Origin::kResult, node, where});
  if (merges) known_.emplace(hash, node);
  return first;
}

const GraphBuilder::Node* GraphBuilder::find(uint64_t hash, const Op& op, const Attrs& attrs,
                                             std::span<const Draft> operands) const {
  const auto [begin, end] = known_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const Node& node = nodes_[at->second];
    if (node.op == &op && std::ranges::equal(operands_of(node), operands) && node.attrs == attrs) {
      return &node;
    }
  }
  return nullptr;
}

std::vector<bool> GraphBuilder::find_needed(std::span<const Draft> outputs, bool keep_all) const {
  std::vector<bool> needed(values_.size());
  for (const Draft output : outputs) {
    if (output != kNoDraft) needed[output] = true;
  }
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    bool is_needed = keep_all || node.has_effects;
    for (uint32_t r = 0; r < node.results; ++r) {
      is_needed = is_needed || needed[node.first_result + r];
    }
    if (!is_needed) continue;
    for (uint32_t r = 0; r < node.results; ++r) needed[node.first_result + r] = true;
    for (const Draft operand : operands_of(node)) {
      if (operand != kNoDraft) needed[operand] = true;
    }
  }
  return needed;
}

GraphRef GraphBuilder::finish(std::span<const Draft> outputs, bool keep_all) {
  const std::vector<bool> needed = find_needed(outputs, keep_all);
  auto* graph = new Graph;
  const GraphRef made(graph);
  std::vector<GraphValue> numbers(values_.size(), kNoValue);
  const auto number = [&](std::size_t draft) {
    numbers[draft] = static_cast<GraphValue>(graph->types_.size());
    graph->types_.push_back(values_[draft].type);
  };
  for (const InputRole role :
       {InputRole::kArgument, InputRole::kKey, InputRole::kVariable, InputRole::kCapture}) {
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (values_[v].origin != Origin::kInput || inputs_[values_[v].index].role != role) continue;
      number(v);
      graph->inputs_.push_back(std::move(inputs_[values_[v].index]));
    }
  }
  for (std::size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].origin != Origin::kConstant || !needed[v]) continue;
    number(v);
    graph->constants_.push_back(std::move(constants_[values_[v].index]));
  }
  const auto numbered = [&](Draft draft) { return draft == kNoDraft ? kNoValue : numbers[draft]; };
  uint64_t hash = internal::mix(graph->inputs_.size(), graph->constants_.size());
  for (Node& node : nodes_) {
    const bool is_needed = node.has_effects || (node.results > 0 && needed[node.first_result]);
    if (!keep_all && !is_needed) continue;
    graph->has_effects_ = graph->has_effects_ || node.has_effects;
    const auto first_operand = static_cast<uint32_t>(graph->operands_.size());
    for (const Draft operand : operands_of(node)) graph->operands_.push_back(numbered(operand));
    const auto first_result = static_cast<GraphValue>(graph->types_.size());
    for (uint32_t r = 0; r < node.results; ++r) number(node.first_result + r);
    graph->nodes_.push_back(
        {node.op, first_operand, node.operands, first_result, node.results, node.frame});
    const std::span<const GraphValue> in(graph->operands_.data() + first_operand, node.operands);
    hash = internal::mix(hash, call_hash(*node.op, node.attrs, in));
    graph->attrs_.push_back(std::move(node.attrs));
    graph->where_.push_back(node.where);
  }
  for (const Draft output : outputs) {
    graph->outputs_.push_back(numbered(output));
    hash = internal::mix(hash, graph->outputs_.back());
  }
  for (std::size_t i = 0; i < graph->first_result(); ++i) {
    hash = internal::mix(hash, graph->types_[i]->id());
  }
  graph->hash_ = hash;
  graph->name_ = std::move(name_);
  graph->frames_ = std::move(frames_);
  graph->texts_ = std::move(other_texts_);
  if (texts_ != nullptr) graph->texts_.push_back(std::move(texts_));
  *this = GraphBuilder("");
  return made;
}

}  // namespace etude
