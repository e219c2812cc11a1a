// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/pages/graph_html.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "etude/core/op/op.h"
#include "etude/files/xml_text.h"
#include "etude/graph/text/constant_text.h"
#include "etude/graph/text/names.h"
#include "tools/etude/pages/graph_layout.h"
#include "tools/etude/pages/html_text.h"
#include "tools/record_text.h"

namespace etude::tools {
namespace {

using internal::GraphList;
using internal::xml_text;
using Line = GraphLayout::Line;

constexpr int kLane = 14, kMargin = 9, kTop = 26;  // pixels: between lanes, at the left, of a dot
constexpr std::size_t kMostText = 120;             // of an attribute
constexpr int64_t kMostElements = 4;               // of a constant that is shown

int x_of(int lane) { return kMargin + lane * kLane; }

// One graph of a page.
class GraphPage {
 public:
  GraphPage(const DrawnGraph& drawn, const GraphList& graphs)
      : drawn_(drawn),
        graph_(*drawn.graph),
        graphs_(graphs),
        names_(internal::value_names(graph_)),
        layout_(layout_of(graph_, drawn.inputs)),
        total_(std::accumulate(drawn.micros.begin(), drawn.micros.end(), 0.0)) {}

  std::string text() const {
    std::string out = fmt::format("<div class=\"rows\" style=\"--gutter:{}px\">\n", width());
    for (const LayoutGroup& part : layout_.root.parts) out += group(part, 0);
    return out + "</div>\n";
  }

 private:
  // ---- The lines at the left.

  // The lines of a row or of a folded group: in from above, out below.
  std::string gutter(std::size_t first, std::size_t end, std::string_view style) const {
    std::string above, below;
    const int dot = dot_of(first, end);
    for (const GraphValue v : lines_across(first, end)) {
      const Line& line = layout_.lines[v];
      const int x = x_of(line.lane);
      const bool is_from_above = line.from < first, goes_on = line.to >= end;
      if (is_from_above && is_read(v, first, end)) {
        above += fmt::format("<path d=\"M{} 0Q{} {} {} {}\"/>", x, x, kTop / 4, dot, kTop / 2);
      }
      if (is_from_above && goes_on) above += fmt::format("<path d=\"M{} 0V{}\"/>", x, kTop);
      if (!is_from_above && goes_on) {
        above += fmt::format("<path d=\"M{} {}Q{} {} {} {}\"/>", dot, kTop / 2, x, kTop * 3 / 4, x,
                             kTop);
      }
      if (goes_on) below += fmt::format("<path d=\"M{} 0V10\"/>", x);
    }
    return fmt::format(
        "<div class=\"gutter {}\"><svg width=\"{}\" height=\"{}\">{}<circle cx=\"{}\" "
        "cy=\"{}\" r=\"4\"/></svg>{}</div>",
        style, width(), kTop, above, dot, kTop / 2, stretched(below));
  }
  // The lines at the heading of an open group: all pass.
  std::string passing(std::size_t first) const {
    std::string all;
    for (const GraphValue v : layout_.lines_at[first]) {
      const Line& line = layout_.lines[v];
      if (line.from < first) all += fmt::format("<path d=\"M{} 0V10\"/>", x_of(line.lane));
    }
    return fmt::format("<div class=\"gutter when-open\">{}</div>", stretched(all));
  }
  // As high as the row is.
  std::string stretched(const std::string& paths) const {
    if (paths.empty()) return "";
    return fmt::format(
        "<div class=\"rest\"><svg width=\"{0}\" height=\"100%\" viewBox=\"0 0 {0} 10\" "
        "preserveAspectRatio=\"none\">{1}</svg></div>",
        width(), paths);
  }
  int width() const { return layout_.lanes == 0 ? 2 * kMargin : x_of(layout_.lanes); }
  // The lines that begin, end or pass here; lines between rows in [first, end) are left out.
  std::vector<GraphValue> lines_across(std::size_t first, std::size_t end) const {
    std::vector<GraphValue> out = layout_.lines_at[first];
    for (const GraphValue v : layout_.lines_at[end - 1]) {
      if (std::ranges::count(out, v) == 0) out.push_back(v);
    }
    return out;
  }
  bool is_read(GraphValue v, std::size_t first, std::size_t end) const {
    for (std::size_t r = first; r < end; ++r) {
      if (std::ranges::count(layout_.rows[r].operands, v) > 0) return true;
    }
    return false;
  }
  // In the lane of the first line that the rows make for others, or that they read.
  int dot_of(std::size_t first, std::size_t end) const {
    int read = -1;
    for (std::size_t r = first; r < end; ++r) {
      const LayoutRow& row = layout_.rows[r];
      for (const GraphValue v : row.results) {
        const Line& line = layout_.lines[v];
        if (line.lane >= 0 && line.to >= end) return x_of(line.lane);
      }
      for (const GraphValue v : row.operands) {
        const Line& line = layout_.lines[v];
        if (read < 0 && line.lane >= 0 && line.from < first) read = line.lane;
      }
    }
    return x_of(std::max(read, 0));
  }

  // ---- Rows and groups.

  std::string group(const LayoutGroup& part, int depth) const {
    if (part.parts.empty()) return row(part.first, depth, part.label);
    double micros = 0;
    std::size_t calls = 0;
    for (std::size_t r = part.first; r < part.end; ++r) {
      const LayoutRow& each = layout_.rows[r];
      if (each.kind != LayoutRow::Kind::kNode) continue;
      ++calls;
      if (!drawn_.micros.empty()) micros += drawn_.micros[each.index];
    }
    std::string out = fmt::format(
        "<details class=\"group\"{} style=\"--depth:{}\"><summary class=\"row\">{}{}<div "
        "class=\"box\"><div class=\"head\"><b>{}</b> <span class=\"type\">{}</span>{}</div>"
        "</div></summary>\n",
        part.is_open ? " open" : "", depth, gutter(part.first, part.end, "when-closed"),
        passing(part.first), xml_text(part.label), calls_text(calls), time(micros));
    for (const LayoutGroup& each : part.parts) out += group(each, depth + 1);
    return out + "</details>\n";
  }

  std::string row(std::size_t at, int depth, const std::string& layer) const {
    const LayoutRow& row = layout_.rows[at];
    std::string body;
    switch (row.kind) {
      case LayoutRow::Kind::kInput:
        body = fmt::format(
            "<div class=\"box input\"><div class=\"head\"><b>{}</b> <span class=\"type\">{}"
            "</span></div><div class=\"facts\">argument</div></div>",
            xml_text(drawn_.inputs[row.index].path), type(static_cast<GraphValue>(row.index)));
        break;
      case LayoutRow::Kind::kNode:
        body = node(row.index, layer);
        break;
      case LayoutRow::Kind::kOutput:
        body = output(row.index);
        break;
    }
    std::string anchor;
    if (!row.results.empty()) anchor = fmt::format(" id=\"{}\"", anchor_of(row.results[0]));
    for (std::size_t r = 1; r < row.results.size(); ++r) {
      body += fmt::format("<span id=\"{}\"></span>", anchor_of(row.results[r]));
    }
    return fmt::format("<div class=\"row\"{} style=\"--depth:{}\">{}{}</div>\n", anchor, depth,
                       gutter(at, at + 1, ""), body);
  }

  std::string node(std::size_t i, const std::string& layer) const {
    const Graph::Node node = graph_.node(i);
    std::string results;
    if (!layer.empty()) results = "<span class=\"layer\">" + xml_text(layer) + "</span>";
    for (uint32_t r = 0; r < node.results; ++r) {
      const GraphValue v = node.first_result + r;
      results += fmt::format(" <span class=\"value\">{}</span> <span class=\"type\">{}</span>",
                             xml_text(names_[v]), type(v));
    }
    std::vector<std::string> facts;
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      if (node.operands[k] == kNoValue) continue;
      facts.push_back(fmt::format("<span>{}: {}</span>",
                                  xml_text(internal::operand_label(node.op, k)),
                                  value(node.operands[k])));
    }
    for (const std::string& attr : internal::attr_texts(node.attrs, graphs_)) {
      facts.push_back("<span>" + xml_text(shortened(attr, kMostText)) + "</span>");
    }
    for (const std::string& link : graph_links(node)) facts.push_back(link);
    if (const std::string line = lines_of(node); !line.empty()) facts.push_back(line);
    return fmt::format(
        "<div class=\"box {}\"><div class=\"head\"><b>{}</b>{}{}</div><div class=\"facts\">{}</div>"
        "</div>",
        kind_name(node.op.def().kind), xml_text(internal::op_text(node.op)), results,
        time(drawn_.micros.empty() ? 0 : drawn_.micros[i]), fmt::join(facts, " "));
  }

  std::string output(std::size_t i) const {
    const GraphValue v = graph_.outputs()[i];
    const std::string& path = drawn_.outputs[i];
    return fmt::format(
        "<div class=\"box output\"><div class=\"head\"><b>{}</b> <span class=\"type\">{}</span>"
        "</div><div class=\"facts\">result: {}</div></div>",
        path.empty() ? fmt::format("result {}", i) : xml_text(path), type(v), value(v));
  }

  // An operand: a link to its row, the path of state, or a constant.
  std::string value(GraphValue v) const {
    if (v >= graph_.first_result()) {
      return fmt::format("<a href=\"#{}\">{}</a>", anchor_of(v), xml_text(names_[v]));
    }
    if (graph_.is_constant(v)) {
      const Tensor& constant = graph_.constants()[v - graph_.first_constant()];
      return "<span class=\"constant\">" +
             (constant.size() <= kMostElements ? xml_text(internal::constant_text(constant, true))
                                               : type(v)) +
             "</span>";
    }
    const GraphInput& input = drawn_.inputs[v];
    switch (input.source) {
      case GraphInput::Source::kArgument:
        return fmt::format("<a href=\"#{}\">{}</a>", anchor_of(v), xml_text(input.path));
      case GraphInput::Source::kKey:
        return "<span class=\"constant\">a new random key</span>";
      case GraphInput::Source::kState:
      case GraphInput::Source::kVariable:
      case GraphInput::Source::kConstant:
        break;
    }
    return fmt::format("<span class=\"state\">{} <i>{}</i></span>", xml_text(input.path), type(v));
  }

  std::vector<std::string> graph_links(const Graph::Node& node) const {
    std::vector<std::string> out;
    for (const AttrValue& each : node.attrs.values()) {
      for (const Graph* inner : internal::graphs_in(each)) {
        const std::size_t at = graphs_.find(*inner);
        out.push_back(fmt::format("<a href=\"#{}-graph{}\">@{}</a>",
                                  drawn_.id.substr(0, drawn_.id.find('-')), at,
                                  xml_text(graphs_.name(at))));
      }
    }
    return out;
  }

  // The user's line, and the lines of the calls around it that were inlined.
  std::string lines_of(const Graph::Node& node) const {
    std::string out = line_of(node.where);
    for (uint32_t f = node.frame; f != Graph::kNoFrame; f = graph_.frames()[f].outer) {
      const Graph::Frame& frame = graph_.frames()[f];
      out += fmt::format("{}in {}{}", out.empty() ? "" : " ", frame.function,
                         frame.where.known() ? " at " + line_of(frame.where) : "");
    }
    if (out.empty()) return "";
    return fmt::format("<span class=\"line\" title=\"{}\">{}</span>",
                       xml_text(node.where.known() ? node.where.file : ""), xml_text(out));
  }

  std::string time(double micros) const {
    if (drawn_.micros.empty()) return "";
    return fmt::format("<span class=\"time\"><i style=\"width:{:.1f}%\"></i>{}</span>",
                       total_ > 0 ? 100 * micros / total_ : 0, time_text(micros));
  }

  std::string type(GraphValue v) const { return xml_text(drawn_.types[v]); }
  std::string anchor_of(GraphValue v) const { return fmt::format("{}-v{}", drawn_.id, v); }

  const DrawnGraph& drawn_;
  const Graph& graph_;
  const GraphList& graphs_;
  const std::vector<std::string> names_;
  const GraphLayout layout_;
  const double total_;
};

}  // namespace

std::vector<std::string> type_texts(const Graph& graph, const SymbolicGraph* symbolic) {
  std::vector<std::string> out;
  for (std::size_t v = 0; v < graph.value_count(); ++v) {
    const auto value = static_cast<GraphValue>(v);
    out.push_back(symbolic == nullptr ? internal::type_text(graph.type(value))
                                      : symbolic->type_text(value));
  }
  return out;
}

std::string graph_html(const DrawnGraph& drawn) {
  const GraphList graphs(*drawn.graph);
  std::string out = GraphPage(drawn, graphs).text();
  for (std::size_t i = 0; i < graphs.graphs().size(); ++i) {
    const Graph& inner = *graphs.graphs()[i];
    if (&inner == drawn.graph) continue;
    DrawnGraph part{.graph = &inner, .types = type_texts(inner, nullptr)};
    for (const Graph::Input& input : inner.inputs()) {
      part.inputs.push_back({GraphInput::Source::kArgument, -1, input.name});
    }
    part.outputs.resize(inner.outputs().size());
    part.id = fmt::format("{}-{}", drawn.id, i);
    out += fmt::format(
        "<details class=\"inner\" id=\"{}-graph{}\"><summary>graph @{}: {}</summary>\n{}"
        "</details>\n",
        drawn.id, i, xml_text(graphs.name(i)), calls_text(inner.size()),
        GraphPage(part, graphs).text());
  }
  return out;
}

}  // namespace etude::tools
