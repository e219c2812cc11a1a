// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/unroll.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/graph_calls.h"
#include "etude/core/op/registry.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/inline.h"

namespace etude::aot {
namespace {

using internal::GraphCopy;
using Draft = GraphBuilder::Draft;

// A call of scan. Its operands are carried values, tensors with a row for each step, and
// invariants. Its results are the carried values and the stacked further results of the steps.
struct Loop {
  const Graph* body = nullptr;
  std::size_t carried = 0, rows = 0, steps = 0;
  bool is_reverse = false;

  std::size_t row_of(std::size_t step) const { return is_reverse ? steps - 1 - step : step; }
  // With the nodes that take rows and stack results.
  std::size_t nodes() const {
    return steps * (body->size() + 2 * rows) + body->outputs().size() - carried;
  }
};

bool is_loop(const Graph::Node& node) {
  static const Op& scan = Registry::global().at("internal.scan");
  return &node.op == &scan && node.attrs.integer("length") > 0;
}

Loop loop_of(const Graph::Node& node) {
  const auto* body = dynamic_cast<const Graph*>(&node.attrs.object("body"));
  ETUDE_CHECK(body != nullptr, "the body of a scan is no graph");
  return {body, static_cast<std::size_t>(node.attrs.integer("carried")),
          static_cast<std::size_t>(node.attrs.integer("rows")),
          static_cast<std::size_t>(node.attrs.integer("length")), node.attrs.flag("reverse")};
}

// Appends the steps of one loop.
class Unroller {
 public:
  Unroller(GraphCopy& copy, const Graph::Node& node)
      : copy_(copy), node_(node), loop_(loop_of(node)) {}

  void run() {
    const auto given = copy_.operands(node_);
    const std::vector<Draft> operands(given.begin(), given.end());
    const auto first_invariant =
        operands.begin() + static_cast<std::ptrdiff_t>(loop_.carried + loop_.rows);
    std::vector<Draft> carried(operands.begin(),
                               operands.begin() + static_cast<std::ptrdiff_t>(loop_.carried));
    std::vector<std::vector<Draft>> kept(loop_.body->outputs().size() - loop_.carried,
                                         std::vector<Draft>(loop_.steps));
    for (std::size_t step = 0; step < loop_.steps; ++step) {
      std::vector<Draft> inputs = carried;
      for (std::size_t i = 0; i < loop_.rows; ++i) {
        inputs.push_back(row(operands[loop_.carried + i], loop_.carried + i, step));
      }
      inputs.insert(inputs.end(), first_invariant, operands.end());
      const std::vector<Draft> out =
          internal::splice(copy_.build(), *loop_.body, inputs, node_.where, node_.frame);
      std::copy_n(out.begin(), loop_.carried, carried.begin());
      for (std::size_t k = 0; k < kept.size(); ++k) {
        kept[k][loop_.row_of(step)] = out[loop_.carried + k];
      }
    }
    GraphValue result = node_.first_result;
    for (const Draft draft : carried) copy_.set(result++, draft);
    for (const std::vector<Draft>& each : kept) {
      copy_.set(result, add(internal::stack_call(), each, copy_.graph().type(result)));
      ++result;
    }
  }

 private:
  // The row of a step: a view of the operand without the axis of the steps.
  Draft row(Draft all, std::size_t input, std::size_t step) {
    static const Op& reshape = Registry::global().at("reshape");
    const Type* const type = loop_.body->inputs()[input].type;
    std::vector<int64_t> sizes = type->shape().to_vector();
    const Attrs shape = reshape.attrs_by_name({{"shape", sizes}});
    sizes.insert(sizes.begin(), 1);
    const auto at = static_cast<int64_t>(loop_.row_of(step));
    const Draft part = add(internal::rows_call(at, at + 1), {all},
                           intern_type(type->dtype(), Shape(sizes), type->device()));
    return add({reshape, shape}, {part}, type);
  }

  Draft add(const internal::OpCall& call, const std::vector<Draft>& operands, const Type* type) {
    copy_.build().set_frame(node_.frame);
    return copy_.build().add_node(call.op, call.attrs, operands, {type}, node_.where);
  }

  GraphCopy& copy_;
  const Graph::Node node_;
  const Loop loop_;
};

// One level of loops, if they fit.
GraphRef unrolled_once(const Graph& graph, std::size_t most_nodes) {
  std::size_t nodes = graph.size();
  std::vector<bool> goes(graph.size());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (!is_loop(graph.node(i))) continue;
    const std::size_t more = loop_of(graph.node(i)).nodes();
    goes[i] = more <= most_nodes - std::min(nodes, most_nodes);
    if (goes[i]) nodes += more;
  }
  if (std::ranges::count(goes, true) == 0) return GraphRef(&graph);
  GraphCopy copy(graph);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (goes[i]) {
      Unroller(copy, graph.node(i)).run();
    } else {
      copy.copy(graph.node(i));
    }
  }
  return copy.finish();
}

}  // namespace

GraphRef unrolled(const Graph& graph, std::size_t most_nodes) {
  GraphRef current = internal::inline_calls(graph);
  for (;;) {
    GraphRef next = unrolled_once(*current, most_nodes);
    if (next.get() == current.get()) return current;
    current = std::move(next);
  }
}

}  // namespace etude::aot
