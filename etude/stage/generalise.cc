// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/generalise.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "etude/plan/plan.h"
#include "etude/stage/function_traces.h"

namespace etude::internal {
namespace {

// With more traces than these a new trace is compared with the latest only.
constexpr int kMostCompared = 4;

// Thunks of one type and line are equal: their captures could differ by sizes only if host code had
// read these.
bool same_source(const CallTimeValue* a, const CallTimeValue* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->callable == b->callable && a->where.line == b->where.line &&
         std::string_view(a->where.file) == b->where.file;
}

bool same_variable(const VariableSlot& a, const VariableSlot& b) {
  return !a.state.owner_before(b.state) && !b.state.owner_before(a.state) &&
         a.argument == b.argument && a.type == b.type && a.is_read == b.is_read &&
         a.is_written == b.is_written && same_source(a.source.get(), b.source.get());
}

// The reason why two traces form no symbolic graph, apart from their graphs; "" if none.
std::string difference_outside(const Trace& a, const Trace& b) {
  if (a.enclosing || b.enclosing) return "it uses values of the function around it";
  if (a.has_examples || b.has_examples) return "it uses examples of a vmap around it";
  if (a.fixes_sizes || b.fixes_sizes) return "it returns sparse rows in an argument";
  const auto same_tensor = [](const Tensor& x, const Tensor& y) { return x.ref() == y.ref(); };
  if (!std::ranges::equal(a.captures, b.captures, same_tensor)) {
    return "it uses other tensors from outside";
  }
  const bool same = std::ranges::equal(a.variables, b.variables, same_variable);
  if (!same || a.keys != b.keys || a.outputs != b.outputs) return "it uses other Variables";
  return "";
}

SymbolicFound symbolic_graph_of(const Trace& before, std::vector<GraphRef> graphs,
                                const Trace& made) {
  std::string difference = difference_outside(before, made);
  if (!difference.empty()) return {{}, std::move(difference)};
  graphs.push_back(made.graph);
  return SymbolicGraph::of(graphs, std::vector{before.size_reads, made.size_reads});
}

std::vector<const Type*> types_of(const Trace& trace, const Arguments& call) {
  std::vector<const Type*> types;
  for (const int32_t i : trace.inputs) {
    types.push_back(call.tensors[static_cast<std::size_t>(i)]->type()->on(Device()));
  }
  for (std::size_t i = types.size(); i < trace.graph->inputs().size(); ++i) {
    types.push_back(trace.graph->inputs()[i].type);
  }
  return types;
}

// The common part of two calls: a size that differs is open. None if no differing size is 0 or 1 in
// either call: then their graphs are compared.
std::optional<std::vector<TensorSpec>> common_specs(const TraceKey& before, const Arguments& call) {
  bool has_special = false;
  std::vector<TensorSpec> out;
  for (std::size_t i = 0; i < before.types.size(); ++i) {
    const Type* type = before.types[i];
    TensorSpec& spec = out.emplace_back();
    if (type == nullptr) continue;
    spec = {type->shape(), type->dtype()};
    const Shape& given = call.tensors[i]->type()->shape();
    for (int axis = 0; axis < given.rank(); ++axis) {
      if (given[axis] == type->shape()[axis]) continue;
      has_special |= std::min(given[axis], type->shape()[axis]) < SymbolicGraph::kLeastSize;
      spec.shape.set(axis, kAny);
    }
  }
  return has_special ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

void generalise(Trace& made, const Arguments& call, std::span<const TraceRef> before) {
  int compared = 0;
  for (auto at = before.rbegin(); at != before.rend() && compared < kMostCompared; ++at) {
    const Trace& other = **at;
    if (!other.key.fits_but_sizes(call)) continue;
    ++compared;
    std::vector<GraphRef> graphs = {other.graph};
    if (other.symbolic)
      graphs.assign(other.symbolic->graphs().begin(), other.symbolic->graphs().end());
    SymbolicFound found = symbolic_graph_of(other, std::move(graphs), made);
    if (!found.symbolic && other.symbolic) found = symbolic_graph_of(other, {other.graph}, made);
    if (found.symbolic) {
      made.symbolic = std::move(found.symbolic);
      made.not_generalised.clear();
      return;
    }
    if (made.not_generalised.empty()) made.not_generalised = std::move(found.difference);
  }
}

RefPtr<Trace> FunctionCore::trace_for_all_sizes(const Arguments& call, const ArgumentNames& names,
                                                const HostRun& run, CallSite where) {
  TraceRef before;
  for (const TraceRef& trace : kept_->latest_of_form(call)) {
    if (!trace->key.fits_but_sizes(call)) continue;
    if (before || trace->symbolic) return {};
    before = trace;
  }
  if (!before) return {};
  const auto specs = common_specs(before->key, call);
  if (!specs) return {};
  MadeUpTraces made;
  try {
    made = trace_made_up(*specs, call, names, run, where);
  } catch (...) {
    return {};  // it may be for some sizes only; the call's own trace throws its errors
  }
  RefPtr<Trace> trace = made.traces[0];
  if (!made.found.symbolic || !difference_outside(*before, *trace).empty()) return {};
  trace->symbolic = std::move(made.found.symbolic);
  trace->cause = cause_of(TraceKey(call), names);
  return trace;
}

TraceRef instance_of(const Trace& trace, const Arguments& call, Refusal& refusal) {
  if (!trace.symbolic || !trace.key.fits_but_sizes(call)) return {};
  const std::vector<int64_t> sizes = trace.symbolic->sizes_of(types_of(trace, call));
  if (sizes.empty()) return {};
  GraphAtSizes at = trace.symbolic->at(sizes);
  if (!at.graph) {
    refusal.text = std::move(at.refusal);
    refusal.is_of_given_size = std::ranges::min(sizes) < SymbolicGraph::kLeastSize;
    return {};
  }
  auto made = make_ref<Trace>();
  static_cast<TraceFacts&>(*made) = trace;
  made->key.types = TraceKey(call).types;
  made->set_graph(std::move(at.graph));
  return made;
}

}  // namespace etude::internal
