// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/pages/plan_html.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "etude/core/op/op.h"
#include "etude/files/xml_text.h"
#include "etude/graph/text/names.h"
#include "etude/passes/decisions.h"
#include "tools/etude/pages/html_text.h"

namespace etude::tools {
namespace {

using internal::FusedCall;

constexpr int kWidth = 250, kLine = 16, kGapX = 40, kGapY = 56, kMargin = 30;
constexpr std::size_t kMostText = 36;  // characters in a box

// An input, a node or an output of the graph.
struct Box {
  enum class Kind { kInput, kNode, kFused, kOutput };
  Kind kind = Kind::kNode;
  std::string title, type;
  std::vector<std::string> parts;  // of a fused call, with their lines
  std::size_t rank = 0;
  double order = 0;  // among the boxes of its rank
  int x = 0, y = 0;
  int height() const { return kLine * static_cast<int>(2 + parts.size()) + 10; }
};
struct Edge {
  std::size_t from, to;
  int64_t bytes;
  int place = 0;  // among the edges to the same box
};

class Page {
 public:
  explicit Page(const internal::Plan& plan) : plan_(plan), graph_(plan.graph()) {
    add_boxes();
    place();
  }

  std::string text() const {
    std::string svg;
    for (const auto& cluster : plan_.clusters()) svg += frame(cluster);
    for (const Box& box : boxes_) svg += rectangle(box);
    for (const Edge& edge : edges_) svg += line(edge);
    return fmt::format(kPage, fmt::arg("name", internal::xml_text(graph_.name())),
                       fmt::arg("steps", plan_.steps()),
                       fmt::arg("arena", bytes_text(plan_.arena_bytes())),
                       fmt::arg("live", bytes_text(plan_.live_bytes())), fmt::arg("svg", svg),
                       fmt::arg("width", width_), fmt::arg("height", height_),
                       fmt::arg("text", internal::xml_text(plan_.to_string())));
  }

 private:
  static constexpr const char* kPage = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>plan of {name}</title><style>
body {{ font: 14px sans-serif; margin: 24px; color: #222; background: #fff }}
svg text {{ font: 12px monospace }} pre {{ background: #f6f6f6; padding: 12px; overflow: auto }}
.node {{ fill: #eef3fb; stroke: #4a6fa5 }} .fused {{ fill: #fdf1dc; stroke: #b9770e }}
.input {{ fill: #eaf6ea; stroke: #3c7d3c }} .output {{ fill: #f6eaf6; stroke: #7d3c7d }}
.cluster {{ fill: none; stroke: #a33; stroke-dasharray: 6 4 }} .edge {{ fill: none; stroke: #999 }}
.bytes {{ fill: #666 }} .line {{ fill: #777 }} b {{ font-weight: 600 }}
</style></head><body>
<h1>plan of {name}</h1>
<p>{steps} steps; {arena} for intermediate values, of which {live} are alive at once at most.
Green: inputs. Orange: several calls in one sweep over memory, with the lines that made them. Dashed:
runs of small calls that become one function. Edges: how much is read.</p>
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">
{svg}</svg>
<h2>Steps</h2><pre>{text}</pre>
</body></html>
)";

  void add_boxes() {
    const auto names = internal::value_names(graph_);
    const auto fused = internal::FusedCalls::of(graph_);
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      maker_[static_cast<GraphValue>(i)] = boxes_.size();
      boxes_.push_back(
          {Box::Kind::kInput, graph_.inputs()[i].name, graph_.inputs()[i].type->to_string()});
    }
    first_node_ = boxes_.size();
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      Box box{Box::Kind::kNode,
              shortened(fmt::format("{} {}", node.op.name(), line_of(node.where)), kMostText)};
      if (node.results > 0 && graph_.type(node.first_result) != nullptr) {
        box.type = graph_.type(node.first_result)->to_string();
      }
      if (const auto parts = fused->by_node.find(i); parts != fused->by_node.end()) {
        box.kind = Box::Kind::kFused;
        box.title = fmt::format("{} calls in one sweep", parts->second.size());
        for (const FusedCall& part : parts->second) {
          box.parts.push_back(
              shortened(fmt::format("{} {}", part.op, line_of(part.where)), kMostText));
        }
      }
      connect(node.operands, boxes_.size(), box.rank);
      for (uint32_t r = 0; r < node.results; ++r) maker_[node.first_result + r] = boxes_.size();
      boxes_.push_back(std::move(box));
    }
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const GraphValue v = graph_.outputs()[i];
      if (v == kNoValue) continue;
      Box box{Box::Kind::kOutput, fmt::format("result {}", i), graph_.type(v)->to_string()};
      connect({&v, 1}, boxes_.size(), box.rank);
      boxes_.push_back(std::move(box));
    }
  }

  // Edges from the makers of the operands; constants have none.
  void connect(std::span<const GraphValue> operands, std::size_t to, std::size_t& rank) {
    for (const GraphValue v : operands) {
      const auto from = v == kNoValue ? maker_.end() : maker_.find(v);
      if (from == maker_.end()) continue;
      edges_.push_back({from->second, to, graph_.type(v)->bytes(), ends_[to]++});
      rank = std::max(rank, boxes_[from->second].rank + 1);
    }
  }

  // Rows by rank; in a row, each box near its operands.
  void place() {
    std::size_t ranks = 0;
    for (const Box& box : boxes_) ranks = std::max(ranks, box.rank + 1);
    std::vector<std::vector<std::size_t>> rows(ranks);
    for (std::size_t b = 0; b < boxes_.size(); ++b) rows[boxes_[b].rank].push_back(b);
    int y = kMargin;
    for (std::vector<std::size_t>& row : rows) {
      for (const std::size_t b : row) boxes_[b].order = order_of(b);
      std::ranges::stable_sort(row, {}, [&](std::size_t b) { return boxes_[b].order; });
      int x = kMargin, tallest = 0;
      for (const std::size_t b : row) {
        boxes_[b].x = std::max(x, static_cast<int>(boxes_[b].order));
        boxes_[b].y = y;
        x = boxes_[b].x + kWidth + kGapX;
        tallest = std::max(tallest, boxes_[b].height());
      }
      width_ = std::max(width_, x);
      y += tallest + kGapY;
    }
    height_ = y;
  }
  double order_of(std::size_t b) const {
    double sum = 0;
    int count = 0;
    for (const Edge& edge : edges_) {
      if (edge.to != b) continue;
      sum += boxes_[edge.from].x;
      ++count;
    }
    return count == 0 ? 0 : sum / count;
  }

  static std::string rectangle(const Box& box) {
    constexpr const char* kClasses[] = {"input", "node", "fused", "output"};
    std::string out =
        fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\"/>\n",
                    kClasses[static_cast<int>(box.kind)], box.x, box.y, kWidth, box.height());
    int y = box.y + kLine;
    const auto add = [&](std::string_view style, std::string_view text, int indent) {
      out += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", style,
                         box.x + 8 + indent, y, internal::xml_text(text));
      y += kLine;
    };
    add("title", box.title, 0);
    for (const std::string& part : box.parts) add("line", part, 12);
    add("bytes", box.type, 0);
    return out;
  }

  // Edges end side by side on the box that reads them. An edge that passes rows goes around their
  // boxes.
  std::string line(const Edge& edge) const {
    const Box &from = boxes_[edge.from], &to = boxes_[edge.to];
    const bool is_long = to.rank > from.rank + 1;
    const int x1 = from.x + (is_long ? kWidth - 20 : kWidth / 2), y1 = from.y + from.height();
    const int x2 = to.x + kWidth * (edge.place + 1) / (ends_.at(edge.to) + 1), y2 = to.y;
    const int bend = std::max(20, (y2 - y1) / (is_long ? 4 : 2));
    const int around = is_long ? std::max({x1, x2, from.x + kWidth}) + kGapX : 0;
    return fmt::format(
        "<path class=\"edge\" d=\"M{} {} C{} {} {} {} {} {}\"/>\n"
        "<text class=\"bytes\" x=\"{}\" y=\"{}\">{}</text>\n",
        x1, y1, is_long ? around : x1, y1 + bend, is_long ? around : x2, y2 - bend, x2, y2, x2 + 4,
        y2 - 4 - 12 * (edge.place % 2), bytes_text(edge.bytes));
  }

  // Around the boxes of a cluster.
  std::string frame(const internal::Plan::ClusterRange& cluster) const {
    int left = width_, top = height_, right = 0, bottom = 0;
    for (std::size_t i = cluster.first; i < cluster.end; ++i) {
      const Box& box = boxes_[first_node_ + i];
      left = std::min(left, box.x);
      top = std::min(top, box.y);
      right = std::max(right, box.x + kWidth);
      bottom = std::max(bottom, box.y + box.height());
    }
    return fmt::format(
        "<rect class=\"cluster\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
        left - 10, top - 10, right - left + 20, bottom - top + 20);
  }

  const internal::Plan& plan_;
  const Graph& graph_;
  std::vector<Box> boxes_;
  std::vector<Edge> edges_;
  std::map<GraphValue, std::size_t> maker_;
  std::map<std::size_t, int> ends_;  // how many edges end in a box
  std::size_t first_node_ = 0;
  int width_ = 0, height_ = 0;
};

}  // namespace

std::string plan_html(const internal::Plan& plan) { return Page(plan).text(); }

}  // namespace etude::tools
