// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/facts.h"

#include "etude/core/call/located.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

// Prepares the call like the planner, without types that follow from the record; null without a
// kernel.
RefPtr<const Prepared> prepared(const Graph& graph, const Graph::Node& node) {
  const Types types = operand_types(graph, node);
  const PrepareRule rule = node.op.kernel(device_of(node.op, types, node.attrs).kind());
  if (rule == nullptr) return {};
  auto out = make_ref<Prepared>();
  out->results = result_types(graph, node);
  located(node.op, node.where, [&] { rule({node.op, types, node.attrs, *out}); });
  return out;
}

}  // namespace

bool is_cheap(const Op& op) { return op.def().is_cheap || op.def().kind == Kind::kElementwise; }

int viewed_operand(const Graph& graph, const Graph::Node& node) {
  if (!node.op.def().is_cheap) return -1;
  const auto p = prepared(graph, node);
  return p ? p->view_of : -1;
}

bool takes_all_elements(const Graph& graph, const Graph::Node& node) {
  const OpDef& def = node.op.def();
  const Device device = device_of(node.op, operand_types(graph, node), node.attrs);
  if (def.effect != Effect::kNone || node.op.kernel(device.kind()) == nullptr) return false;
  const bool is_total = def.is_cheap || def.kind == Kind::kLinear;
  if (is_total && node.op.is_uniform()) return true;
  return is_cheap(node.op) && prepared(graph, node)->never_faults;
}

}  // namespace etude::internal
