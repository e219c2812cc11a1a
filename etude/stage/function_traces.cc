// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/function_traces.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "etude/base/warning.h"
#include "etude/core/call/builtin.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/plan/plan.h"
#include "etude/stage/trace.h"

namespace etude::internal {

namespace {

constexpr std::size_t kMostGraphs = 16, kMostInputs = 8;

// "x: float32[n,3]" for each tensor of the arguments.
std::vector<std::string> input_texts(const Trace& trace) {
  std::vector<std::string> out;
  std::size_t given = 0;
  for (std::size_t k = 0; k < trace.key.types.size(); ++k) {
    const Type* type = trace.key.types[k];
    if (type == nullptr) {
      out.push_back(trace.names.tensors[k] + ": absent");
      continue;
    }
    const std::string size = trace.symbolic ? trace.symbolic->input_text(given) : type->to_string();
    out.push_back(trace.graph->inputs()[given++].name + ": " + size);
  }
  return out;
}

// Whether input k differs between the graphs.
bool differs(std::span<const std::vector<std::string>> inputs, std::size_t k) {
  return std::ranges::any_of(inputs, [&](const std::vector<std::string>& other) {
    return k >= other.size() || k >= inputs.front().size() || other[k] != inputs.front()[k];
  });
}

// The inputs of one of the graphs. If there are too many to show, inputs that differ come first.
std::string shown_inputs(std::span<const std::vector<std::string>> all, std::size_t graph,
                         std::size_t most) {
  std::vector<std::string> own = all[graph];
  if (own.size() <= most) return fmt::format("{}", fmt::join(own, ", "));
  std::vector<std::string> shown;
  for (const bool differing : {true, false}) {
    for (std::size_t k = 0; k < own.size() && shown.size() < most; ++k) {
      if (differs(all, k) == differing) shown.push_back(std::move(own[k]));
    }
  }
  return fmt::format("{}, and {} more", fmt::join(shown, ", "), own.size() - shown.size());
}

}  // namespace

std::string FunctionCore::explain(const ExplainOptions& options) const {
  const std::vector<TraceRef> known = traces();
  const std::size_t most = options.all ? known.size() : kMostGraphs;
  const std::size_t first = known.size() - std::min(known.size(), most);
  std::string text = fmt::format("function '{}': {} {}\n", name(), known.size(),
                                 known.size() == 1 ? "trace" : "traces");
  if (first > 0) {
    text += fmt::format("traces 1 to {}: explain({{.all = true}}) shows them\n", first);
  }
  std::vector<std::vector<std::string>> inputs;
  for (std::size_t i = first; i < known.size(); ++i) inputs.push_back(input_texts(*known[i]));
  for (std::size_t i = first; i < known.size(); ++i) {
    const Trace& t = *known[i];
    const std::size_t shown = options.all ? inputs[i - first].size() : kMostInputs;
    text += fmt::format("trace {} ({}), {} nodes: {}", i + 1,
                        shown_inputs(inputs, i - first, shown), t.graph->size(), t.cause);
    if (!t.not_generalised.empty()) text += "; for these sizes only: " + t.not_generalised;
    text += t.where.known() ? fmt::format("  # {}:{}\n", t.where.file, t.where.line) : "\n";
  }
  return text;
}

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
    return !TensorAccess::is_abstract(x) || trace_of(x) != nullptr ||
           TraceContext::is_any_example(x);
  });
}

namespace {

// Whether it may be useless some day.
bool may_end(const Trace& trace) {
  return trace.enclosing || trace.has_examples ||
         std::ranges::any_of(trace.key.objects,
                             [](const HostValue& x) { return x.is_gone != nullptr; });
}

bool is_useless(const Trace& trace) {
  const auto is_gone = [](const HostValue& x) {
    return x.is_gone != nullptr && x.is_gone(x.value);
  };
  return (trace.enclosing && trace.enclosing->is_over) ||
         (trace.has_examples && !is_in_its_vmaps(trace)) ||
         std::ranges::any_of(trace.key.objects, is_gone);
}

}  // namespace

void note_use(const Trace& trace) noexcept {
  static std::atomic<uint64_t> clock{1};
  trace.last_use.store(clock.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
}

void TraceIndex::add(const TraceRef& trace, bool is_instance) {
  constexpr uint64_t kTraceFirst = uint64_t{1} << 63;
  entries_.emplace(trace->key.hash(), Entry{trace, ++next_ | (is_instance ? 0 : kTraceFirst)});
}

void TraceIndex::remove(const Trace& trace) {
  const auto [begin, end] = entries_.equal_range(trace.key.hash());
  for (auto at = begin; at != end; ++at) {
    if (at->second.trace.get() != &trace) continue;
    entries_.erase(at);
    return;
  }
}

void FunctionCore::Kept::drop_useless() const {
  std::vector<TraceRef> dying;  // after the lock: their destructors may call the function
  {
    const std::shared_lock lock(mutex);
    if (ending == 0) return;
  }
  const std::unique_lock lock(mutex);
  for (auto* list : {&traces, &instances}) {
    for (TraceRef& trace : *list) {
      if (!is_useless(*trace)) continue;
      forget(*trace);
      dying.push_back(std::move(trace));
    }
    std::erase_if(*list, [](const TraceRef& trace) { return !trace; });
  }
}

void FunctionCore::Kept::add(std::vector<TraceRef>& list, const TraceRef& trace) {
  if (index == nullptr && traces.size() + instances.size() >= kMostUnindexed) {
    auto made = std::make_unique<TraceIndex>();
    for (const TraceRef& known : instances) made->add(known, true);
    for (const TraceRef& known : traces) made->add(known, false);
    index = std::move(made);
  }
  list.push_back(trace);
  if (index != nullptr) index->add(trace, &list == &instances);
  ending += may_end(*trace) ? 1 : 0;
}

void FunctionCore::Kept::forget(const Trace& trace) const {
  if (index != nullptr) index->remove(trace);
  ending -= may_end(trace) ? 1 : 0;
}

namespace {

// Takes the least recently used traces out of the list, several of a long list at a time.
void take_least_used(std::vector<TraceRef>& traces, std::vector<TraceRef>& out) {
  constexpr std::size_t kPart = 64;
  const std::size_t count = std::max<std::size_t>(1, traces.size() / kPart);
  std::vector<uint64_t> uses;
  for (const TraceRef& t : traces) uses.push_back(t->last_use.load(std::memory_order_relaxed));
  std::ranges::nth_element(uses, uses.begin() + static_cast<std::ptrdiff_t>(count - 1));
  const uint64_t last = uses[count - 1];
  std::size_t taken = 0;
  for (TraceRef& t : traces) {  // in the order in which they were made
    if (taken == count || t->last_use.load(std::memory_order_relaxed) > last) continue;
    out.push_back(std::move(t));
    ++taken;
  }
  std::erase_if(traces, [](const TraceRef& t) { return !t; });
}

void warn_of_limit(const std::string& function, std::size_t limit) {
  warn(fmt::format(
      "function '{}' has {} graphs, the maximum (FunctionOptions::max_traces). The least recently "
      "used graphs are dropped now, and calls that need them trace again. Usual cause: a number of "
      "the host that changes from call to call. Pass it as a tensor",
      function, limit));
}

}  // namespace

void FunctionCore::keep(const TraceRef& trace) {
  kept_->drop_useless();
  bool warns = false;
  {
    std::vector<TraceRef> dying;  // after the lock: their destructors may call the function
    const std::unique_lock lock(kept_->mutex);
    kept_->was_traced = true;
    note_use(*trace);
    if (options_.max_traces > 0 && kept_->traces.size() >= options_.max_traces) {
      dying.swap(kept_->instances);  // some may be of its symbolic graph
      take_least_used(kept_->traces, dying);
      for (const TraceRef& gone : dying) kept_->forget(*gone);
      warns = !std::exchange(kept_->has_warned, true) && options_.max_traces > kMostUnindexed;
    }
    kept_->add(kept_->traces, trace);
  }
  if (warns) warn_of_limit(name(), options_.max_traces);
}

TraceRef FunctionCore::keep_instance(const TraceRef& instance) {
  constexpr std::size_t kMostInstances = 32;
  TraceRef dying;
  const std::unique_lock lock(kept_->mutex);
  if (kept_->instances.size() >= kMostInstances) {
    dying = std::move(kept_->instances.front());
    kept_->forget(*dying);
    kept_->instances.erase(kept_->instances.begin());
  }
  kept_->add(kept_->instances, instance);
  return instance;
}

bool FunctionCore::is_untraced() const {
  const std::shared_lock lock(kept_->mutex);
  return !kept_->was_traced && kept_->first_runs.empty();
}

TracingTicket FunctionCore::take_ticket(const Arguments& call) const {
  return take_tracing_ticket(*this, call, [this] { return is_untraced(); });
}

std::vector<TraceRef> FunctionCore::traces() const {
  kept_->drop_useless();
  const std::shared_lock lock(kept_->mutex);
  return kept_->traces;
}

}  // namespace etude::internal
