// SPDX-License-Identifier: Apache-2.0
// The part of staged functions that does not depend on C++ types: the list of graphs, and the
// choice of the graph for a call. function.h adds the types.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/internal/in_place.h"
#include "etude/core/call/values.h"
#include "etude/core/context/ambient.h"
#include "etude/core/internal/traced.h"
#include "etude/core/op/attrs.h"
#include "etude/graph/graph.h"
#include "etude/stage/call_time.h"
#include "etude/stage/internal/arguments.h"
#include "etude/stage/internal/tracing_lock.h"
#include "etude/stage/signature.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class SymbolicGraph;  // graph/symbolic_graph.h

struct FunctionOptions {
  std::string name = {};  // for display; default: the line that made the function
  // Names of the arguments, for the inputs of graphs; default: arg0, arg1, ... A tensor in a struct
  // has a name such as "model/weight". The tensors of a list x have the names x, x_1, ... A name in
  // the signature has priority.
  std::vector<std::string> arg_names = {};
  std::optional<Signature> signature = {};  // fixed types of the arguments
  // If possible, two graphs that differ only in sizes become one graph for all sizes.
  bool relax_shapes = true;
  bool run_eagerly = false;  // calls run the host function instead of a graph
  // The maximum number of graphs; 0: no limit. Beyond the limit the least recently used graphs are
  // dropped. The first time that this happens, the function warns if the limit is above 8.
  std::size_t max_traces = 16384;
};

struct ExplainOptions {
  bool all = false;  // all inputs and all graphs
};

// Switches graphs off for all functions. While `eagerly` is true, calls run the host function, even
// if graphs exist. Use it to inspect values while debugging. threads: thread-safe.
void run_functions_eagerly(bool eagerly) noexcept;
bool functions_run_eagerly() noexcept;

namespace internal {

class FunctionCore;
struct HostSource;
struct Refusal;
class Plan;
struct MadeUpTraces;
struct NoGraph;

// The key of a graph, which decides whether the graph serves a call.
struct TraceKey {
  std::vector<const Type*> types;  // of the tensors; null for an absent tensor
  std::vector<uint64_t> words;
  std::vector<HostValue> objects;
  std::vector<std::shared_ptr<const void>> held;  // owners of the objects to which `objects` points
  Phase phase = Phase::kInference;
  DType default_dtype = kFloat32;
  Promotion promotion = Promotion::kKinds;

  TraceKey() = default;
  explicit TraceKey(const Arguments& call);
  // The hashes of a key and of the calls that it fits are equal. They leave out host objects, since
  // the hash of an object would be host code.
  uint64_t hash() const;
  static uint64_t hash_of(const Arguments& call);
  bool fits(const Arguments& call) const;
  // The same as fits(), but without host objects, since their comparison is host code.
  bool fits_but_objects(const Arguments& call) const;
  // Whether sizes are the only differences.
  bool fits_but_sizes(const Arguments& call) const;

 private:
  bool has_same_words(const Arguments& call) const;
};

// A Variable or a call_time_value, at one call of a graph.
struct Reached {
  std::optional<Variable> variable;  // std::nullopt for a call_time_value
  Tensor value;                      // of a call_time_value
};

// A Variable or a call_time_value that a graph uses. The Variable comes from outside of the
// function or is an argument of the call.
struct VariableSlot {
  std::weak_ptr<void> state;  // of a Variable from outside
  // Index among the Variables of the call; -1: none. The Variable may also come from outside.
  int32_t argument = -1;
  const Type* type = nullptr;
  std::string name;  // for messages
  bool is_read = false;
  bool is_written = false;
  std::shared_ptr<const CallTimeValue> source = nullptr;  // for a call_time_value
};

// The facts about a trace besides its graph. They are valid for all sizes of a symbolic graph,
// except for the types in the key.
struct TraceFacts {
  TraceKey key;
  ArgumentNames names;
  std::vector<Tensor> captures;
  RefPtr<const TraceInfo> enclosing;    // the trace whose values the graph captures; null: none
  bool has_examples = false;            // whether the graph captures examples of a vmap
  std::vector<int32_t> inputs;          // graph input i is tensor inputs[i] of the call
  std::vector<VariableSlot> variables;  // in the order of their graph inputs and outputs
  std::size_t outputs = 0;              // number, without the new values of Variables
  std::vector<SizeRead> size_reads;     // sizes that host code read during the trace
  std::string cause;                    // the reason for the trace, for explain()
  CallSite where;                       // the call that caused the trace
  std::shared_ptr<const void> result;   // the result of the host function, with its structure
  std::vector<uint8_t> in_out;  // by tensor of the call: whether the graph returns its new value
  std::shared_ptr<const void> arguments;  // all arguments after the call; null: same structure
  bool fixes_sizes = false;  // `arguments` has sparse rows, which store their dense shape
};

// A graph, the facts about its trace, and the data to run the graph.
struct Trace : RefCounted, TraceFacts {
  Trace();
  ~Trace() override;
  // Sets the graph, and prepares it to run.
  void set_graph(GraphRef made);

  GraphRef graph;
  Attrs attrs;  // of the op `call`
  RefPtr<const Plan> plan;
  std::size_t keys = 0;        // number of random keys for each call
  std::vector<uint8_t> given;  // by graph input: whether a result may reuse its memory
  RefPtr<const SymbolicGraph>
      symbolic;                 // of this graph and others: serves sizes that were not traced
  std::string not_generalised;  // why there is no symbolic graph with earlier traces, if tried
  mutable std::atomic<uint64_t> last_use{0};
};
using TraceRef = RefPtr<const Trace>;

// The result of tracing: the tensors of results and of in-out arguments, and the result itself.
// Also the arguments, if the call changes the structure of an argument.
struct TraceResult {
  std::vector<Tensor> outputs;
  std::vector<uint8_t> in_out;  // by tensor of the call: whether it belongs to an in-out argument
  std::shared_ptr<const void> result;
  std::shared_ptr<const void> arguments;
  bool fixes_sizes = false;

  // Adds the outputs for y, and prepares y for put_rows(). Sparse rows are three outputs: indices,
  // values, and a tensor without bytes. The type of the third tensor has the dense shape after its
  // axis 0. So each graph of a symbolic graph knows the dense shape.
  void add_result(Tensor& y);
};
// Assigns the outputs from `next` on to y, which add_result() has prepared.
void put_rows(Tensor& y, Values& out, std::size_t& next);
inline void put_result(Tensor& y, Values& out, std::size_t& next) {
  if (TensorAccess::is_sparse(y)) [[unlikely]] {
    put_rows(y, out, next);
  } else {
    y = std::move(out[next++]);
  }
}

// A call that runs the host function itself, once. This is needed if a trace cannot make a Variable
// because its initial value depends on an argument. While this object is alive, no other thread
// traces the function.
class FirstRun {
 public:
  FirstRun() = default;
  FirstRun(const FirstRun&) = delete;
  FirstRun& operator=(const FirstRun&) = delete;
  // Marks the first run as done, unless an exception ended it. After an exception the next call may
  // try again.
  ~FirstRun();

 private:
  friend class FunctionCore;
  FunctionCore* function_ = nullptr;  // null: the first run did not begin
  std::string maker_;                 // the function that owns the Variable
  int exceptions_ = 0;
  TracingTicket ticket_;
};

using HostRun =
    std::function<TraceResult(std::span<const Tensor> inputs, std::span<const Variable> variables)>;

// threads: thread-safe.
class FunctionCore {
 public:
  // Calls compare their key with up to this number of graphs one by one. An index by hash serves
  // larger numbers of graphs.
  static constexpr std::size_t kMostUnindexed = 8;

  // `callable`: the type of the host function.
  FunctionCore(FunctionOptions options, std::type_index callable, CallSite where);
  FunctionCore(const FunctionCore&) = delete;
  FunctionCore& operator=(const FunctionCore&) = delete;
  ~FunctionCore();

  const std::string& name() const noexcept { return options_.name; }
  const FunctionOptions& options() const noexcept { return options_; }
  bool runs_eagerly() const noexcept { return options_.run_eagerly || functions_run_eagerly(); }

  // Returns the graph for this call; null if there is none yet.
  TraceRef find(const Arguments& call) const;
  // Returns the graph for this call. If there is none, makes the graph with `run`. `run` calls the
  // host function on abstract tensors, one for each tensor of the call, and on placeholders of its
  // Variables. Only one thread at a time traces for the same arguments.
  //
  // Returns null if the caller has to run the host function on the arguments of the call. `first`
  // has then begun. Pass a null `first` if the caller cannot run the host function.
  //
  // throws: the errors of the host function, and no graph is then kept; kUnimplemented for a
  //   function that calls itself with the same types and host values while it is traced for them;
  //   kFailedPrecondition for an argument that belongs to a trace or a vmap of another thread.
  TraceRef find_or_trace(const Arguments& call, const ArgumentNames& names, const HostRun& run,
                         FirstRun* first, CallSite where);
  // Returns the graph made from the signature. Replaces the tensors of the arguments by abstract
  // tensors with the types of the signature.
  TraceRef trace_of_signature(const Arguments& call, const ArgumentNames& names, const HostRun& run,
                              CallSite where);
  // Reads host data as tensor number `tensor` of a call, in the dtype of the signature, if any.
  // throws: kInvalidArgument if the dtype cannot represent all numbers, or if lists are not
  //   rectangular.
  Tensor read_host_data(const HostSource& source, std::size_t argument, std::size_t tensor,
                        CallSite where) const;
  // Returns `trace` if it serves the call. Otherwise returns the graph of its symbolic graph for
  // the sizes of the call; null if there is none.
  TraceRef fitting(const TraceRef& trace, const Arguments& call) const;
  // Runs the graph as a single call. throws: the errors of the calls in the graph, with the name of
  // this function.
  Values run(const Trace& trace, const Arguments& call, CallSite where) const;

  std::vector<TraceRef> traces() const;
  // The Variables from outside that the graphs use, in the order of their first use. Destroyed
  // Variables are left out.
  std::vector<Variable> variables() const;
  std::string explain(const ExplainOptions& options) const;
  std::string argument_name(std::size_t i) const;

 private:
  friend class FirstRun;
  Values run_locked(const Trace& trace, const Arguments& call, std::span<const Reached> reached,
                    CallSite where) const;
  RefPtr<Trace> make(const Arguments& call, const ArgumentNames& names, const HostRun& run,
                     CallSite where);
  // Runs `trace` on behalf of this function. If the trace cannot make a Variable, `first` begins
  // and the result is null. Inside another trace, the error propagates to the enclosing function
  // instead.
  // throws: kFailedPrecondition if there was a first run before, or if `first` is null.
  TraceRef or_first_run(FirstRun* first, TracingTicket& ticket, CallSite where,
                        const std::function<TraceRef()>& trace);
  void begin_first_run(const NoGraph& cause, FirstRun* first, TracingTicket& ticket);
  std::string cause_of(const TraceKey& key, const ArgumentNames& names) const;
  TracingTicket take_ticket(const Arguments& call) const;
  // Whether the function never had a graph or a first run. Only then may a trace make Variables.
  bool is_untraced() const;
  void keep(const TraceRef& trace);
  TraceRef keep_instance(const TraceRef& instance);
  // find_or_trace() without a signature, for a call that no symbolic graph serves.
  TraceRef trace_call(const Arguments& call, const ArgumentNames& names, const HostRun& run,
                      Refusal& refusal, CallSite where);
  // find_or_trace() with a signature. Keeps the first graph as a trace, and the others as
  // instances.
  TraceRef find_signed(const Arguments& call, const ArgumentNames& names, const HostRun& run,
                       CallSite where);
  TraceRef trace_signature(const Arguments& call, const ArgumentNames& names, const HostRun& run,
                           CallSite where);
  // Makes traces at made-up sizes in place of the open sizes, and their symbolic graph.
  // throws: the errors of made_up_types() and make().
  MadeUpTraces trace_made_up(std::span<const TensorSpec> specs, const Arguments& call,
                             const ArgumentNames& names, const HostRun& run, CallSite where);
  // Returns a trace whose symbolic graph was found at made-up sizes (generalise.h). The trace
  // differs only in sizes from the call and from the only earlier trace. Returns null if there is
  // no such trace, or if it is not needed. The result is not stored.
  RefPtr<Trace> trace_for_all_sizes(const Arguments& call, const ArgumentNames& names,
                                    const HostRun& run, CallSite where);
  // Returns the graph of a symbolic graph for this call. If no symbolic graph serves the call,
  // returns null, and `refusal` has the reason, if any.
  TraceRef find_generalised(const Arguments& call, Refusal& refusal);

  FunctionOptions options_;
  // The lists of traces, and their lock. Defined in function_traces.h.
  struct Kept;
  InPlace<Kept, 160> kept_;
};

}  // namespace internal
}  // namespace etude
