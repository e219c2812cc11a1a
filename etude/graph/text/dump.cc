// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/dump.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "etude/core/op/exact_text.h"
#include "etude/graph/text/constant_text.h"
#include "etude/graph/text/names.h"

namespace etude {
namespace {

using internal::GraphList;
using Json = nlohmann::ordered_json;

// ---- Graphviz

constexpr std::string_view kDotStyle =
    "  graph [fontname=\"Helvetica\", fontsize=11, rankdir=TB, tooltip=\" \"];\n"
    "  node [fontname=\"Helvetica\", fontsize=11, shape=box, style=\"rounded,filled\", "
    "color=\"#5b7db1\", fillcolor=\"#edf3fc\"];\n"
    "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#808080\", fontcolor=\"#606060\"];\n";

// A quoted DOT text: line ends become \n, other characters are unchanged.
std::string dot_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out + '"';
}

std::string_view role_style(InputRole role) {
  switch (role) {
    case InputRole::kCapture:
      return "shape=ellipse, style=\"filled,dashed\", color=\"#8a6d3b\", fillcolor=\"#fdf3dc\"";
    case InputRole::kVariable:
      return "shape=cylinder, style=filled, color=\"#3b6e8a\", fillcolor=\"#e3f1f8\"";
    case InputRole::kKey:
      return "shape=hexagon, style=filled, color=\"#8e5ba6\", fillcolor=\"#f5eafa\"";
    case InputRole::kArgument:
      break;
  }
  return "shape=ellipse, style=filled, color=\"#4c8c5b\", fillcolor=\"#e7f5ea\"";
}

// One graph; all its names begin with its number in the list.
class DotGraph {
 public:
  DotGraph(const GraphList& graphs, std::size_t number)
      : graph_(*graphs.graphs()[number]),
        graphs_(graphs),
        prefix_(fmt::format("g{}", number)),
        values_(internal::value_names(graph_)),
        givers_(graph_.value_count()) {}

  std::string print(std::string_view indent) {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      add_source(static_cast<GraphValue>(i), values_[i], role_style(graph_.inputs()[i].role));
    }
    for (GraphValue v = graph_.first_constant(); v < graph_.first_result(); ++v) {
      const Tensor& value = graph_.constants()[v - graph_.first_constant()];
      add_source(v, internal::constant_text(value, true),
                 "shape=note, style=filled, color=\"#999999\", fillcolor=\"#f7f7f7\"");
    }
    for (std::size_t i = 0; i < graph_.size(); ++i) add_node(i);
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) add_output(i);
    std::string text;
    for (const std::string& line : lines_) text += fmt::format("{}{}\n", indent, line);
    return text;
  }

 private:
  void add_source(GraphValue v, const std::string& name, std::string_view style) {
    givers_[v] = fmt::format("{}_v{}", prefix_, v);
    const std::string label = fmt::format("{}\n{}", name, internal::type_text(graph_.type(v)));
    lines_.push_back(fmt::format("{} [label={}, tooltip={}, {}];", givers_[v], dot_text(label),
                                 dot_text(values_[v]), style));
  }

  void add_edge(GraphValue from, const std::string& to, const std::string& label, bool is_one_of) {
    if (from == kNoValue) return;
    const std::string tail =
        is_one_of ? fmt::format(", taillabel={}", dot_text(values_[from])) : "";
    const std::string about =
        fmt::format("{}: {}", values_[from], internal::type_text(graph_.type(from)));
    lines_.push_back(fmt::format("{} -> {} [label={}, edgetooltip={}{}];", givers_[from], to,
                                 dot_text(label), dot_text(about), tail));
  }

  void add_node(std::size_t i) {
    const Graph::Node node = graph_.node(i);
    const std::string name = fmt::format("{}_n{}", prefix_, i);
    std::string label = internal::op_text(node.op);
    for (const std::string& attr : internal::attr_texts(node.attrs, graphs_)) label += "\n" + attr;
    for (GraphValue v = node.first_result; v < node.first_result + node.results; ++v) {
      givers_[v] = name;
      label += fmt::format("\n{}: {}", values_[v], internal::type_text(graph_.type(v)));
      if (node.results > 1) many_.push_back(v);
    }
    const std::string where =
        node.where.known() ? fmt::format("{}:{}", node.where.file, node.where.line) : " ";
    lines_.push_back(
        fmt::format("{} [label={}, tooltip={}];", name, dot_text(label), dot_text(where)));
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      add_edge(node.operands[k], name, internal::operand_label(node.op, k),
               is_one_of_many(node.operands[k]));
    }
  }

  void add_output(std::size_t i) {
    const GraphValue v = graph_.outputs()[i];
    const std::string name = fmt::format("{}_out{}", prefix_, i);
    lines_.push_back(
        fmt::format("{} [label={}, tooltip=\" \", shape=plaintext, style=\"\"];", name,
                    dot_text(fmt::format("result {}{}", i, v == kNoValue ? ": none" : ""))));
    add_edge(v, name, "", is_one_of_many(v));
  }

  // Sorted, since nodes are in ascending order.
  bool is_one_of_many(GraphValue v) const {
    return std::binary_search(many_.begin(), many_.end(), v);
  }

  const Graph& graph_;
  const GraphList& graphs_;
  std::string prefix_;
  std::vector<std::string> values_;
  std::vector<std::string> givers_;  // of each value: the box that it comes from
  std::vector<GraphValue> many_;     // results of nodes that have several
  std::vector<std::string> lines_;
};

// ---- JSON

struct AttrToJson {
  const GraphList& graphs;
  const AttrValue& value;

  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool v) const { return v; }
  Json operator()(int64_t v) const { return v; }
  Json operator()(double v) const {
    return std::isfinite(v) ? Json(v) : Json(internal::exact_text(v));
  }
  Json operator()(const std::string& v) const { return v; }
  Json operator()(const std::vector<int64_t>& v) const { return v; }
  Json operator()(const std::vector<double>& v) const {
    Json out = Json::array();
    for (const double item : v) out.push_back((*this)(item));
    return out;
  }
  // A dtype, a scalar program, a graph: its text.
  template <class T>
  Json operator()(const T&) const {
    return internal::attr_text(value, graphs);
  }
};

Json values_json(std::span<const GraphValue> values) {
  Json out = Json::array();
  for (const GraphValue v : values) out.push_back(v == kNoValue ? Json(nullptr) : Json(v));
  return out;
}

Json value_json(const Graph& graph, GraphValue v) {
  return {{"value", v}, {"type", internal::type_text(graph.type(v))}};
}

Json node_json(const Graph& graph, std::size_t i, const GraphList& graphs) {
  const Graph::Node node = graph.node(i);
  Json attrs = Json::object(), results = Json::array();
  for (std::size_t a = 0; a < node.attrs.defs().size(); ++a) {
    const AttrValue& value = node.attrs.values()[a];
    attrs[std::string(node.attrs.defs()[a].name)] = std::visit(AttrToJson{graphs, value}, value);
  }
  for (GraphValue v = node.first_result; v < node.first_result + node.results; ++v) {
    results.push_back(value_json(graph, v));
  }
  Json out = {{"op", internal::op_text(node.op)},
              {"operands", values_json(node.operands)},
              {"attributes", attrs},
              {"results", results}};
  if (node.where.known()) {
    out["file"] = node.where.file;
    out["line"] = node.where.line;
  }
  return out;
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A list entry of a graph: one line for each item.
std::string list_text(std::string_view key, const std::vector<Json>& items) {
  std::string text = fmt::format("   \"{}\": [", key);
  for (const Json& item : items) {
    text += fmt::format("{}\n    {}", &item == items.data() ? "" : ",", json_text(item));
  }
  return text + "],\n";
}

std::string graph_json(const GraphList& graphs, std::size_t number) {
  const Graph& graph = *graphs.graphs()[number];
  std::vector<Json> inputs, constants, nodes;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    Json input = value_json(graph, static_cast<GraphValue>(i));
    input["name"] = graph.inputs()[i].name;
    input["role"] = internal::role_text(graph.inputs()[i].role).key;
    inputs.push_back(std::move(input));
  }
  for (GraphValue v = graph.first_constant(); v < graph.first_result(); ++v) {
    Json constant = value_json(graph, v);
    constant["elements"] =
        internal::constant_text(graph.constants()[v - graph.first_constant()], false);
    constants.push_back(std::move(constant));
  }
  for (std::size_t i = 0; i < graph.size(); ++i) nodes.push_back(node_json(graph, i, graphs));
  return fmt::format("  {{\"name\": {},\n{}{}{}   \"outputs\": {}}}",
                     json_text(graphs.name(number)), list_text("inputs", inputs),
                     list_text("constants", constants), list_text("nodes", nodes),
                     json_text(values_json(graph.outputs())));
}

}  // namespace

std::string to_dot(const Graph& graph) {
  const GraphList graphs(graph);
  std::string text = fmt::format("digraph {} {{\n{}", dot_text(graph.name()), kDotStyle) +
                     DotGraph(graphs, 0).print("  ");
  for (std::size_t i = 1; i < graphs.graphs().size(); ++i) {
    text += fmt::format("  subgraph cluster_{} {{\n    label={}; color=\"#bbbbbb\";\n", i,
                        dot_text("@" + graphs.name(i)));
    text += DotGraph(graphs, i).print("    ") + "  }\n";
  }
  return text + "}\n";
}

std::string to_json(const Graph& graph) {
  const GraphList graphs(graph);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < graphs.graphs().size(); ++i) all.push_back(graph_json(graphs, i));
  return fmt::format("{{\"graphs\": [\n{}]}}\n", fmt::join(all, ",\n"));
}

}  // namespace etude
