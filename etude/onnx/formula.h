// SPDX-License-Identifier: Apache-2.0
// Formulas: the nodes of calls of ops that ONNX has no operator for. The first node of a formula
// names the call in its metadata:
//
//   etude.call   nn.silu(x0)     as in the text of a graph (graph/text/print.h)
//   etude.nodes  2; 0.0; 1.0     the number of nodes, and the places of operands and results
//
// A place is the number of a node in the formula, and the number of its input or output; "-"
// marks a result that no node reads. Other programs ignore the metadata and run the nodes.
// onnx::load() makes the call instead, if the nodes are still the nodes of this call. So the model
// returns the bits of the function.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/core/call/call_scope.h"
#include "etude/core/op/op.h"
#include "etude/core/type.h"
#include "etude/graph/graph.h"
#include "etude/onnx/conversions.h"
#include "etude/onnx/model.h"

namespace etude::onnx::internal {

inline constexpr std::string_view kCallKey = "etude.call", kNodesKey = "etude.nodes";
// The metadata of a reduction: the order of axes in which the function adds up, "0 2 3 1".
inline constexpr std::string_view kOrderKey = "etude.order";
std::string order_text(const std::vector<int64_t>& order);
// None if the text is no order of axes.
std::optional<std::vector<int64_t>> parse_order(std::string_view text);

// A graph of one call on inputs x0, x1, ... of these types; null is an absent operand. Its outputs
// are the results.
// throws: the errors of the type rule.
GraphRef graph_of_call(const Op& op, const Attrs& attrs, std::span<const Type* const> types,
                       CallSite where = {});
// The call of such a graph as text, and the graph of a text on operands of these types; null if the
// text is no such call.
std::string call_text(const Graph& call);
GraphRef parse_call(const std::string& text, std::span<const Type* const> types);

// Whether nodes of the call are a formula: of an element-wise op, or of a conversion that states
// it.
bool has_formula(const Op& op, const Conversion* conversion);
// The nodes of the call of such a graph. The inputs of the result are the inputs of the graph, with
// their names; its outputs are the results.
// throws: kUnimplemented for a call without a form in ONNX.
GraphModel nodes_of_call(Writing& writing, const Graph& call);
// Removes the outputs whose entry is false, and the nodes and constants that only they need.
void keep_outputs(GraphModel& nodes, const std::vector<bool>& are_kept);

// Adds the nodes to a graph, on these inputs. Returns the outputs.
std::vector<Value> add_nodes(GraphModel nodes, const std::vector<Value>& inputs, GraphModel& to);

// A place in a formula: an input or an output of a node.
struct Place {
  std::size_t node = 0, index = 0;
};
struct Places {
  std::size_t nodes = 0;
  std::vector<Place> operands;
  std::vector<std::optional<Place>> results;
};
std::string places_text(const Places& places);
// None if the text has another form, or a place in no node of the formula.
std::optional<Places> parse_places(std::string_view text);

// Replaces nodes that have a formula by its nodes, in graphs of attributes too.
void write_formulas(GraphModel& graph);

}  // namespace etude::onnx::internal
