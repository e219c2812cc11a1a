// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/formula.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "etude/graph/builder.h"
#include "etude/graph/check_call.h"
#include "etude/graph/text/names.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/onnx/emit.h"

namespace etude::onnx::internal {
namespace {

using Names = std::unordered_map<Value, Value>;

constexpr std::size_t kMostNodes = 10'000;  // of a formula in a file
constexpr std::size_t kMostText = 10'000;   // of a call in a file

// The names that a node reads, in graphs of its attributes too.
void add_reads(Node& node, std::unordered_set<Value>& to) {
  to.insert(node.inputs.begin(), node.inputs.end());
  for (GraphModel* inner : graphs_of(node)) {
    for (Node& each : inner->nodes) add_reads(each, to);
    for (const Port& port : inner->outputs) to.insert(port.name);
  }
}

void rename_values(Node& node, const Names& names) {
  const auto apply = [&](Value& value) {
    if (const auto found = names.find(value); found != names.end()) value = found->second;
  };
  for (Value& input : node.inputs) apply(input);
  for (Value& output : node.outputs) apply(output);
  for (GraphModel* inner : graphs_of(node)) {
    for (Node& each : inner->nodes) rename_values(each, names);
    for (Port& port : inner->outputs) apply(port.name);
  }
}

// The place of a value among the inputs or outputs of nodes.
template <class List>
std::optional<Place> place_of(const std::vector<Node>& nodes, const Value& value, List list) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<Value>& values = nodes[i].*list;
    const auto found = std::ranges::find(values, value);
    if (found != values.end()) return Place{i, static_cast<std::size_t>(found - values.begin())};
  }
  return std::nullopt;
}

// The places of a formula whose nodes are about to be written; none if an operand is not read.
std::optional<Places> places_of(const GraphModel& nodes, const std::vector<Value>& results) {
  Places out{nodes.nodes.size(), {}, {}};
  for (const Port& port : nodes.inputs) {
    const std::optional<Place> place = place_of(nodes.nodes, port.name, &Node::inputs);
    if (!place) return std::nullopt;
    out.operands.push_back(*place);
  }
  for (const Value& result : results) {
    if (result.empty()) {
      out.results.emplace_back();
      continue;
    }
    out.results.push_back(place_of(nodes.nodes, result, &Node::outputs));
    if (!out.results.back()) return std::nullopt;
  }
  return out;
}

// Renames values of the nodes, and moves the nodes to a graph.
void move_nodes(GraphModel& nodes, const Names& names, GraphModel& to) {
  for (Node& node : nodes.nodes) {
    rename_values(node, names);
    to.nodes.push_back(std::move(node));
  }
  std::ranges::move(nodes.constants, std::back_inserter(to.constants));
}

// Adds the nodes of a formula, for the results that are read.
void write_formula(const Node& node, GraphModel& to) {
  GraphModel nodes = node.formula->nodes;
  Names names;
  for (std::size_t i = 0; i < nodes.inputs.size(); ++i) {
    names[nodes.inputs[i].name] = node.inputs[i];
  }
  std::vector<bool> are_kept;
  std::vector<Value> results;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    are_kept.push_back(!node.outputs[i].empty());
    results.push_back(are_kept[i] ? nodes.outputs[i].name : "");
    if (are_kept[i]) names[results[i]] = node.outputs[i];
  }
  keep_outputs(nodes, are_kept);
  const std::optional<Places> places = places_of(nodes, results);
  if (places && !node.formula->text.empty()) {
    nodes.nodes[0].metadata = {{std::string(kCallKey), node.formula->text},
                               {std::string(kNodesKey), places_text(*places)}};
  }
  move_nodes(nodes, names, to);
}

}  // namespace

GraphRef graph_of_call(const Op& op, const Attrs& attrs, std::span<const Type* const> types,
                       CallSite where) {
  GraphBuilder build("call");
  std::vector<GraphBuilder::Draft> operands;
  std::size_t count = 0;
  for (const Type* type : types) {
    operands.push_back(type == nullptr ? GraphBuilder::kNoDraft
                                       : build.add_input(fmt::format("x{}", count++), type));
  }
  const auto [first, results] = build.append(op, attrs, operands, where);
  std::vector<GraphBuilder::Draft> outputs;
  for (uint32_t r = 0; r < results; ++r) outputs.push_back(first + r);
  return build.finish(outputs);
}

std::string call_text(const Graph& call) {
  const std::string text = to_text(call, {.call_sites = false});
  const std::size_t line = text.find("\n  %"), at = text.find(" = ", line) + 3;
  return text.substr(at, text.find('\n', at) - at);
}

GraphRef parse_call(const std::string& text, std::span<const Type* const> types) {
  // A call is one line, and has no program of its own.
  if (text.size() > kMostText || text.find_first_of("\n{#") != std::string::npos) return {};
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(fmt::format("x{}: {}", i, etude::internal::type_text(types[i])));
  }
  const auto graph_with = [&](std::string_view results) {
    return parse_graph(fmt::format("graph call({}) -> ()\n  {} = {}\n  return\n",
                                   fmt::join(inputs, ", "), results, text));
  };
  try {
    const Op& op = etude::internal::find_read_op(text.substr(0, text.find_first_of("(@")));
    std::vector<std::string> results;
    for (std::size_t r = 0; r < op.def().results.size(); ++r) {
      results.push_back(fmt::format("%r{}", r));
    }
    const GraphRef graph = graph_with(fmt::format("{}", fmt::join(results, ", ")));
    if (graph->size() != 1 || !graph->constants().empty()) return {};
    const Graph::Node node = graph->node(0);
    if (node.operands.size() != node.op.arity()) return {};
    std::vector<const Type*> listed;
    GraphValue next = 0;
    for (const GraphValue value : node.operands) {
      if (value != kNoValue && value != next) return {};  // operands in another order
      listed.push_back(value == kNoValue ? nullptr : types[next++]);
    }
    return next == types.size() ? graph_of_call(node.op, node.attrs, listed) : GraphRef();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return {};
  }
}

bool has_formula(const Op& op, const Conversion* conversion) {
  if (conversion != nullptr && conversion->is_formula) return true;
  return op.def().kind == Kind::kElementwise;
}

GraphModel nodes_of_call(Writing& writing, const Graph& call) {
  GraphModel out;
  std::vector<Value> inputs;
  for (const Graph::Input& input : call.inputs()) {
    out.inputs.push_back(port_of(input.name, input.type));
    inputs.push_back(input.name);
  }
  writing.is_in_formula = true;
  const std::vector<Value> results = emit_graph(writing, out, call, inputs);
  writing.is_in_formula = false;
  const Types types = call.output_types();
  for (std::size_t i = 0; i < results.size(); ++i) {
    out.outputs.push_back(port_of(results[i], types[i]));
  }
  return out;
}

void keep_outputs(GraphModel& nodes, const std::vector<bool>& are_kept) {
  std::vector<Port> outputs;
  std::unordered_set<Value> read;
  for (std::size_t i = 0; i < are_kept.size(); ++i) {
    if (!are_kept[i]) continue;
    outputs.push_back(nodes.outputs[i]);
    read.insert(nodes.outputs[i].name);
  }
  nodes.outputs = std::move(outputs);
  std::vector<Node> kept;
  for (auto node = nodes.nodes.rbegin(); node != nodes.nodes.rend(); ++node) {
    const bool is_read =
        std::ranges::any_of(node->outputs, [&](const Value& v) { return read.contains(v); });
    if (!is_read) continue;
    add_reads(*node, read);
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  nodes.nodes = std::move(kept);
  std::erase_if(nodes.constants, [&](const Constant& c) { return !read.contains(c.name); });
}

std::vector<Value> add_nodes(GraphModel nodes, const std::vector<Value>& inputs, GraphModel& to) {
  Names names;
  for (std::size_t i = 0; i < inputs.size(); ++i) names[nodes.inputs[i].name] = inputs[i];
  std::vector<Value> out;
  for (const Port& port : nodes.outputs) {
    const auto found = names.find(port.name);  // an operand is a result
    out.push_back(found == names.end() ? port.name : found->second);
  }
  move_nodes(nodes, names, to);
  return out;
}

std::string order_text(const std::vector<int64_t>& order) {
  return fmt::format("{}", fmt::join(order, " "));
}

std::optional<std::vector<int64_t>> parse_order(std::string_view text) {
  std::vector<int64_t> out;
  const char *at = text.data(), *const end = at + text.size();
  while (at != end && out.size() < static_cast<std::size_t>(kMaxRank)) {
    if (!out.empty() && *at++ != ' ') return std::nullopt;
    const auto read = std::from_chars(at, end, out.emplace_back());
    if (read.ec != std::errc()) return std::nullopt;
    at = read.ptr;
  }
  std::vector<int64_t> sorted = out;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return std::nullopt;
  }
  return at == end && !out.empty() ? std::optional(out) : std::nullopt;
}

std::string places_text(const Places& places) {
  std::vector<std::string> operands, results;
  const auto text = [](const Place& place) {
    return fmt::format("{}.{}", place.node, place.index);
  };
  for (const Place& place : places.operands) operands.push_back(text(place));
  for (const std::optional<Place>& place : places.results) {
    results.push_back(place ? text(*place) : "-");
  }
  return fmt::format("{}; {}; {}", places.nodes, fmt::join(operands, " "), fmt::join(results, " "));
}

std::optional<Places> parse_places(std::string_view text) {
  Places out;
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&](std::size_t& to) {
    const auto read = std::from_chars(at, end, to);
    at = read.ptr;
    return read.ec == std::errc();
  };
  const auto take = [&](char c) { return at != end && *at == c ? (++at, true) : false; };
  const auto place = [&](Place& to) {
    return number(to.node) && take('.') && number(to.index) && to.node < out.nodes;
  };
  if (!number(out.nodes) || out.nodes == 0 || out.nodes > kMostNodes || !take(';')) {
    return std::nullopt;
  }
  while (take(' ')) {
    if (at != end && *at == ';') break;  // no operands
    if (!place(out.operands.emplace_back())) return std::nullopt;
  }
  if (!take(';')) return std::nullopt;
  while (take(' ')) {
    std::optional<Place>& result = out.results.emplace_back();
    if (take('-')) continue;
    if (!place(result.emplace())) return std::nullopt;
  }
  return at == end ? std::optional(out) : std::nullopt;
}

void write_formulas(GraphModel& graph) {
  std::vector<Node> nodes;
  std::swap(nodes, graph.nodes);
  for (Node& node : nodes) {
    for (GraphModel* inner : graphs_of(node)) write_formulas(*inner);
    if (node.formula == nullptr) {
      graph.nodes.push_back(std::move(node));
    } else {
      write_formula(node, graph);
    }
  }
}

}  // namespace etude::onnx::internal
