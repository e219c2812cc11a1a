// SPDX-License-Identifier: Apache-2.0
// A graph as a list of rows for a page: its arguments, its calls in their order, its results. Rows
// of one layer are a group, which folds. Values between rows are lines in a few lanes at
// the left, as version control programs draw branches.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "etude/graph/graph.h"
#include "tools/etude/stored.h"

namespace etude::tools {

struct LayoutRow {
  enum class Kind : uint8_t { kInput, kNode, kOutput };
  Kind kind = Kind::kNode;
  std::size_t index = 0;             // of the input, the node or the output
  std::vector<GraphValue> operands;  // that are arguments or results of rows; each once
  std::vector<GraphValue> results;
  std::vector<std::string> path = {};  // of its layer: {"net", "hidden"}; of a node only
};

// The rows from `first` to `end`; `parts` is empty for a single row.
struct LayoutGroup {
  std::string label;  // "stages/0/conv1", below the group around it; "" for a row of that group
  std::size_t first = 0, end = 0;
  std::vector<LayoutGroup> parts;
  bool is_open = true;
};

struct GraphLayout {
  static constexpr int kLanes = 8;             // at most
  static constexpr std::size_t kLongest = 40;  // rows that a line may pass; later readers have none

  std::vector<LayoutRow> rows;
  LayoutGroup root;
  // By value: the row that makes it and the last row that its line leads to, and its lane; -1
  // without a line.
  struct Line {
    std::size_t from = 0, to = 0;
    int lane = -1;
  };
  std::vector<Line> lines;
  std::vector<std::vector<GraphValue>> lines_at;  // by row: values with a lane that it touches
  int lanes = 0;
};

// `inputs` is by input of the graph. Groups are open as long as at most `most_rows` rows show.
//
// The path of a call is the path of its layer (graph/layer_paths.h). cost: the product of rows and
// lanes.
GraphLayout layout_of(const Graph& graph, const std::vector<GraphInput>& inputs,
                      std::size_t most_rows = 60);

}  // namespace etude::tools
