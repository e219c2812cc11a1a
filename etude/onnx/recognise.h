// SPDX-License-Identifier: Apache-2.0
// Recognises groups of calls that one operator of ONNX computes. Traced graphs have no calls of
// compositions, such as nn.batch_normalize, but the calls of their lowerings. A group becomes
//
//   * the call of a composition, if the group is its lowering, call by call. A conversion then
//     writes the call (conversions.h);
//   * an operator, if the group has its pattern (pattern.h). The import of the operator makes calls
//     with equal results.
//
// A group stays as it is if another call reads a value inside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/graph/graph.h"
#include "etude/onnx/conversions.h"
#include "etude/onnx/model.h"

namespace etude::onnx::internal {

// The operator for a group that is no composition. An operand is a value of the graph, or a number.
struct FoundOperator {
  struct Operand {
    GraphValue value = kNoValue;
    double number = 0;
  };
  std::string op;  // "PRelu"
  std::vector<Operand> operands;
  std::vector<Attribute> attributes;
};

struct Group {
  std::vector<std::size_t> nodes;  // the node of the result first; all of them are replaced
  // Not null: a call of a composition on these operands.
  const Op* composition = nullptr;
  Attrs attrs;
  std::vector<GraphValue> operands;
  FoundOperator found;  // otherwise
};

// The groups of a graph, by the node of their result. No node is in two groups.
std::unordered_map<std::size_t, Group> recognise(const Graph& graph, int64_t opset);

}  // namespace etude::onnx::internal
