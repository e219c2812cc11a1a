// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/queued_steps.h"

#include <utility>
#include <vector>

#include "etude/core/internal/late_calls.h"
#include "etude/core/op/op.h"

namespace etude::internal {
namespace {

struct NotedParams : KernelParams {
  RefPtr<Prepared> call;
  RefPtr<const LateCall> note;
};

RefPtr<const LateCall> late_call_of(const Graph& graph, const Graph::Node& node) {
  auto call = make_ref<LateCall>(node.op, node.attrs, node.where);
  std::vector<const Graph::Frame*> frames;  // of inlined functions, innermost first
  for (uint32_t f = node.frame; f != Graph::kNoFrame; f = graph.frames()[f].outer) {
    frames.push_back(&graph.frames()[f]);
  }
  for (std::size_t i = frames.size(); i-- > 0;) {
    auto caller = make_ref<LateCaller>();
    caller->function = frames[i]->function;
    caller->where = frames[i]->where;
    caller->outer = std::move(call->callers);
    call->callers = caller;
  }
  return call;
}

}  // namespace

KernelState noted_state(const Graph& graph, std::size_t i, const RefPtr<Prepared>& call,
                        RefPtr<const RefCounted>& owner) {
  auto params = make_ref<NotedParams>();
  params->call = call;
  params->note = late_call_of(graph, graph.node(i));
  owner = params;
  return {params.get(), call->state.stream};
}

bool run_noted(const KernelCall& call) {
  const auto& p = *static_cast<const NotedParams*>(call.params);
  const LateCallScope scope(p.note);
  return p.call->run({p.call->state, call.out, call.in});
}

}  // namespace etude::internal
