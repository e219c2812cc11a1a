// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/function_core.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/internal/hash.h"
#include "etude/base/thread_object.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/caller_place.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/context/draws_scope.h"
#include "etude/core/context/pending.h"
#include "etude/core/context/placement.h"
#include "etude/core/context/resource.h"
#include "etude/core/internal/late_calls.h"
#include "etude/core/internal/mode.h"
#include "etude/lazy/lazy.h"
#include "etude/lazy/pause.h"
#include "etude/plan/plan.h"
#include "etude/stage/creation.h"
#include "etude/stage/function.h"
#include "etude/stage/function_traces.h"
#include "etude/stage/generalise.h"
#include "etude/stage/key_inputs.h"
#include "etude/stage/placed_run.h"
#include "etude/stage/retrace.h"
#include "etude/stage/trace.h"
#include "etude/variables/assignment_undo.h"

namespace etude {
namespace internal {
namespace {

// The functions that this thread is tracing, innermost first.
struct Tracing {
  const FunctionCore* function;
  const Arguments* call;
  const Tracing* outer;
  int depth;
};
struct Innermost {
  const Tracing* tracing = nullptr;
};
constexpr int kMostNested = 200;  // each level is a host call as well: the stack is finite

bool same_objects(const std::vector<HostValue>& kept, const Arguments& call) {
  return std::ranges::equal(kept, call.objects, [](const HostValue& k, const HostValue& given) {
    return k.equal == given.equal && given.equal(given.value, k.value);
  });
}

// Functions are traced on cpu:0 for all devices, which a key does not hold.
const Type* type_or_null(const Tensor* x) {
  if (!x->has_value()) return nullptr;
  const Type* const type = x->type();
  return type->device().is_home() ? type : type->on(Device());
}

class TracingScope {
 public:
  TracingScope(const FunctionCore& function, const Arguments& call)
      : innermost_(ThreadObject<Innermost>::get()),
        entry_{&function, &call, innermost_.tracing,
               innermost_.tracing == nullptr ? 1 : innermost_.tracing->depth + 1} {
    for (const Tracing* t = innermost_.tracing; t != nullptr; t = t->outer) {
      ETUDE_REQUIRE_CODE(kUnimplemented, t->function != &function || !TraceKey(*t->call).fits(call),
                         "function '{}' calls itself with arguments of the same types while it is "
                         "traced for them: that would never end. Recursion may depend on host "
                         "values, which are fixed in the graph; loop on tensors with while_loop()",
                         function.name());
    }
    ETUDE_REQUIRE_CODE(kUnimplemented, entry_.depth <= kMostNested,
                       "{} staged functions call each other while they are traced, '{}' last. Does "
                       "the recursion end? Loop on tensors with while_loop()",
                       entry_.depth, function.name());
    innermost_.tracing = &entry_;
  }
  TracingScope(const TracingScope&) = delete;
  TracingScope& operator=(const TracingScope&) = delete;
  ~TracingScope() { innermost_.tracing = entry_.outer; }

 private:
  Innermost& innermost_;
  const Tracing entry_;
  // The scope around the call, in which Variables are made (variable.cc).
  const CallerPlaceScope caller_{hides_scope() ? caller_place() : active_placement()};
  const NoDeviceScope home_;  // calls are recorded on cpu:0, inside of scopes too
};

}  // namespace

TraceKey::TraceKey(const Arguments& call)
    : words(call.words.begin(), call.words.end()),
      phase(ambient().phase),
      default_dtype(ambient().default_dtype),
      promotion(ambient().promotion) {
  for (const Tensor* x : call.tensors) types.push_back(type_or_null(x));
  for (const HostValue& given : call.objects) {
    held.push_back(given.copy(given.value));
    objects.push_back({held.back().get(), given.equal, given.copy, given.is_gone});
  }
}

inline bool TraceKey::has_same_words(const Arguments& call) const {
  const Ambient& now = ambient();
  return words.size() == call.words.size() &&
         std::equal(words.begin(), words.end(), call.words.begin()) && phase == now.phase &&
         default_dtype == now.default_dtype && promotion == now.promotion;
}

bool TraceKey::fits(const Arguments& call) const {
  return fits_but_objects(call) && same_objects(objects, call);
}

bool TraceKey::fits_but_objects(const Arguments& call) const {
  if (types.size() != call.tensors.size()) return false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Tensor& x = *call.tensors[i];
    if (x.has_value() && TensorAccess::rep(x)->type == types[i]) continue;
    if (types[i] != type_or_null(&x)) return false;
  }
  return has_same_words(call);
}

bool TraceKey::fits_but_sizes(const Arguments& call) const {
  if (types.size() != call.tensors.size()) return false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Type* given = type_or_null(call.tensors[i]);
    if ((types[i] == nullptr) != (given == nullptr)) return false;
    if (given != nullptr &&
        (given->dtype() != types[i]->dtype() || given->rank() != types[i]->rank() ||
         given->device() != types[i]->device())) {
      return false;
    }
  }
  return has_same_words(call) && same_objects(objects, call);
}

namespace {

// The hash of the part of a key that does not depend on its representation.
uint64_t key_hash(uint64_t of_types, std::span<const uint64_t> words, Phase phase, DType dtype,
                  Promotion promotion) {
  uint64_t h = mix(of_types, words.size());
  for (const uint64_t word : words) h = mix(h, word);
  h = mix(h, static_cast<uint64_t>(phase));
  h = mix(h, static_cast<uint64_t>(dtype));
  return mix(h, static_cast<uint64_t>(promotion));
}

uint64_t mix_type(uint64_t h, const Type* type) {
  return mix(h, reinterpret_cast<std::uintptr_t>(type));  // types are interned
}

}  // namespace

uint64_t TraceKey::hash() const {
  uint64_t h = types.size();
  for (const Type* type : types) h = mix_type(h, type);
  return key_hash(h, words, phase, default_dtype, promotion);
}

uint64_t TraceKey::hash_of(const Arguments& call) {
  uint64_t h = call.tensors.size();
  for (const Tensor* x : call.tensors) h = mix_type(h, type_or_null(x));
  const Ambient& now = ambient();
  return key_hash(h, {call.words.begin(), call.words.size()}, now.phase, now.default_dtype,
                  now.promotion);
}

namespace {

// Whether the Variables are as in the trace: of the same types, and a Variable from outside is
// among the arguments only if it was so in the trace.
bool variables_fit(const Trace& trace, const Arguments& call) {
  for (const VariableSlot& v : trace.variables) {
    const auto given =
        v.argument < 0 ? nullptr : call.variables[static_cast<std::size_t>(v.argument)];
    const std::shared_ptr<void> state = v.state.lock();
    if (given == nullptr && state == nullptr) continue;  // gone: an error when it runs
    if (state != nullptr) {
      const auto is_it = [&](const Variable* x) { return x->ref() == state.get(); };
      const bool is_given = std::ranges::any_of(call.variables, is_it);
      if (is_given != (given != nullptr) || (is_given && !is_it(given))) return false;
    }
    const Tensor value = peek(given != nullptr ? *given : variable_of_state(state));
    if (value.type() != v.type) return false;
  }
  return true;
}

// Whether calls of the function note the use of its graphs while they are few: only then can a
// small limit drop one.
bool notes_each_use(const FunctionOptions& options) {
  return options.max_traces > 0 && options.max_traces <= FunctionCore::kMostUnindexed;
}

}  // namespace

FunctionCore::FunctionCore(FunctionOptions options, std::type_index callable, CallSite where)
    : options_(std::move(options)), kept_(RetraceMonitor::of(where, callable)) {
  if (options_.name.empty()) {
    const std::string_view file = where.file;
    options_.name = where.known()
                        ? fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line)
                        : "function";
  }
}

FunctionCore::~FunctionCore() = default;

std::string FunctionCore::argument_name(std::size_t i) const {
  return i < options_.arg_names.size() ? options_.arg_names[i] : "arg" + std::to_string(i);
}

Tensor FunctionCore::read_host_data(const HostSource& source, std::size_t argument,
                                    std::size_t tensor, CallSite where) const {
  return located_in(name(), where, [&] {
    HostTarget target;
    target.what = fmt::format("argument '{}' of function '{}': ", argument_name(argument), name());
    if (!options_.signature) return source.read(source, target);
    const std::vector<TensorSpec> specs = options_.signature->tensors();
    if (tensor < specs.size()) target.dtype = &specs[tensor].dtype;
    return source.read(source, target);
  });
}

TraceRef FunctionCore::find(const Arguments& call) const {
  // Host objects and Variables are compared without the lock, since that may run host code.
  InlineVector<TraceRef, 2> refused;
  const TraceContext* around = TraceContext::innermost();
  const auto may_serve = [&](const Trace& trace) {
    if (!trace.key.fits_but_objects(call)) return false;
    if (trace.enclosing && (around == nullptr || trace.enclosing.get() != &around->info()))
      return false;
    if (trace.has_examples && !is_in_its_vmaps(trace)) return false;
    const auto is_it = [&](const TraceRef& other) { return other.get() == &trace; };
    return std::none_of(refused.begin(), refused.end(), is_it);
  };
  bool is_indexed = false;
  const auto next = [&]() -> TraceRef {
    const std::shared_lock lock(kept_->mutex);
    if (kept_->index != nullptr) [[unlikely]] {
      is_indexed = true;
      return kept_->index->find(TraceKey::hash_of(call), may_serve);
    }
    for (const auto* list : {&kept_->traces, &kept_->instances}) {
      for (auto at = list->rbegin(); at != list->rend(); ++at) {
        if (may_serve(**at)) return *at;
      }
    }
    return {};
  };
  for (;;) {
    TraceRef found = next();
    if (!found) return found;
    if (same_objects(found->key.objects, call) && variables_fit(*found, call)) {
      if (is_indexed || notes_each_use(options_)) note_use(*found);
      return found;
    }
    refused.push_back(std::move(found));
  }
}

TraceRef FunctionCore::find_generalised(const Arguments& call, Refusal& refusal) {
  for (const TraceRef& trace : kept_->symbolic_of_form(call)) {
    if (!variables_fit(*trace, call)) continue;
    const TraceRef made = instance_of(*trace, call, refusal);
    if (!made) continue;
    note_use(*trace);
    return keep_instance(made);
  }
  return {};
}

TraceRef FunctionCore::fitting(const TraceRef& trace, const Arguments& call) const {
  if (!variables_fit(*trace, call)) return {};
  Refusal refusal;
  return trace->key.fits(call) ? trace : instance_of(*trace, call, refusal);
}

namespace {

// throws: kFailedPrecondition for an argument that belongs to a trace or a vmap of another thread.
// That may wait for this call, so it is refused before this thread waits for its turn to trace.
void require_of_this_thread(const Arguments& call, const ArgumentNames& names,
                            const std::string& function) {
  if (TraceContext::innermost() != nullptr) return;
  const bool follows_nothing = ContextStack::is_eager();
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const Tensor& x = *call.tensors[i];
    const bool has_elements = !x.has_value() || !TensorAccess::is_abstract(x) || is_unrun(x);
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, has_elements || (trace_of(x) == nullptr && !follows_nothing),
        "argument '{}' of function '{}': {}", names.tensors[i], function, explain_abstract(x));
  }
}

}  // namespace

TraceRef FunctionCore::find_or_trace(const Arguments& call, const ArgumentNames& names,
                                     const HostRun& run, FirstRun* first, CallSite where) {
  TracingTicket ticket = located("", where, [&] {
    require_of_this_thread(call, names, name());
    return take_ticket(call);
  });
  if (TraceRef known = find(call)) return known;  // another thread made it meanwhile
  return or_first_run(first, ticket, where, [&] {
    Refusal refusal;
    TraceRef generalised = options_.signature ? TraceRef() : find_generalised(call, refusal);
    if (generalised) return generalised;
    const TracingScope scope(*this, call);
    if (options_.signature) return find_signed(call, names, run, where);
    return trace_call(call, names, run, refusal, where);
  });
}

TraceRef FunctionCore::trace_call(const Arguments& call, const ArgumentNames& names,
                                  const HostRun& run, Refusal& refusal, CallSite where) {
  RefPtr<Trace> general;
  if (options_.relax_shapes && refusal.text.empty()) {
    general = trace_for_all_sizes(call, names, run, where);
  }
  const TraceRef found = general ? instance_of(*general, call, refusal) : TraceRef();
  const RefPtr<Trace> made = found ? RefPtr<Trace>() : make(call, names, run, where);
  if (TraceRef known = find(call)) return known;  // of a thread that could not wait for this one
  if (kept_->history->note_trace()) warn_of_traces(name(), traces(), TraceKey(call), names, where);
  if (general) keep(general);
  if (found || refusal.is_of_given_size) return keep_instance(found ? found : TraceRef(made));
  if (options_.relax_shapes) generalise(*made, call, kept_->latest_of_form(call));
  if (made->symbolic && !refusal.text.empty()) {
    made->cause += "; the graph for other sizes does not serve it: " + refusal.text;
  } else if (!refusal.text.empty()) {
    made->not_generalised = std::move(refusal.text);
  }
  keep(made);
  return TraceRef(made);
}

TraceRef FunctionCore::trace_of_signature(const Arguments& call, const ArgumentNames& names,
                                          const HostRun& run, CallSite where) {
  TracingTicket ticket;
  return or_first_run(nullptr, ticket, where, [&] {
    const std::vector<Tensor> made_up = made_up_tensors(*options_.signature, call, name());
    for (std::size_t i = 0; i < made_up.size(); ++i) *call.tensors[i] = made_up[i];
    ticket = take_ticket(call);
    if (TraceRef known = find(call)) return known;
    const TracingScope scope(*this, call);
    return trace_signature(call, names, run, where);
  });
}

namespace {

// Placeholders of the Variables of a call while it is traced: other Variables, to find out which
// the function reaches by its arguments and which from outside. Equal Variables share a
// placeholder.
std::vector<Variable> stand_ins(const Arguments& call) {
  std::vector<Variable> out;
  for (std::size_t i = 0; i < call.variables.size(); ++i) {
    std::size_t first = 0;
    while (call.variables[first]->ref() != call.variables[i]->ref()) ++first;
    out.push_back(first < i ? out[first] : stand_in_for(*call.variables[i]));
  }
  return out;
}

// The Variables of a graph that was traced with `used` as the Variables of the call. Sets `is_both`
// for Variables that are reached both ways.
std::vector<VariableSlot> trace_variables(const std::vector<GraphVariable>& found,
                                          const Arguments& call, const std::vector<Variable>& used,
                                          std::vector<bool>& is_both) {
  std::vector<VariableSlot> out;
  for (const GraphVariable& v : found) {
    VariableSlot& made = out.emplace_back();
    made.type = v.resource.type();
    made.name = v.name;
    made.is_read = v.is_read;
    made.is_written = v.is_written;
    made.source = v.source;
    if (v.source != nullptr) continue;
    const std::shared_ptr<void> state = state_of(v.resource);
    bool is_real = true;
    for (std::size_t i = used.size(); i-- > 0;) {
      if (used[i].ref() == state.get()) made.argument = static_cast<int32_t>(i);
      if (used[i].ref() == state.get()) is_real = call.variables[i]->ref() == state.get();
      if (used[i].ref() != state.get() && call.variables[i]->ref() == state.get())
        is_both[i] = true;
    }
    if (is_real) made.state = state;
  }
  return out;
}

}  // namespace

RefPtr<Trace> FunctionCore::make(const Arguments& call, const ArgumentNames& names,
                                 const HostRun& run, CallSite where) {
  auto trace = make_ref<Trace>();
  trace->key = TraceKey(call);
  trace->names = names;
  trace->where = where;
  trace->cause = cause_of(trace->key, names);
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    if (trace->key.types[i] != nullptr) trace->inputs.push_back(static_cast<int32_t>(i));
  }
  const bool is_first = is_untraced();
  const std::vector<std::string> shown =
      input_names(names.tensors, options_.signature ? &*options_.signature : nullptr);
  std::vector<Variable> used = stand_ins(call);
  GraphRef graph;
  for (int attempt = 0;; ++attempt) {
    TraceContext context(name(), where);
    context.mark_function();
    std::vector<Tensor> inputs(call.tensors.size());
    for (const int32_t i : trace->inputs) {
      const auto at = static_cast<std::size_t>(i);
      inputs[at] = context.add_argument(shown[at], trace->key.types[at]);
    }
    TraceResult traced = run_traced(context, run, inputs, used);
    check_created(context, name(), is_first && attempt == 0);
    if (!context.created().empty()) continue;  // they exist now: traces again, to keep that graph
    TracedGraph made = context.finish(traced.outputs);
    std::vector<bool> is_both(used.size());
    trace->variables = trace_variables(made.variables, call, used, is_both);
    if (std::ranges::count(is_both, true) > 0) {  // traces again with these Variables themselves
      for (std::size_t i = 0; i < used.size(); ++i) {
        if (is_both[i]) used[i] = *call.variables[i];
      }
      continue;
    }
    trace->outputs = traced.outputs.size();
    graph = std::move(made.graph);
    trace->captures = std::move(made.captures);
    trace->enclosing = std::move(made.enclosing);
    trace->has_examples = made.has_examples;
    trace->result = std::move(traced.result);
    trace->arguments = std::move(traced.arguments);
    trace->fixes_sizes = traced.fixes_sizes;
    trace->in_out = std::move(traced.in_out);
    trace->size_reads = std::move(made.size_reads);
    break;
  }
  trace->set_graph(std::move(graph));
  return trace;
}

namespace {

// The value of a call_time_value for this call, or its placeholder in an enclosing trace.
// throws: kInvalidArgument if it has another type than the graph was made for.
Tensor value_for_call(const VariableSlot& v, const std::string& function, CallSite where) {
  Tensor x = take_call_time_value(v.source);
  return located_in(function, where, [&] {
    ETUDE_REQUIRE(x.type() == v.type,
                  "the value of {} is {}, but the graph of function '{}' was made for {}. Return "
                  "values of one dtype and shape; a value of another type is passed as an argument",
                  v.name, x.type()->to_string(), function, v.type->to_string());
    return x;
  });
}

// Whether a call changes its arguments or Variables.
bool is_changing(const Trace& trace) {
  return std::ranges::any_of(trace.variables, &VariableSlot::is_written) ||
         std::ranges::any_of(trace.in_out, [](uint8_t comes_back) { return comes_back != 0; });
}

}  // namespace

Values FunctionCore::run(const Trace& trace, const Arguments& call, CallSite where) const {
  kept_->history->note_call();
  if (!trace.size_reads.empty()) TraceContext::note_reads(trace.size_reads);
  std::optional<DrawsScope> draws;  // of the keys of this call
  if (trace.keys > 0) draws.emplace();
  std::optional<LazyPause> pause;  // pending calls must fail before the changes
  if (mode_word != 0 && is_lazy() && is_changing(trace)) pause.emplace(where);
  if (trace.variables.empty()) return run_locked(trace, call, {}, where);
  std::vector<Reached> all;
  std::vector<Variable> written;
  for (const VariableSlot& v : trace.variables) {
    if (v.source != nullptr) {
      all.push_back({std::nullopt, value_for_call(v, name(), where)});
      continue;
    }
    const std::shared_ptr<void> state = v.argument < 0 ? v.state.lock() : nullptr;
    ETUDE_REQUIRE_CODE(kFailedPrecondition, v.argument >= 0 || state != nullptr,
                       "function '{}' uses {}, which is gone: its last handle was destroyed. Keep "
                       "one as long as the function is called",
                       name(), v.name);
    all.push_back({v.argument >= 0 ? *call.variables[static_cast<std::size_t>(v.argument)]
                                   : variable_of_state(state),
                   {}});
    if (v.is_written) written.push_back(*all.back().variable);
  }
  // No other thread may assign between the read and the assignment, so that no update is lost.
  std::optional<VariableLock> lock;
  if (!written.empty() && ContextStack::is_on_eager()) lock.emplace(std::move(written));
  return run_locked(trace, call, all, where);
}

Values FunctionCore::run_locked(const Trace& trace, const Arguments& call,
                                std::span<const Reached> reached, CallSite where) const {
  OperandList list;
  bool has_data = true, is_home = (mode_word & kModeDevice) == 0;
  const auto add = [&](const Tensor& x) {
    has_data = has_data && TensorAccess::has_elements(x);
    is_home = is_home && TensorAccess::rep(x)->type->device().is_home();
    list.add(x);
  };
  for (const int32_t i : trace.inputs) add(*call.tensors[static_cast<std::size_t>(i)]);
  InlineVector<Tensor, 2> keys;
  if (trace.keys > 0) {
    located_in(name(), where, [&] {
      for (std::size_t k = 0; k < trace.keys; ++k) {
        keys.push_back(key_for_input(*trace.graph, trace.inputs.size() + k));
      }
    });
  }
  for (const Tensor& key : keys) add(key);
  InlineVector<Tensor, 4> values;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    if (!trace.variables[i].is_read) continue;
    values.push_back(reached[i].variable ? reached[i].variable->read(where) : reached[i].value);
  }
  for (const Tensor& value : values) add(value);
  for (const Tensor& x : trace.captures) add(x);
  return located_in(name(), where, [&] {
    const std::optional<Device> device =
        is_home ? std::nullopt : device_of_run(*trace.graph, list.view());
    std::optional<LateCallerScope> late;
    if (device) late.emplace(name(), where);
    const bool is_plain = mode_word == 0 && has_data;
    Values out = device     ? run_placed(*trace.graph, list.view(), trace.given, *device, where)
                 : is_plain ? trace.plan->run(list.view(), trace.given)
                            : call_graph(trace.attrs, list.view(), where);
    if (mode_word != 0 && !device) {
      share_values(*trace.graph, list.view(), {out.data(), trace.outputs});
    }
    if (device && is_changing(trace)) wait_for_run(*trace.graph, *device, {out.data(), out.size()});
    std::size_t next = trace.outputs;
    values.clear();  // so that new values may take their memory
    if (next == out.size()) return out;
    AssignmentUndo undo;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (!trace.variables[i].is_written) continue;
      undo.before(*reached[i].variable);
      reached[i].variable->assign(Arg(out[next++], where));
    }
    undo.keep();
    return out;
  });
}

std::vector<Variable> FunctionCore::variables() const {
  std::vector<Variable> out;
  for (const TraceRef& trace : traces()) {
    for (const VariableSlot& v : trace->variables) {
      const std::shared_ptr<void> state = v.argument < 0 ? v.state.lock() : nullptr;
      if (state == nullptr) continue;
      const auto is_it = [&](const Variable& x) { return x.ref() == state.get(); };
      if (std::ranges::none_of(out, is_it)) out.push_back(variable_of_state(state));
    }
  }
  return out;
}

std::string FunctionCore::cause_of(const TraceKey& key, const ArgumentNames& names) const {
  kept_->drop_useless();
  TraceRef latest;
  std::size_t count = 0;
  {
    const std::shared_lock lock(kept_->mutex);
    count = kept_->traces.size();
    if (count > 0) latest = kept_->traces.back();
  }
  return latest ? difference_from(*latest, count, key, names) : "it is the first";
}

}  // namespace internal
}  // namespace etude
