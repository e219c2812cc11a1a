// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/function_traces.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "etude/base/internal/hash.h"
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
    const std::string size = trace.symbolic
                                 ? trace.symbolic->type_text(static_cast<GraphValue>(given))
                                 : type->to_string();
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

namespace {

uint64_t mix_form(uint64_t h, const Type* type) {
  if (type == nullptr) return mix(h, 0);
  return mix(h,
             static_cast<uint64_t>(type->dtype()) * 64 + static_cast<uint64_t>(type->rank()) + 1);
}

// After the types: the other parts of a key.
uint64_t mix_rest(uint64_t h, std::span<const uint64_t> words, Phase phase) {
  h = mix(h, words.size());
  for (const uint64_t word : words) h = mix(h, word);
  return mix(h, static_cast<uint64_t>(phase));
}

bool is(const TraceRef& ref, const Trace& trace) { return ref.get() == &trace; }

void erase_from(std::vector<TraceRef>& list, const Trace& trace) noexcept {
  const auto at = std::ranges::find_if(list, [&](const TraceRef& t) { return is(t, trace); });
  if (at != list.end()) list.erase(at);
}

// So that the next push_back() does not throw.
void make_room(std::vector<TraceRef>& list) {
  if (list.size() == list.capacity()) list.reserve(std::max<std::size_t>(8, 2 * list.size()));
}

}  // namespace

uint64_t form_hash(const TraceKey& key) {
  uint64_t h = key.types.size();
  for (const Type* type : key.types) h = mix_form(h, type);
  return mix_rest(h, key.words, key.phase);
}

uint64_t form_hash(const Arguments& call) {
  uint64_t h = call.tensors.size();
  for (const Tensor* x : call.tensors) h = mix_form(h, x->has_value() ? x->type() : nullptr);
  return mix_rest(h, {call.words.begin(), call.words.size()}, ambient().phase);
}

void TraceIndex::add(const TraceRef& trace, bool is_instance) {
  constexpr uint64_t kTraceFirst = uint64_t{1} << 63;
  if (is_instance) {
    entries_.emplace(trace->key.hash(), Entry{trace, ++next_});
    return;
  }
  Form& form = forms_[form_hash(trace->key)];
  make_room(form.traces);
  if (trace->symbolic) make_room(form.symbolic);
  entries_.emplace(trace->key.hash(), Entry{trace, ++next_ | kTraceFirst});
  form.traces.push_back(trace);
  if (trace->symbolic) form.symbolic.push_back(trace);
}

void TraceIndex::remove(const Trace& trace) noexcept {
  const auto [begin, end] = entries_.equal_range(trace.key.hash());
  const auto at =
      std::find_if(begin, end, [&](const auto& entry) { return is(entry.second.trace, trace); });
  if (at != end) entries_.erase(at);
  const auto form = forms_.find(form_hash(trace.key));
  if (form == forms_.end()) return;
  erase_from(form->second.symbolic, trace);
  erase_from(form->second.traces, trace);
  if (form->second.traces.empty()) forms_.erase(form);
}

std::vector<TraceRef> TraceIndex::latest_of_form(uint64_t form) const {
  const auto at = forms_.find(form);
  if (at == forms_.end()) return {};
  const std::vector<TraceRef>& all = at->second.traces;
  const std::size_t count = std::min(all.size(), kMostOfForm);
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

std::vector<TraceRef> TraceIndex::symbolic_of_form(uint64_t form) const {
  const auto at = forms_.find(form);
  return at == forms_.end() ? std::vector<TraceRef>() : at->second.symbolic;
}

std::vector<TraceRef> FunctionCore::Kept::latest_of_form(const Arguments& call) const {
  drop_useless();
  const std::shared_lock lock(mutex);
  return index == nullptr ? traces : index->latest_of_form(form_hash(call));
}

std::vector<TraceRef> FunctionCore::Kept::symbolic_of_form(const Arguments& call) const {
  drop_useless();
  const std::shared_lock lock(mutex);
  if (index != nullptr) return index->symbolic_of_form(form_hash(call));
  std::vector<TraceRef> out;
  std::ranges::copy_if(traces, std::back_inserter(out),
                       [](const TraceRef& trace) { return trace->symbolic.get() != nullptr; });
  return out;
}

void FunctionCore::Kept::drop_useless() const {
  std::vector<TraceRef> dying;  // after the lock: their destructors may call the function
  {
    const std::shared_lock lock(mutex);
    if (ending == 0) return;
  }
  const std::unique_lock lock(mutex);
  dying.reserve(ending);  // without memory nothing has changed
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
  make_room(list);
  if (index == nullptr && traces.size() + instances.size() >= kMostUnindexed) {
    auto made = std::make_unique<TraceIndex>();
    for (const TraceRef& known : instances) made->add(known, true);
    for (const TraceRef& known : traces) made->add(known, false);
    index = std::move(made);
  }
  if (index != nullptr) index->add(trace, &list == &instances);
  list.push_back(trace);
  ending += may_end(*trace) ? 1 : 0;
}

void FunctionCore::Kept::forget(const Trace& trace) const noexcept {
  if (index != nullptr) index->remove(trace);
  ending -= may_end(trace) ? 1 : 0;
}

namespace {

// Takes the least recently used traces out of the list, several of a long list at a time, and all
// of `others`. If it throws, nothing has changed.
void take_least_used(std::vector<TraceRef>& traces, std::vector<TraceRef>& others,
                     std::vector<TraceRef>& out) {
  constexpr std::size_t kPart = 64;
  const std::size_t count = std::max<std::size_t>(1, traces.size() / kPart);
  std::vector<uint64_t> uses;
  out.reserve(count + others.size());
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
  std::ranges::move(others, std::back_inserter(out));
  others.clear();
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
    note_use(*trace);
    if (options_.max_traces > 0 && kept_->traces.size() >= options_.max_traces) {
      // All instances go: some may be of the symbolic graph of a dropped trace.
      take_least_used(kept_->traces, kept_->instances, dying);
      for (const TraceRef& gone : dying) kept_->forget(*gone);
      warns = !std::exchange(kept_->has_warned, true) && options_.max_traces > kMostUnindexed;
    }
    kept_->add(kept_->traces, trace);
    kept_->was_traced = true;
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
