// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/emit.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/internal/host_door.h"
#include "etude/onnx/formula.h"
#include "etude/onnx/onnx.h"
#include "etude/onnx/recognise.h"
#include "etude/passes/drop.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/inline.h"
#include "etude/passes/lower.h"

namespace etude::onnx::internal {
namespace {

using etude::internal::located;

[[noreturn]] void refuse_call(const Op& op, std::span<const Type* const> types, const Attrs& attrs,
                              int64_t opset) {
  std::vector<std::string> texts;
  for (const Type* type : types) {
    if (type != nullptr) texts.push_back(type->to_string());
  }
  int64_t newer = opset;
  while (newer <= SaveOptions::kNewestOpset && !find_conversion(op, types, attrs, newer)) ++newer;
  const bool needs_newer = newer > opset && newer <= SaveOptions::kNewestOpset;
  std::string advice =
      "Export a function without this call, and make the call outside of the model";
  if (needs_newer) advice = fmt::format("Set SaveOptions::opset to {}", newer);
  if (op.full_name() == "internal.while_loop") {
    advice =
        "The gradient of a while_loop has no operator. Export a function without this gradient";
  }
  ETUDE_THROW(kUnimplemented, "{} of ({}) has no form in ONNX opset {}. {}", op.full_name(),
              fmt::join(texts, ", "), opset, advice);
}

// The graph with only calls that have conversions or formulas. Graphs in attributes are prepared
// when their call is emitted.
GraphRef prepare(const Writing& writing, const Graph& graph) {
  const GraphRef inlined = etude::internal::inline_calls(graph);
  const GraphRef needed = etude::internal::drop_dead_nodes(*inlined);
  const auto has_form = [&](const Op& op, std::span<const Type* const> types, const Attrs& attrs) {
    const Conversion* const conversion = find_conversion(op, types, attrs, writing.opset);
    if (conversion != nullptr) return true;
    if (!etude::internal::has_lowering(op)) refuse_call(op, types, attrs, writing.opset);
    return !writing.is_in_formula && has_formula(op, nullptr);
  };
  const GraphRef lowered = etude::internal::lower_to(*needed, has_form);
  return etude::internal::drop_dead_nodes(*lowered);
}

std::string line_of(CallSite where) {
  return where.known() ? fmt::format("{}:{}", where.file, where.line) : "";
}

class Emitter {
 public:
  Emitter(Writing& writing, GraphModel& to, const Graph& graph)
      : writing_(writing), to_(to), graph_(graph), values_(graph.value_count()) {}

  std::vector<Value> emit(const std::vector<Value>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) values_[i] = inputs[i];
    // The nodes of a formula are not grouped: an import compares them with the nodes of its call.
    std::unordered_map<std::size_t, Group> groups;
    if (!writing_.is_in_formula) groups = recognise(graph_, writing_.opset);
    std::unordered_set<std::size_t> replaced;
    for (const auto& [root, group] : groups) {
      replaced.insert(group.nodes.begin() + 1, group.nodes.end());
    }
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      if (replaced.contains(i)) continue;
      const Graph::Node node = graph_.node(i);
      const auto group = groups.find(i);
      located(node.op, node.where, [&] {
        if (group == groups.end()) {
          emit_node(node);
        } else {
          emit_group(node, group->second);
        }
      });
    }
    std::vector<Value> out;
    for (const GraphValue v : graph_.outputs()) out.push_back(v == kNoValue ? "" : value(v));
    return out;
  }

 private:
  const Value& value(GraphValue v) {
    if (values_[v].empty()) {  // a constant
      values_[v] = writing_.fresh("constant");
      const Tensor& x = graph_.constants()[v - graph_.first_constant()];
      to_.constants.push_back({values_[v], to_dense(etude::internal::at_home(x))});
    }
    return values_[v];
  }

  void emit_node(const Graph::Node& node) {
    const Types types = etude::internal::operand_types(graph_, node);
    const std::span<const Type* const> in(types.data(), types.size());
    const Conversion* const conversion = find_conversion(node.op, in, node.attrs, writing_.opset);
    const Types made = etude::internal::result_types(graph_, node);
    const bool is_real =
        std::ranges::none_of(made, [](const Type* t) { return is_complex(t->dtype()); });
    const bool is_formula = !writing_.is_in_formula && has_formula(node.op, conversion);
    if (!is_real || (conversion == nullptr && !is_formula)) {
      refuse_call(node.op, in, node.attrs, writing_.opset);
    }
    if (is_formula) {
      emit_formula(node, in, conversion != nullptr && conversion->is_formula);
      return;
    }
    Call call(writing_, to_, node.op, node.attrs, in, made, line_of(node.where));
    std::vector<Term> inputs;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i] == nullptr) {
        inputs.push_back(call.absent());
        continue;
      }
      const Term given{&call, value(node.operands[i]), in[i]->dtype()};
      const bool is_shared = node.op.operand(i).dtypes.empty();
      inputs.push_back(is_shared ? call.cast(given, *working_dtype(*conversion, given.dtype))
                                 : given);
    }
    call.set_inputs(inputs);
    const std::vector<Term> results = conversion->write != nullptr
                                          ? conversion->write(call)
                                          : std::vector{call.node(conversion->node, inputs)};
    ETUDE_CHECK(results.size() == node.results, "the conversion of {} has {} results, not {}",
                node.op.full_name(), results.size(), node.results);
    for (uint32_t r = 0; r < node.results; ++r) {
      const Term result = call.cast(results[r], graph_.type(node.first_result + r)->dtype());
      values_[node.first_result + r] = result.name;
    }
  }

  // Adds the call or the operator of a group, in place of the last call of the group.
  void emit_group(const Graph::Node& last, const Group& group) {
    if (group.composition != nullptr) {
      emit_node({*group.composition, group.attrs, last.where, group.operands, last.first_result, 1,
                 last.frame});
      return;
    }
    const Types types = etude::internal::operand_types(graph_, last);
    Call call(writing_, to_, last.op, last.attrs, {types.data(), types.size()},
              etude::internal::result_types(graph_, last), line_of(last.where));
    const DType dtype = graph_.type(last.first_result)->dtype();
    std::vector<Term> inputs;
    for (const FoundOperator::Operand& operand : group.found.operands) {
      inputs.push_back(operand.value == kNoValue ? call.number(operand.number, dtype)
                                                 : Term{&call, value(operand.value), dtype});
    }
    values_[last.first_result] = call.node(group.found.op, inputs, group.found.attributes).name;
  }

  // Adds a call as a node with a formula, or as its nodes if they need no formula.
  void emit_formula(const Graph::Node& node, std::span<const Type* const> types, bool is_needed) {
    auto formula = std::make_shared<Formula>();
    formula->call = graph_of_call(node.op, node.attrs, types, node.where);
    formula->nodes = nodes_of_call(writing_, *formula->call);
    formula->is_elementwise = node.op.def().kind == Kind::kElementwise;
    std::vector<Value> inputs;
    for (const GraphValue operand : node.operands) {
      if (operand != kNoValue) inputs.push_back(value(operand));
    }
    GraphModel& nodes = formula->nodes;
    const bool is_one = nodes.nodes.size() > 1 || is_needed;
    if (is_one && has_own_results(nodes)) {
      formula->text = call_text(*formula->call);
      Node made{std::string(node.op.name()), writing_.fresh(node.op.name()), "", inputs, {}, {}};
      for (const Port& port : nodes.outputs) made.outputs.push_back(port.name);
      made.formula = std::move(formula);
      made.doc = line_of(node.where);
      for (uint32_t r = 0; r < node.results; ++r) {
        values_[node.first_result + r] = made.outputs[r];
      }
      to_.nodes.push_back(std::move(made));
      return;
    }
    const std::vector<Value> results = add_nodes(std::move(nodes), inputs, to_);
    for (uint32_t r = 0; r < node.results; ++r) values_[node.first_result + r] = results[r];
  }

  // Whether each result is a result of a node, and of no other node.
  static bool has_own_results(const GraphModel& nodes) {
    std::set<Value> made;
    for (const Node& node : nodes.nodes) made.insert(node.outputs.begin(), node.outputs.end());
    return std::ranges::all_of(nodes.outputs,
                               [&](const Port& port) { return made.erase(port.name) == 1; });
  }

  Writing& writing_;
  GraphModel& to_;
  const Graph& graph_;
  std::vector<Value> values_;
};

}  // namespace

std::vector<Value> emit_graph(Writing& writing, GraphModel& to, const Graph& graph,
                              const std::vector<Value>& inputs) {
  const GraphRef prepared = prepare(writing, graph);
  return Emitter(writing, to, *prepared).emit(inputs);
}

}  // namespace etude::onnx::internal
