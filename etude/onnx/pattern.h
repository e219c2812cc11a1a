// SPDX-License-Identifier: Apache-2.0
// Patterns: groups of calls in a graph, as text. recognise.h has the patterns of ONNX's operators.
//
//   where(greater(x, 0), x, multiply(x, slope))
//
//   x            a value; equal names are equal values
//   x?           the same, or an absent operand
//   0            a constant of this value without axes
//   $alpha       any constant of floats without axes
//   reshape?(x)  this call, or x itself
//
// The attributes of a call are not part of a pattern. The operands of add and multiply match in
// both orders.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/graph/graph.h"

namespace etude::onnx::internal {

struct PatternNode {
  enum class Kind : uint8_t { kValue, kNumber, kAnyNumber, kCall };
  Kind kind = Kind::kValue;
  std::string name;  // of the op or the value
  double number = 0;
  bool is_optional = false;
  std::vector<PatternNode> operands = {};
};
// throws: kInternal for a text of another form.
PatternNode parse_pattern(std::string_view text);

// The makers and readers of the values of a graph, which must outlive it.
class GraphIndex {
 public:
  explicit GraphIndex(const Graph& graph);
  const Graph& graph() const { return graph_; }
  // The node whose first result is the value; none for inputs, constants and further results.
  std::optional<std::size_t> maker(GraphValue value) const;
  // Whether only these nodes read results of the nodes, apart from the first result of `nodes[0]`.
  bool are_private(const std::vector<std::size_t>& nodes) const;
  // The element of a constant of floats without axes. A float32 becomes the number with the fewest
  // digits that rounds to it.
  std::optional<double> number(GraphValue value) const;

 private:
  const Graph& graph_;
  std::vector<std::optional<std::size_t>> makers_;  // by value
  std::vector<std::vector<std::size_t>> readers_;   // by value; the node count: an output
};

struct PatternMatch {
  std::vector<std::pair<std::string_view, GraphValue>> values;
  std::vector<std::pair<std::string_view, double>> numbers;
  std::vector<std::size_t> nodes;  // of the pattern, the root first

  // kNoValue for an absent operand.
  GraphValue value(std::string_view name) const;
  double number(std::string_view name) const;
  // The first node that calls the op.
  Graph::Node call(const Graph& graph, std::string_view op) const;
};

// Matches a pattern to the calls that end in a node. Other nodes may read values of these calls.
// `pattern` must outlive the result.
std::optional<PatternMatch> match(const GraphIndex& index, const PatternNode& pattern,
                                  std::size_t root);

// Whether the calls that end in a node are the calls of another graph, with these values as its
// inputs. That graph has one output. Adds the nodes that depend on input 0 to `nodes`, the root
// first.
bool has_calls(const GraphIndex& index, const Graph& calls, const std::vector<GraphValue>& inputs,
               std::size_t root, std::vector<std::size_t>& nodes);

// The number with the fewest digits that is this float32: 0.001, not 0.0010000000474974513.
double decimal(float value);

}  // namespace etude::onnx::internal
