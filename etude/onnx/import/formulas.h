// SPDX-License-Identifier: Apache-2.0
// Facts of a graph that follow from its nodes alone: the nodes that its results need, and the calls
// that onnx::save() wrote as several nodes (formula.h). importer.h reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/onnx/formula.h"
#include "etude/onnx/import/file.h"

namespace etude::onnx::importing {

class Scope;

// A formula in a graph. `node` represents its nodes: its inputs are the operands of the call that
// are present, its outputs the results that are read.
struct FileFormula {
  FileNode node;
  std::size_t first = 0, count = 0;  // its nodes in the graph
};

struct GraphFacts {
  std::vector<uint8_t> is_needed;                         // by node
  std::unordered_map<std::size_t, FileFormula> formulas;  // by first node
};
GraphFacts facts_of(const FileGraph& graph);

// The call of a formula, a graph of one call, if its nodes are the nodes that onnx::save() writes
// for it on these operands; else null, as after another program changed them. Null as well if a
// constant of the formula would take more than `most_bytes`.
GraphRef call_of(const FileFormula& formula, const FileGraph& graph, const Scope& scope,
                 int64_t opset, int64_t most_bytes);

}  // namespace etude::onnx::importing
