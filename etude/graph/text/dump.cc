// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/dump.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "etude/core/op/exact_text.h"
#include "etude/files/json_writer.h"
#include "etude/graph/text/constant_text.h"
#include "etude/graph/text/names.h"

namespace etude {
namespace {

using internal::GraphList;
using internal::JsonWriter;

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

// Items of a graph, one line each.
class Items {
 public:
  explicit Items(const GraphList& graphs) : graphs_(graphs) {}

  void node(JsonWriter& out, const Graph& graph, std::size_t i) const {
    const Graph::Node node = graph.node(i);
    out.object([&] {
      out.member("op", internal::op_text(node.op));
      out.member("operands", [&] { out.list(node.operands, Number{out}); });
      out.member("attributes", [&] { out.object([&] { attributes(out, node); }); });
      out.member("results", [&] {
        const auto end = static_cast<GraphValue>(node.first_result + node.results);
        out.list(std::views::iota(node.first_result, end),
                 [&](GraphValue v) { out.object([&] { value(out, graph, v); }); });
      });
      if (node.where.known()) {
        out.member("file", node.where.file);
        out.member("line", node.where.line);
      }
    });
  }
  // The first members of an object for a value.
  static void value(JsonWriter& out, const Graph& graph, GraphValue v) {
    out.member("value", v);
    out.member("type", internal::type_text(graph.type(v)));
  }
  // The number of a value; null for an absent operand.
  struct Number {
    JsonWriter& out;
    void operator()(GraphValue v) const { v == kNoValue ? out.value(nullptr) : out.value(v); }
  };

 private:
  void attributes(JsonWriter& out, const Graph::Node& node) const {
    for (std::size_t a = 0; a < node.attrs.defs().size(); ++a) {
      const AttrValue& value = node.attrs.values()[a];
      out.member(node.attrs.defs()[a].name,
                 [&] { std::visit([&](const auto& v) { attribute(out, value, v); }, value); });
    }
  }
  template <class V>
  void attribute(JsonWriter& out, const AttrValue& whole, const V& v) const {
    if constexpr (std::is_same_v<V, std::monostate>) {
      out.value(nullptr);
    } else if constexpr (std::is_same_v<V, double>) {
      real(out, v);
    } else if constexpr (std::is_same_v<V, bool> || std::is_same_v<V, int64_t> ||
                         std::is_same_v<V, std::string>) {
      out.value(v);
    } else if constexpr (std::is_same_v<V, std::vector<int64_t>>) {
      out.list(v);
    } else if constexpr (std::is_same_v<V, std::vector<double>>) {
      out.list(v, [&](double item) { real(out, item); });
    } else {  // a dtype, a scalar program, a graph: its text
      out.value(internal::attr_text(whole, graphs_));
    }
  }
  static void real(JsonWriter& out, double v) {
    std::isfinite(v) ? out.value(v) : out.value(internal::exact_text(v));
  }

  const GraphList& graphs_;
};

template <class F>
std::string json_text(const F& write) {
  JsonWriter out(JsonWriter::Texts::kReplaced);
  write(out);
  return out.text();
}

// A list entry of a graph: one line for each item.
std::string list_text(std::string_view key, const std::vector<std::string>& items) {
  std::string text = fmt::format("   \"{}\": [", key);
  for (const std::string& item : items) {
    text += fmt::format("{}\n    {}", &item == items.data() ? "" : ",", item);
  }
  return text + "],\n";
}

std::string graph_json(const GraphList& graphs, std::size_t number) {
  const Graph& graph = *graphs.graphs()[number];
  const Items write(graphs);
  std::vector<std::string> inputs, constants, nodes;
  // `rest`: the members after the members that each value has.
  const auto value_text = [&](GraphValue v, const auto& rest) {
    return json_text([&](JsonWriter& out) {
      out.object([&] {
        Items::value(out, graph, v);
        rest(out);
      });
    });
  };
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    inputs.push_back(value_text(static_cast<GraphValue>(i), [&](JsonWriter& out) {
      out.member("name", graph.inputs()[i].name);
      out.member("role", internal::role_text(graph.inputs()[i].role).key);
    }));
  }
  for (GraphValue v = graph.first_constant(); v < graph.first_result(); ++v) {
    const Tensor& constant = graph.constants()[v - graph.first_constant()];
    constants.push_back(value_text(v, [&](JsonWriter& out) {
      out.member("elements", internal::constant_text(constant, false));
    }));
  }
  for (std::size_t i = 0; i < graph.size(); ++i) {
    nodes.push_back(json_text([&](JsonWriter& out) { write.node(out, graph, i); }));
  }
  const std::string name = json_text([&](JsonWriter& out) { out.value(graphs.name(number)); });
  const std::string outputs =
      json_text([&](JsonWriter& out) { out.list(graph.outputs(), Items::Number{out}); });
  return fmt::format("  {{\"name\": {},\n{}{}{}   \"outputs\": {}}}", name,
                     list_text("inputs", inputs), list_text("constants", constants),
                     list_text("nodes", nodes), outputs);
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
