// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/pages/graph_layout.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "etude/graph/layer_paths.h"

namespace etude::tools {
namespace {

using Path = internal::LayerPath;

class RowMaker {
 public:
  RowMaker(const Graph& graph, const std::vector<GraphInput>& inputs)
      : graph_(graph), inputs_(inputs) {
    std::vector<std::string> state;
    for (const GraphInput& input : inputs) {
      state.push_back(input.source == GraphInput::Source::kState ? input.path : "");
    }
    paths_ = internal::layer_paths(graph, state);
  }

  std::vector<LayoutRow> make() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!is_argument(i)) continue;
      rows_.push_back({LayoutRow::Kind::kInput, i, {}, {static_cast<GraphValue>(i)}});
    }
    for (std::size_t i = 0; i < graph_.size(); ++i) add_node(i);
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const GraphValue v = graph_.outputs()[i];
      if (v == kNoValue) continue;
      rows_.push_back({LayoutRow::Kind::kOutput, i, {}, {}});
      if (has_row(v)) rows_.back().operands.push_back(v);
    }
    return std::move(rows_);
  }

 private:
  bool is_argument(std::size_t input) const {
    return inputs_[input].source == GraphInput::Source::kArgument;
  }
  bool has_row(GraphValue v) const {
    if (v < graph_.inputs().size()) return is_argument(v);
    return v >= graph_.first_result();
  }

  void add_node(std::size_t i) {
    const Graph::Node node = graph_.node(i);
    LayoutRow row{LayoutRow::Kind::kNode, i, {}, {}};
    for (const GraphValue v : node.operands) {
      if (v == kNoValue) continue;
      if (has_row(v) && std::ranges::count(row.operands, v) == 0) row.operands.push_back(v);
    }
    row.path = paths_[i];
    for (uint32_t r = 0; r < node.results; ++r) row.results.push_back(node.first_result + r);
    rows_.push_back(std::move(row));
  }

  const Graph& graph_;
  const std::vector<GraphInput>& inputs_;
  std::vector<Path> paths_;  // by node
  std::vector<LayoutRow> rows_;
};

// The path that all rows of nodes share.
Path common_path(const std::vector<LayoutRow>& rows) {
  std::optional<Path> common;
  for (const LayoutRow& row : rows) {
    if (row.kind == LayoutRow::Kind::kNode && !row.path.empty()) {
      internal::meet(common, row.path);
    }
  }
  return common.value_or(Path());
}

// The groups of the rows of `group`, whose paths agree up to `depth`.
void divide(const std::vector<LayoutRow>& rows, LayoutGroup& group, std::size_t depth) {
  for (std::size_t at = group.first; at < group.end;) {
    const Path& path = rows[at].path;
    std::size_t end = at + 1;
    if (path.size() <= depth) {
      group.parts.push_back({"", at, end, {}});
      at = end;
      continue;
    }
    std::size_t shared = path.size();
    const auto agrees = [&](const LayoutRow& row) {
      return row.path.size() > depth && row.path[depth] == path[depth];
    };
    for (; end < group.end && agrees(rows[end]); ++end) {
      const auto differs = std::ranges::mismatch(path, rows[end].path).in1 - path.begin();
      shared = std::min(shared, static_cast<std::size_t>(differs));
    }
    const auto begin = path.begin() + static_cast<std::ptrdiff_t>(depth);
    const auto stop = path.begin() + static_cast<std::ptrdiff_t>(shared);
    LayoutGroup part{fmt::format("{}", fmt::join(begin, stop, "/")), at, end, {}};
    if (part.end - part.first > 1) divide(rows, part, shared);
    group.parts.push_back(std::move(part));
    at = end;
  }
}

// Opens groups level by level.
void open_groups(LayoutGroup& root, std::size_t most_rows) {
  std::size_t shown = root.parts.size();
  std::deque<LayoutGroup*> next{&root};
  while (!next.empty()) {
    LayoutGroup& group = *next.front();
    next.pop_front();
    for (LayoutGroup& part : group.parts) {
      if (part.parts.empty()) continue;
      part.is_open = group.is_open && shown + part.parts.size() <= most_rows;
      if (part.is_open) shown += part.parts.size();
      next.push_back(&part);
    }
  }
}

void find_lines(GraphLayout& out, std::size_t values) {
  out.lines.resize(values);
  out.lines_at.resize(out.rows.size());
  std::vector<uint8_t> is_read(values);
  for (std::size_t r = 0; r < out.rows.size(); ++r) {
    for (const GraphValue v : out.rows[r].results) out.lines[v].from = out.lines[v].to = r;
    for (const GraphValue v : out.rows[r].operands) {
      if (r - out.lines[v].from > GraphLayout::kLongest) continue;
      out.lines[v].to = r;
      is_read[v] = 1;
    }
  }
  // A lane is free from the row on that reads its value last, so a chain of calls has one lane.
  std::array<std::size_t, GraphLayout::kLanes> free_at{};
  for (std::size_t r = 0; r < out.rows.size(); ++r) {
    for (const GraphValue v : out.rows[r].results) {
      GraphLayout::Line& line = out.lines[v];
      if (is_read[v] == 0) continue;
      const auto lane = std::ranges::find_if(free_at, [&](std::size_t at) { return at <= r; });
      if (lane == free_at.end()) continue;
      *lane = line.to;
      line.lane = static_cast<int>(lane - free_at.begin());
      out.lanes = std::max(out.lanes, line.lane + 1);
      for (std::size_t at = r; at <= line.to; ++at) out.lines_at[at].push_back(v);
    }
  }
}

}  // namespace

GraphLayout layout_of(const Graph& graph, const std::vector<GraphInput>& inputs,
                      std::size_t most_rows) {
  GraphLayout out;
  out.rows = RowMaker(graph, inputs).make();
  const Path common = common_path(out.rows);  // no group repeats it
  out.root.end = out.rows.size();
  for (LayoutRow& row : out.rows) {
    if (row.path.size() < common.size()) continue;
    row.path.erase(row.path.begin(), row.path.begin() + static_cast<std::ptrdiff_t>(common.size()));
  }
  divide(out.rows, out.root, 0);
  open_groups(out.root, most_rows);
  find_lines(out, graph.value_count());
  return out;
}

}  // namespace etude::tools
