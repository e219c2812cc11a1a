// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/graph.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/op/op.h"

namespace etude {

// Not in the header: a span of a vector costs a compiler 20 ms for each element type.
std::span<const Graph::Input> Graph::inputs() const noexcept { return inputs_; }
std::span<const Tensor> Graph::constants() const noexcept { return constants_; }
std::span<const GraphValue> Graph::outputs() const noexcept { return outputs_; }
std::span<const Graph::Frame> Graph::frames() const noexcept { return frames_; }

Graph::Node Graph::node(std::size_t i) const noexcept {
  const NodeData& data = nodes_[i];
  return {*data.op,          attrs_[i],
          where_[i],         {operands_.data() + data.first_operand, data.operands},
          data.first_result, data.results,
          data.frame};
}

Types Graph::output_types() const {
  Types out;
  for (const GraphValue output : outputs_) {
    out.push_back(output == kNoValue ? nullptr : types_[output]);
  }
  return out;
}

bool Graph::same(const AttrObject& other) const noexcept {
  if (this == &other) return true;
  const auto* graph = dynamic_cast<const Graph*>(&other);
  if (graph == nullptr || hash_ != graph->hash_) return false;
  const auto same_input = [](const Input& a, const Input& b) {
    return a.type == b.type && a.role == b.role;
  };
  const auto same_node = [](const NodeData& a, const NodeData& b) {
    return a.op == b.op && a.operands == b.operands && a.results == b.results;
  };
  return std::ranges::equal(inputs_, graph->inputs_, same_input) &&
         std::ranges::equal(nodes_, graph->nodes_, same_node) && operands_ == graph->operands_ &&
         types_ == graph->types_ && outputs_ == graph->outputs_ && attrs_ == graph->attrs_ &&
         std::ranges::equal(constants_, graph->constants_, same_value);
}

std::string Graph::to_string() const { return "@" + name_; }

internal::RefPtr<const internal::RefCounted> Graph::find_kept(std::string_view what) const {
  const std::lock_guard lock(kept_mutex_);
  const auto found = kept_.find(what);
  return found != kept_.end() ? found->second : internal::RefPtr<const internal::RefCounted>();
}

internal::RefPtr<const internal::RefCounted> Graph::keep(
    std::string_view what, internal::RefPtr<const internal::RefCounted> made) const {
  const std::lock_guard lock(kept_mutex_);
  return kept_.try_emplace(std::string(what), std::move(made)).first->second;
}

bool internal::has_effects(const Op& op, const Attrs& attrs) {
  if (op.def().effect == Effect::kOutside) return true;
  const auto is_effectful = [](const RefPtr<const AttrObject>& object) {
    const auto* graph = dynamic_cast<const Graph*>(object.get());
    return graph != nullptr && graph->has_effects();
  };
  return std::ranges::any_of(attrs.values(), [&](const AttrValue& value) {
    if (const auto* one = std::get_if<RefPtr<const AttrObject>>(&value)) return is_effectful(*one);
    const auto* list = std::get_if<std::vector<RefPtr<const AttrObject>>>(&value);
    return list != nullptr && std::ranges::any_of(*list, is_effectful);
  });
}

void internal::require_inputs(const Graph& graph, std::span<const Type* const> given) {
  const auto wanted = graph.inputs();
  ETUDE_REQUIRE(given.size() == wanted.size(), "graph '{}' has {} inputs, but {} were given",
                graph.name(), wanted.size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    ETUDE_REQUIRE(given[i] == wanted[i].type, "input '{}' of graph '{}' is {}, but {} was given",
                  wanted[i].name, graph.name(), wanted[i].type->to_string(),
                  given[i] != nullptr ? given[i]->to_string() : "nothing");
  }
}

std::size_t internal::first_output(const Graph& graph, std::size_t i, std::size_t begin) {
  while (graph.outputs()[begin] != graph.outputs()[i]) ++begin;
  return begin;
}

void internal::share_values(const Graph& graph, Operands operands, std::span<Tensor> results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const GraphValue v = graph.outputs()[i];
    if (v == kNoValue) continue;
    if (v >= graph.inputs().size()) {
      const std::size_t at = first_output(graph, i);
      if (at != i) results[i] = results[at];
    } else if (!TensorAccess::is_sparse(operands[v])) {
      results[i] = operands[v];
    }
  }
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs) {
  const OperandList list(inputs);
  return interpret(graph, list.view());
}

std::vector<Tensor> interpret(const Graph& graph, Operands inputs) {
  std::vector<const Type*> types;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    types.push_back(inputs.has(i) ? inputs[i].type() : nullptr);
  }
  internal::require_inputs(graph, types);
  std::vector<Tensor> values(graph.value_count());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[i] = inputs[i];
  std::ranges::copy(graph.constants(), values.begin() + graph.first_constant());
  // Values are released after their last reader.
  std::vector<std::size_t> last_use(graph.value_count(), graph.size());
  for (std::size_t i = graph.size(); i-- > 0;) {
    for (const GraphValue v : graph.node(i).operands) {
      if (v != kNoValue && last_use[v] == graph.size()) last_use[v] = i;
    }
  }
  for (const GraphValue v : graph.outputs()) {
    if (v != kNoValue) last_use[v] = graph.size() + 1;
  }
  const Tensor absent;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    OperandList in;
    for (const GraphValue v : node.operands) in.add(v == kNoValue ? absent : values[v]);
    Values out = execute(node.op, in.view(), node.attrs, node.where);
    ETUDE_CHECK(out.size() == node.results, "{} gave {} results instead of {}", node.op.name(),
                out.size(), node.results);
    for (const GraphValue v : node.operands) {
      if (v != kNoValue && last_use[v] == i) values[v].reset();
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      if (last_use[node.first_result + r] == graph.size()) continue;  // it has no readers
      values[node.first_result + r] = std::move(out[r]);
    }
  }
  std::vector<Tensor> out;
  for (const GraphValue v : graph.outputs()) out.push_back(v == kNoValue ? absent : values[v]);
  return out;
}

}  // namespace etude
