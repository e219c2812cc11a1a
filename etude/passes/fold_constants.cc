// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/fold_constants.h"

#include <vector>

#include "etude/core/context/context.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

constexpr int64_t kMostBytes = 16 << 10;  // of all operands, and of all results

// The results of the node; empty if it is not to be folded.
Values folded(GraphCopy& copy, const Graph::Node& node) {
  if (internal::has_effects(node.op, node.attrs)) return {};
  std::vector<Tensor> operands;
  int64_t bytes_in = 0, bytes_out = 0;
  for (const GraphValue v : node.operands) {
    if (v == kNoValue) {
      operands.emplace_back();
      continue;
    }
    const Tensor* x = copy.build().constant(copy.at(v));
    if (x == nullptr) return {};
    bytes_in += x->type()->bytes();
    operands.push_back(*x);
  }
  for (const Type* type : result_types(copy.graph(), node)) {
    if (type == nullptr) return {};
    bytes_out += type->bytes();
  }
  if (bytes_in > kMostBytes || bytes_out > kMostBytes) return {};
  const OperandList list{std::span<const Tensor>(operands)};
  try {
    return execute(node.op, list.view(), node.attrs, node.where);
  } catch (const Error& error) {
    if (may_pass(error.code())) throw;
    return {};  // the call fails when it runs, if it does
  }
}

}  // namespace

GraphRef fold_constants(const Graph& graph) {
  GraphCopy copy(graph);
  bool has_any = false;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    const Values results = folded(copy, node);
    if (results.size() == 0 || results.size() != node.results) {
      copy.copy(node);
      continue;
    }
    has_any = true;
    for (uint32_t r = 0; r < node.results; ++r) {
      copy.set(node.first_result + r, copy.build().add_constant(to_dense(results[r])));
    }
  }
  return has_any ? copy.finish() : GraphRef(&graph);
}

}  // namespace etude::internal
