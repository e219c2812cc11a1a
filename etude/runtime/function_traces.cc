// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/function_traces.h"

#include <algorithm>

#include "etude/core/builtin.h"
#include "etude/graph/family.h"
#include "etude/runtime/plan.h"

namespace etude::internal {

Trace::Trace() = default;
Trace::~Trace() = default;

void Trace::set_graph(GraphRef made) {
  graph = std::move(made);
  attrs = graph_attrs(*graph);
  keys = static_cast<std::size_t>(std::ranges::count_if(
      graph->inputs(), [](const Graph::Input& i) { return i.role == InputRole::kKey; }));
  plan = Plan::of(*graph);
  // Assigning Variables and changing the form of an argument may fail after the run.
  if (!variables.empty() || arguments != nullptr || in_out.empty() || plan->donations() == 0)
    return;
  given.resize(graph->inputs().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    given[i] = in_out[static_cast<std::size_t>(inputs[i])];
  }
}

void FunctionCore::keep(const TraceRef& trace) {
  const std::unique_lock lock(kept_->mutex);
  // One that captures values of a trace that is over serves nobody.
  std::erase_if(kept_->traces,
                [](const TraceRef& t) { return t->enclosing && t->enclosing->is_over; });
  if (options_.max_traces > 0 && kept_->traces.size() >= options_.max_traces) {
    kept_->traces.erase(std::ranges::min_element(kept_->traces, {}, [](const TraceRef& t) {
      return t->last_use.load(std::memory_order_relaxed);
    }));
    kept_->instances.clear();  // some may be of its family
  }
  kept_->traces.push_back(trace);
}

TraceRef FunctionCore::keep_instance(const TraceRef& instance) {
  constexpr std::size_t kMostInstances = 32;
  const std::unique_lock lock(kept_->mutex);
  if (kept_->instances.size() >= kMostInstances) kept_->instances.erase(kept_->instances.begin());
  kept_->instances.push_back(instance);
  return instance;
}

std::vector<TraceRef> FunctionCore::traces() const {
  const std::shared_lock lock(kept_->mutex);
  return kept_->traces;
}

}  // namespace etude::internal
