// SPDX-License-Identifier: Apache-2.0
// TraceContext: runs a program on abstract tensors and records its calls as a graph. While alive,
// it is the bottom of the context stack. Tapes, jvp and vmap inside the program are above it, so
// their calls are in the graph as well. It names no op.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "etude/core/context/ambient.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/traced.h"
#include "etude/graph/builder.h"
#include "etude/stage/call_time.h"
#include "etude/variables/enclosing_trace.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A Variable that a graph reads or assigns, or a call_time_value, which is read like a Variable.
struct GraphVariable {
  Tensor resource;          // its placeholder in the trace, for a call_time_value
  std::string name;         // "Variable 'w'", for messages
  bool is_read = false;     // its value is an input with InputRole::kVariable
  bool is_written = false;  // its new value is an output, after the outputs of finish()
  std::shared_ptr<const CallTimeValue> source = nullptr;  // of a call_time_value
};

// A graph and the values of its captures at the time of the trace.
struct TracedGraph {
  GraphRef graph;
  std::vector<Tensor> captures;          // in the order of the inputs with InputRole::kCapture
  std::vector<GraphVariable> variables;  // in the order of inputs, and of outputs
  std::vector<SizeRead> size_reads;      // sizes that host code read
  // The enclosing trace whose values it captures; null: none, so the graph is valid anywhere.
  RefPtr<const TraceInfo> enclosing;
  bool has_examples = false;  // captures examples of a vmap, and serves that vmap only
};

// threads: confined to the thread that made it.
class TraceContext final : public Context, public EnclosingTrace, private KeySource {
 public:
  // From now on the calls of this thread are recorded, and the keys of random draws are inputs of
  // the graph.
  TraceContext(std::string function, CallSite where);
  ~TraceContext() override;

  // Returns the abstract tensor of an input.
  Tensor add_argument(std::string name, const Type* type);
  // An abstract tensor for each input of a graph.
  std::vector<Tensor> add_arguments(const Graph& graph);
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;
  // Ends the trace. Outputs may be values of the trace, tensors from outside, or absent; sparse
  // outputs are made dense. throws: kFailedPrecondition for a value of another trace.
  TracedGraph finish(std::span<const Tensor> outputs);

  // The number of recorded calls with effects outside.
  std::size_t effect_count() const { return builder_.effect_count(); }
  // For transformations of a graph: all tensors used from outside become constants of the graph.
  void keep_constants() { has_outside_ = false; }
  // For a branch or a body: allows captures of values that outer contexts know, such as examples of
  // a vmap, since the call of the graph runs in these contexts.
  void take_followed_values() { takes_followed_ = true; }
  // Marks the trace of a branch, or of the condition or body of a loop (TraceInfo).
  void mark_body() { info_->is_of_body = true; }
  // Refuses draws in a branch or a body (KeySource in core/context/ambient.h).
  void refuse_draws() { refuses_draws_ = true; }
  // Marks the trace of a function: it passes call_time_values to its graph at each call, and a call
  // may run without a graph. Examples of the enclosing vmaps may be captured.
  void mark_function() { is_of_function_ = true; }
  // Whether x is an example of a vmap of this thread, inside or outside of its traces.
  static bool is_any_example(const Tensor& x) noexcept;
  // Returns a placeholder of the value, which is an input of the innermost function trace of this
  // thread, and which its branches and bodies see too. Without such a trace, returns the current
  // value.
  static Tensor take_call_time(const std::shared_ptr<const CallTimeValue>& source);
  const TraceInfo& info() const { return *info_; }
  // The innermost trace of this thread; null: none.
  static const TraceContext* innermost() noexcept;
  void variable_made(const Variable& variable) override;
  // A Variable that could not be made, since its initial value depends on a placeholder.
  struct Unmade {
    std::string text;      // "Variable 'w' made at train.cc:12"
    std::string function;  // that would make it; empty: the function of this trace itself
  };
  void variable_refused(const Variable& variable) override;
  // Reports the Variable to the innermost function trace of this thread. Does nothing without a
  // trace.
  static void note_unmade(Unmade variable);
  // null: none.
  const Unmade* unmade() const noexcept { return unmade_ ? &*unmade_ : nullptr; }
  Tensor fixed_value(const Tensor& x) const override;
  // Called for a call of a graph: reports the sizes that host code read while that graph was made.
  static void note_reads(const std::vector<SizeRead>& reads);
  // The Variables made so far, weakly, with a text for messages: "Variable 'w' made at
  // train.cc:12".
  struct Created {
    std::weak_ptr<void> state;
    std::string text;
  };
  const std::vector<Created>& created() const noexcept { return created_; }

 private:
  using Draft = GraphBuilder::Draft;
  struct Capture {
    Draft input;
    Tensor value;
  };

  // The value of a Variable at this point of the program. Edges from it order reads and
  // assignments: each value is the result of the node that made it.
  struct Held {
    GraphVariable variable;
    Tensor first;     // the input; removed if nothing reads it
    Tensor assigned;  // the last assigned value, without derivatives; absent before
    Tensor current;   // the result of reads; absent before the first read and after an assignment
  };

  Tensor next_key() override;
  Held& held(const Tensor& resource);
  Tensor read(const Tensor& resource);
  Tensor write(const Tensor& resource, const Tensor& x);
  Tensor fixed_value(Draft value) const;
  // The same for a value that is not the result of a call.
  Tensor fixed_input(Draft value) const;
  Draft number(const Tensor& x);
  Draft capture(const Tensor& x);
  Tensor made(Draft draft, std::string_view op, CallSite where);
  bool is_around(const TraceInfo* trace) const noexcept;
  // The innermost function trace of this thread; null: none.
  static TraceContext* of_function() noexcept;
  void leave() noexcept;

  GraphBuilder builder_;
  RefPtr<TraceInfo> info_;
  RefPtr<const TraceInfo> enclosing_;
  std::unordered_map<uint64_t, Draft> drafts_;  // by value id
  std::vector<Held> variables_;
  std::vector<Created> created_;
  std::vector<Capture> captures_;  // keeps the tensors alive, so that their ids stay unique
  TraceContext* outer_;
  const Context* around_;  // the innermost context outside
  bool has_examples_ = false;
  bool is_live_ = true;
  bool has_outside_ = true;
  bool takes_followed_ = false;
  bool refuses_draws_ = false;
  bool is_of_function_ = false;
  std::optional<Unmade> unmade_;
  std::optional<KeyScope> keys_;
  SizeReads size_reads_;
  BottomScope bottom_;
};

}  // namespace internal
}  // namespace etude
