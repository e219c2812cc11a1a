// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/key_inputs.h"

#include <algorithm>
#include <span>

#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/core/op/op.h"
#include "etude/stage/trace.h"

namespace etude::internal {

std::optional<std::size_t> first_reader(const Graph& graph, std::size_t input) {
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const std::span<const GraphValue> operands = graph.node(i).operands;
    if (std::ranges::find(operands, static_cast<GraphValue>(input)) != operands.end()) return i;
  }
  return std::nullopt;
}

Tensor unread_key() { return Generator().next_key(); }

Tensor key_for_input(const Graph& graph, std::size_t input) {
  Tensor key = next_key_or_none();
  if (key.has_value() && TraceContext::innermost() == nullptr) return key;
  const std::optional<std::size_t> reader = first_reader(graph, input);
  if (!reader) return unread_key();
  if (key.has_value()) return key;
  const Graph::Node node = graph.node(*reader);
  return located(node.op.name(), node.where, []() -> Tensor { throw_refused_draw(); });
}

}  // namespace etude::internal
