// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/retrace.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "etude/base/internal/fork_lock.h"
#include "etude/base/warning.h"
#include "etude/core/call/call_scope.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/stage/function.h"

namespace etude::internal {

std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(int64_t value) { return std::to_string(value); }
std::string value_text(double value) { return fmt::format("{}", value); }

namespace {

std::string type_text(const Type* type) { return type == nullptr ? "absent" : type->to_string(); }

// The type of tensor i of the arguments: "float32[n,3]" in a symbolic graph.
std::string type_text(const Trace& trace, std::size_t i) {
  const Type* type = trace.key.types[i];
  if (type == nullptr || !trace.symbolic) return type_text(type);
  const auto input = std::ranges::find(trace.inputs, static_cast<int32_t>(i));
  return trace.symbolic->type_text(static_cast<GraphValue>(input - trace.inputs.begin()));
}

std::string_view phase_text(Phase phase) {
  return phase == Phase::kTraining ? "training" : "inference";
}

bool same_structure(const TraceKey& a, const TraceKey& b) {
  return a.types.size() == b.types.size() && a.words.size() == b.words.size() &&
         a.objects.size() == b.objects.size();
}

// The number of parts that differ.
std::size_t distance(const TraceKey& a, const TraceKey& b) {
  if (!same_structure(a, b)) return ~std::size_t{0};
  std::size_t n = a.phase != b.phase ? 1 : 0;
  for (std::size_t i = 0; i < a.types.size(); ++i) n += a.types[i] != b.types[i];
  for (std::size_t i = 0; i < a.words.size(); ++i) n += a.words[i] != b.words[i];
  return n;
}

std::string difference_of_word(const Trace& trace, std::size_t n, std::size_t i,
                               const ArgumentNames& names) {
  const std::string &now = names.values[i], &before = trace.names.values[i];
  if (now.empty() || before.empty() || now == before) {
    return fmt::format("{} is another host value than in trace {}", names.words[i], n);
  }
  return fmt::format("{} is {}, was {} in trace {}", names.words[i], now, before, n);
}

}  // namespace

std::string difference_from(const Trace& trace, std::size_t n, const TraceKey& key,
                            const ArgumentNames& names) {
  if (!same_structure(key, trace.key)) {
    return fmt::format("the arguments have another structure than in trace {}", n);
  }
  for (std::size_t i = 0; i < key.types.size(); ++i) {
    if (key.types[i] == trace.key.types[i]) continue;
    return fmt::format("{} is {}, was {} in trace {}", names.tensors[i], type_text(key.types[i]),
                       type_text(trace, i), n);
  }
  for (std::size_t i = 0; i < key.words.size(); ++i) {
    if (key.words[i] != trace.key.words[i]) return difference_of_word(trace, n, i, names);
  }
  if (key.phase != trace.key.phase) {
    return fmt::format("the phase is {}, was {} in trace {}", phase_text(key.phase),
                       phase_text(trace.key.phase), n);
  }
  if (key.default_dtype != trace.key.default_dtype) {
    return fmt::format("the default dtype is {}, was {} in trace {}", name(key.default_dtype),
                       name(trace.key.default_dtype), n);
  }
  if (key.promotion != trace.key.promotion) {
    return fmt::format("ambient().promotion is another than in trace {}", n);
  }
  return fmt::format("a host object among the arguments differs from that in trace {}", n);
}

namespace {

// The difference between a call and the arguments that the graph was made for.
std::string unfit_text(const Trace& trace, const TraceKey& key, const ArgumentNames& names) {
  if (!same_structure(key, trace.key))
    return "the arguments have another structure than it was made for";
  for (std::size_t i = 0; i < key.words.size(); ++i) {
    if (key.words[i] == trace.key.words[i]) continue;
    return fmt::format("{} is {}, but the graph was made for {}: host values are fixed in it",
                       names.words[i], names.values[i], trace.names.values[i]);
  }
  std::size_t input = 0;
  for (std::size_t i = 0; i < key.types.size(); ++i) {
    const bool is_there = trace.key.types[i] != nullptr;
    const std::size_t at = input;
    input += is_there ? 1 : 0;
    if (key.types[i] == trace.key.types[i]) continue;
    if (is_there && trace.symbolic && trace.symbolic->may_take(at, key.types[i])) continue;
    return fmt::format("{} is {}, but the graph was made for {}", names.tensors[i],
                       type_text(key.types[i]), type_text(trace, i));
  }
  return "it was made for another combination of sizes, Variable, host object or phase";
}

}  // namespace

void throw_unfit(const Trace& trace, const Arguments& call, const ArgumentNames& names,
                 CallSite where) {
  Error error(
      ErrorCode::kInvalidArgument,
      fmt::format("graph function '{}': {}. Call the function, which makes a graph for these "
                  "arguments",
                  trace.graph->name(), unfit_text(trace, TraceKey(call), names)));
  error.locate(user_line(where));
  throw error;
}

std::shared_ptr<RetraceMonitor> RetraceMonitor::of(CallSite where, std::type_index callable) {
  if (!where.known()) return std::make_shared<RetraceMonitor>();
  struct Table {
    ForkSafeMutex mutex;
    std::map<std::tuple<std::string, int, std::type_index>, std::shared_ptr<RetraceMonitor>> made;
  };
  static Table* table = new Table;
  const std::lock_guard lock(table->mutex);
  auto& history = table->made[{where.file, where.line, callable}];
  if (!history) history = std::make_shared<RetraceMonitor>();
  return history;
}

bool RetraceMonitor::note_trace() {
  const std::lock_guard lock(mutex_);
  const uint64_t now = calls_.load(std::memory_order_relaxed);
  at_[traces_++ % kTraces] = now;
  if (traces_ < kTraces || warnings_ == kMostWarnings) return false;
  if (now - at_[traces_ % kTraces] >= kCalls) return false;
  ++warnings_;
  traces_ = 0;
  return true;
}

void warn_of_traces(const std::string& function, std::span<const TraceRef> before,
                    const TraceKey& key, const ArgumentNames& names, CallSite where) {
  std::string difference = "it is made again for each call";
  if (!before.empty()) {
    const auto nearest = std::ranges::min_element(
        before, {}, [&](const TraceRef& trace) { return distance(trace->key, key); });
    difference = difference_from(**nearest, static_cast<std::size_t>(nearest - before.begin()) + 1,
                                 key, names);
  }
  const std::string line =
      where.known() ? fmt::format(" at {}:{}", where.file, where.line) : std::string();
  warn(fmt::format(
      "function '{}' was traced 5 times within 10 calls, the last time{}: {}. Tracing is slow. "
      "Usual causes: a number of the host that changes from call to call (pass a tensor), shapes "
      "that host code looks at (explain() says where), function() inside a loop (make it once)",
      function, line, difference));
}

}  // namespace etude::internal
