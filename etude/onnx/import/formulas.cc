// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/import/formulas.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>

#include "etude/core/context/context.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/names.h"
#include "etude/passes/graph_copy.h"

namespace etude::onnx::importing {
namespace {

using internal::Attribute;
using internal::Constant;
using internal::GraphModel;
using internal::Node;
using internal::Place;
using internal::Places;

// The names that a node reads, graphs in attributes included.
void add_reads(const FileNode& node, std::unordered_set<std::string>& to) {
  to.insert(node.inputs.begin(), node.inputs.end());
  for (const FileAttribute& attribute : node.attributes) {
    const auto* inner = std::get_if<std::shared_ptr<FileGraph>>(&attribute.value);
    if (inner == nullptr) continue;
    for (const FileNode& each : (*inner)->nodes) add_reads(each, to);
    for (const FilePort& port : (*inner)->outputs) to.insert(port.name);
  }
}

// The formula that begins at a node; none if its metadata does not fit to the graph.
std::optional<FileFormula> formula_at(const FileGraph& graph, std::size_t first,
                                      const std::vector<uint8_t>& is_needed) {
  const FileNode& head = graph.nodes[first];
  const std::optional<Places> places = internal::parse_places(head.call_nodes);
  if (!places || places->nodes > graph.nodes.size() - first) return std::nullopt;
  const std::span nodes(&graph.nodes[first], places->nodes);
  FileFormula out{{}, first, places->nodes};
  out.node.op = head.call.substr(0, head.call.find('('));
  out.node.call = head.call;
  out.node.name = head.name;
  out.node.doc = head.doc;
  const auto value_at = [&](const Place& place, auto list) {
    const std::vector<std::string>& values = nodes[place.node].*list;
    return place.index < values.size() ? values[place.index] : std::string();
  };
  for (const Place& place : places->operands) {
    out.node.inputs.push_back(value_at(place, &FileNode::inputs));
    if (out.node.inputs.back().empty()) return std::nullopt;
  }
  std::unordered_set<std::string> results;
  for (const std::optional<Place>& place : places->results) {
    out.node.outputs.push_back(place ? value_at(*place, &FileNode::outputs) : "");
    if (place && !results.insert(out.node.outputs.back()).second) return std::nullopt;
  }
  for (std::size_t i = first; i < first + places->nodes; ++i) {
    if (is_needed[i] == 0) return std::nullopt;
  }
  return out;
}

// Drops a formula if other nodes read more of it than its results.
void drop_read_inside(const FileGraph& graph, GraphFacts& facts) {
  std::unordered_map<std::string, std::size_t> owners;  // of inner values
  for (const auto& [first, formula] : facts.formulas) {
    const std::vector<std::string>& results = formula.node.outputs;
    for (std::size_t i = first; i < first + formula.count; ++i) {
      for (const std::string& value : graph.nodes[i].outputs) {
        if (std::ranges::find(results, value) == results.end()) owners.emplace(value, first);
      }
    }
  }
  const auto drop_owner = [&](const std::string& value, std::size_t node) {
    const auto found = owners.find(value);
    if (found == owners.end()) return;
    const auto formula = facts.formulas.find(found->second);
    if (formula == facts.formulas.end()) return;
    const std::size_t first = formula->first, end = first + formula->second.count;
    if (node < first || node >= end) facts.formulas.erase(formula);
  };
  if (owners.empty()) return;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    std::unordered_set<std::string> read;
    add_reads(graph.nodes[i], read);
    for (const std::string& value : read) drop_owner(value, i);
  }
  for (const FilePort& port : graph.outputs) drop_owner(port.name, graph.nodes.size());
}

float as_float(double value) { return static_cast<float>(value); }

// Compares the nodes of a call with nodes of a file. Names differ: each name of ours
// belongs to one name of the file.
class Matcher {
 public:
  Matcher(const Scope& scope) : scope_(scope) {}  // NOLINT(google-explicit-constructor)

  // Whether `ours` is a name for `theirs`.
  bool binds(const std::string& ours, const std::string& theirs) {
    return names_.emplace(ours, theirs).first->second == theirs;
  }

  bool has_nodes(const GraphModel& ours, std::span<const FileNode> theirs) {
    if (ours.nodes.size() != theirs.size()) return false;
    for (const Constant& constant : ours.constants) constants_.emplace(constant.name, &constant);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      if (!is_node(ours.nodes[i], theirs[i])) return false;
    }
    return true;
  }

 private:
  bool is_node(const Node& ours, const FileNode& theirs) {
    if (ours.op != theirs.op || !theirs.domain.empty()) return false;
    if (ours.inputs.size() != theirs.inputs.size()) return false;
    if (ours.outputs.size() != theirs.outputs.size()) return false;
    if (ours.attributes.size() != theirs.attributes.size()) return false;
    for (std::size_t i = 0; i < ours.inputs.size(); ++i) {
      const bool is_shape = ours.op == "Reshape" && i == 1;
      if (!is_value(ours.inputs[i], theirs.inputs[i], is_shape)) return false;
    }
    for (std::size_t i = 0; i < ours.outputs.size(); ++i) {
      if (!binds(ours.outputs[i], theirs.outputs[i])) return false;
    }
    return std::ranges::all_of(ours.attributes, [&](const Attribute& attribute) {
      const auto found = std::ranges::find(theirs.attributes, attribute.name, &FileAttribute::name);
      return found != theirs.attributes.end() && is_attribute(attribute, *found);
    });
  }

  bool is_value(const std::string& ours, const std::string& theirs, bool is_shape) {
    if (ours.empty() || theirs.empty()) return ours.empty() && theirs.empty();
    const auto constant = constants_.find(ours);
    if (constant == constants_.end()) return binds(ours, theirs);
    const Tensor& want = constant->second->value;
    const Tensor got = known(theirs);
    return got.has_value() && (internal::is_same(got, want) || (is_shape && is_open(got, want)));
  }

  // The elements of a constant of the file, or of a value that is known when the model is loaded.
  Tensor known(const std::string& name) const {
    for (auto graph = inner_.rbegin(); graph != inner_.rend(); ++graph) {
      const auto found = std::ranges::find((*graph)->constants, name, &FileConstant::name);
      if (found != (*graph)->constants.end()) return found->value;
    }
    const Value* const value = scope_.find(name);
    return value != nullptr && !value->traced.has_value() ? value->known : Tensor();
  }

  // Whether a shape of a Reshape is another with a size that the runtime computes.
  static bool is_open(const Tensor& got, const Tensor& want) {
    if (got.type() != want.type() || got.dtype() != kInt64) return false;
    const BottomScope at_once(eager_context());
    const auto a = got.to_vector<int64_t>(), b = want.to_vector<int64_t>();
    return std::ranges::equal(a, b, [](int64_t x, int64_t y) { return x == y || x == -1; });
  }

  bool is_attribute(const Attribute& ours, const FileAttribute& theirs) {
    if (!theirs.refusal.empty()) return false;
    if (const auto* real = std::get_if<double>(&ours.value)) {
      const auto* got = std::get_if<double>(&theirs.value);
      return got != nullptr && as_float(*got) == as_float(*real);
    }
    if (const auto* graph = std::get_if<std::shared_ptr<GraphModel>>(&ours.value)) {
      const auto* got = std::get_if<std::shared_ptr<FileGraph>>(&theirs.value);
      return got != nullptr && is_graph(**graph, **got);
    }
    return has<int64_t>(ours, theirs) || has<std::string>(ours, theirs) ||
           has<std::vector<int64_t>>(ours, theirs);
  }
  template <class T>
  static bool has(const Attribute& ours, const FileAttribute& theirs) {
    const T *want = std::get_if<T>(&ours.value), *got = std::get_if<T>(&theirs.value);
    return want != nullptr && got != nullptr && *want == *got;
  }

  bool is_graph(const GraphModel& ours, const FileGraph& theirs) {
    if (ours.inputs.size() != theirs.inputs.size()) return false;
    if (ours.outputs.size() != theirs.outputs.size()) return false;
    for (std::size_t i = 0; i < ours.inputs.size(); ++i) {
      if (!binds(ours.inputs[i].name, theirs.inputs[i].name)) return false;
    }
    inner_.push_back(&theirs);
    const bool fits = has_nodes(ours, theirs.nodes);
    inner_.pop_back();
    if (!fits) return false;
    for (std::size_t i = 0; i < ours.outputs.size(); ++i) {
      if (!binds(ours.outputs[i].name, theirs.outputs[i].name)) return false;
    }
    return true;
  }

  const Scope& scope_;
  std::unordered_map<std::string, std::string> names_;
  std::unordered_map<std::string, const Constant*> constants_;
  std::vector<const FileGraph*> inner_;
};

}  // namespace

GraphFacts facts_of(const FileGraph& graph) {
  GraphFacts out;
  out.is_needed.resize(graph.nodes.size());
  std::unordered_set<std::string> names;
  for (const FilePort& port : graph.outputs) names.insert(port.name);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const FileNode& node = graph.nodes[i];
    const bool is_needed = std::ranges::any_of(node.outputs, [&](const std::string& name) {
      return !name.empty() && names.contains(name);
    });
    if (!is_needed) continue;
    out.is_needed[i] = 1;
    add_reads(node, names);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].call.empty()) continue;
    std::optional<FileFormula> formula = formula_at(graph, i, out.is_needed);
    if (!formula) continue;
    const std::size_t count = formula->count;
    out.formulas.emplace(i, std::move(*formula));
    i += count - 1;
  }
  drop_read_inside(graph, out);
  return out;
}

std::vector<std::string> names_read(const FileGraph& graph) {
  const GraphFacts facts = facts_of(graph);
  std::unordered_set<std::string> out;
  for (const FilePort& port : graph.outputs) out.insert(port.name);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (facts.is_needed[i] != 0) add_reads(graph.nodes[i], out);
  }
  return {out.begin(), out.end()};
}

GraphRef call_of(const FileFormula& formula, const FileGraph& graph, const Scope& scope,
                 int64_t opset, int64_t most_bytes) {
  std::vector<const Type*> types;
  for (const std::string& name : formula.node.inputs) {
    const Value* const value = scope.find(name);
    if (value == nullptr || !value->has_value()) return {};
    types.push_back(value->tensor().type());
  }
  const GraphRef call = internal::parse_call(formula.node.call, types);
  if (!call || call->outputs().size() != formula.node.outputs.size()) return {};
  const Graph::Node node = call->node(0);
  const Types operands = etude::internal::operand_types(*call, node);
  const internal::Conversion* const conversion =
      internal::find_conversion(node.op, {operands.data(), operands.size()}, node.attrs, opset);
  if (!internal::has_formula(node.op, conversion)) return {};
  try {
    internal::Writing writing{.opset = opset, .most_bytes = most_bytes};
    GraphModel ours = internal::nodes_of_call(writing, *call);
    std::vector<bool> are_kept;
    for (const std::string& output : formula.node.outputs) are_kept.push_back(!output.empty());
    std::vector<std::string> results;
    for (std::size_t i = 0; i < are_kept.size(); ++i) results.push_back(ours.outputs[i].name);
    internal::keep_outputs(ours, are_kept);
    Matcher matcher(scope);
    for (std::size_t i = 0; i < formula.node.inputs.size(); ++i) {
      if (!matcher.binds(ours.inputs[i].name, formula.node.inputs[i])) return {};
    }
    for (std::size_t i = 0; i < are_kept.size(); ++i) {
      if (are_kept[i] && !matcher.binds(results[i], formula.node.outputs[i])) return {};
    }
    const bool fits =
        matcher.has_nodes(ours, std::span(&graph.nodes[formula.first], formula.count));
    return fits ? call : GraphRef();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return {};
  }
}

}  // namespace etude::onnx::importing
