// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/function_traces.h"

#include <algorithm>

#include "etude/core/builtin.h"
#include "etude/graph/family.h"
#include "etude/runtime/plan.h"
#include "etude/runtime/trace.h"

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

bool is_in_its_vmaps(const Trace& trace) {
  return std::ranges::all_of(trace.captures, [](const Tensor& x) {
    return !TensorAccess::is_ghost(x) || trace_of(x) != nullptr || TraceContext::is_example(x);
  });
}

namespace {

bool is_useless(const Trace& trace) {
  const auto is_gone = [](const HostValue& x) {
    return x.is_gone != nullptr && x.is_gone(x.value);
  };
  return (trace.enclosing && trace.enclosing->is_over) ||
         (trace.has_examples && !is_in_its_vmaps(trace)) ||
         std::ranges::any_of(trace.key.objects, is_gone);
}

}  // namespace

void FunctionCore::Kept::drop_useless() const {
  std::vector<TraceRef> dying;  // after the lock: what they hold may call the function
  const std::unique_lock lock(mutex);
  for (auto* list : {&traces, &instances}) {
    for (TraceRef& trace : *list) {
      if (is_useless(*trace)) dying.push_back(std::move(trace));
    }
    std::erase_if(*list, [](const TraceRef& trace) { return !trace; });
  }
}

void FunctionCore::keep(const TraceRef& trace) {
  kept_->drop_useless();
  kept_->was_traced = true;
  const std::unique_lock lock(kept_->mutex);
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
  kept_->drop_useless();
  const std::shared_lock lock(kept_->mutex);
  return kept_->traces;
}

}  // namespace etude::internal
