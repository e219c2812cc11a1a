// SPDX-License-Identifier: Apache-2.0
// Loaded functions: a call reads the state, runs the graph as a staged function does, and assigns
// the state that it changes.
#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/context.h"
#include "etude/saved/graph_index.h"
#include "etude/saved/graph_inputs.h"
#include "etude/saved/loaded.h"
#include "etude/saved/match.h"
#include "etude/saved/saved.h"
#include "etude/saved/structure.h"
#include "etude/variables/assignment_undo.h"

namespace etude::saved {
namespace {

using internal::CallLeaf;
using internal::Loaded;
using internal::Match;
using internal::SavedFunction;
using internal::SavedGraph;
using internal::SavedTensor;
using internal::SavedUse;

// One call of a graph.
class Call {
 public:
  Call(const Loaded& program, std::size_t function, Match match, CallSite where)
      : program_(program), function_(function), match_(std::move(match)), where_(where) {}

  Parts run() {
    etude::internal::AssignmentUndo undo;
    Values out = run_graph();
    std::size_t next = 0;
    Parts result = graph().result.parts;
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (graph().result.is_present[i] != 0) {
        internal::set_tensor(result, i, std::move(out[next++]));
      }
    }
    put_changes(undo, out, next);
    undo.keep();
    return result;
  }
  // Of a graph that returns a lone tensor.
  Tensor run_plain() {
    etude::internal::AssignmentUndo undo;
    Values out = run_graph();
    put_changes(undo, out, 1);
    undo.keep();
    return std::move(out[0]);
  }

 private:
  const SavedGraph& graph() const { return *match_.graph; }
  const Variable& state(int64_t index) const {
    return internal::variable_at(program_.content, index);
  }

  Values run_graph() {
    lock();
    read_state();
    return program_.functions[function_].core->run(*match_.trace, arguments_, where_);
  }

  // No other thread may assign between the read and the assignment, so that no update is lost.
  void lock() {
    std::vector<Variable> written;
    for (const SavedTensor& x : graph().tensors) {
      if (x.is_changed && x.state >= 0) written.push_back(state(x.state));
    }
    if (written.empty() || !ContextStack::is_on_eager()) return;
    for (const SavedUse& use : graph().uses) {
      if (!use.is_written) continue;
      written.push_back(use.variable >= 0
                            ? state(use.variable)
                            : match_.variables[static_cast<std::size_t>(use.argument)]);
    }
    lock_.emplace(std::move(written));
  }

  void read_state() {
    values_.reserve(graph().tensors.size());  // arguments_ points to them
    for (std::size_t i = 0; i < graph().tensors.size(); ++i) {
      const SavedTensor& x = graph().tensors[i];
      if (match_.tensors[i] != nullptr) {
        arguments_.tensors.push_back(match_.tensors[i]);
        continue;
      }
      values_.push_back(x.state >= 0 ? state(x.state).read(where_) : Tensor());
      arguments_.tensors.push_back(&values_.back());
    }
    for (Variable& v : match_.variables) arguments_.variables.push_back(&v);
  }

  // Assigns the values from `next` on to the state and the arguments that the graph changes. The
  // arguments come last, since this cannot fail.
  void put_changes(etude::internal::AssignmentUndo& undo, Values& out, std::size_t next) {
    values_.clear();  // so that new values may take their memory
    std::size_t at = next;
    for (const SavedTensor& x : graph().tensors) {
      if (!x.is_changed) continue;
      const Tensor& value = out[at++];
      if (x.state < 0) continue;
      undo.before(state(x.state));
      state(x.state).assign(Arg(value, where_));
    }
    for (std::size_t i = 0; i < graph().tensors.size(); ++i) {
      if (!graph().tensors[i].is_changed) continue;
      Tensor value = std::move(out[next++]);
      if (match_.tensors[i] != nullptr) *match_.tensors[i] = std::move(value);
    }
  }

  const Loaded& program_;
  const std::size_t function_;
  Match match_;
  const CallSite where_;
  std::optional<etude::internal::VariableLock> lock_;
  etude::internal::Arguments arguments_;
  std::vector<Tensor> values_;
};

// Calls a plain graph that changes no state. False, and nothing is run, if it does not fit.
bool call_pure(const Loaded& program, std::size_t function, const internal::LoadedGraph& graph,
               std::span<const Tensor* const> arguments, Tensor& result, CallSite where) {
  internal::StateValues state;
  const internal::TraceRef trace = internal::trace_of_pure(program, graph, arguments, state, where);
  if (!trace) return false;
  etude::internal::Arguments all;
  auto given = arguments.begin();
  Tensor* value = state.begin();
  for (const SavedTensor& x : graph.saved->tensors) {
    all.tensors.push_back(x.state >= 0 ? value++ : const_cast<Tensor*>(*given++));
  }
  Values out = program.functions[function].core->run(*trace, all, where);
  result = std::move(out[0]);
  return true;
}

// Calls a plain graph. False, and nothing is run, if it does not fit.
bool call_graph(const Loaded& program, std::size_t function, const internal::LoadedGraph& graph,
                std::span<const Tensor* const> arguments, Tensor& result, CallSite where) {
  if (!graph.changes_state) return call_pure(program, function, graph, arguments, result, where);
  internal::TraceRef trace = internal::trace_of_plain(program, graph, arguments);
  if (!trace) return false;
  Match match{.graph = graph.saved, .trace = std::move(trace)};
  std::size_t next = 0;
  match.tensors.reserve(graph.saved->tensors.size());
  for (const SavedTensor& x : graph.saved->tensors) {
    match.tensors.push_back(x.state >= 0 ? nullptr : const_cast<Tensor*>(arguments[next++]));
  }
  result = Call(program, function, std::move(match), where).run_plain();
  return true;
}

// The tensors of a structure by path; `lone` is the name of a lone tensor.
io::NamedTensors tensors_of(const Parts& parts, const std::string& lone) {
  io::NamedTensors out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Tensor x = internal::tensor_of(parts, i);
    const std::string& path = parts.leaf(i).path;
    if (x.has_value()) out.emplace(path.empty() ? lone : path, std::move(x));
  }
  return out;
}

}  // namespace

Function::Function(std::shared_ptr<const internal::Loaded> program, std::size_t index)
    : program_(std::move(program)), index_(index) {}

const std::string& Function::name() const { return program_->content.functions[index_].name; }

const std::vector<std::string>& Function::arguments() const {
  return program_->content.functions[index_].arguments;
}

Parts Function::operator()(const Parts& arguments, CallSite where) const {
  Parts copy = arguments;
  return call(copy, where);
}

Parts Function::call(Parts& arguments, CallSite where) const {
  Match match = etude::internal::located("", where, [&] {
    const SavedFunction& function = program_->content.functions[index_];
    const std::vector<CallLeaf> leaves = function.graphs.empty()
                                             ? std::vector<CallLeaf>()
                                             : internal::leaves_of(function, arguments);
    return internal::find_graph(*program_, index_, leaves);
  });
  return Call(*program_, index_, std::move(match), where).run();
}

bool Function::call_plain(std::span<const Tensor* const> arguments, Tensor& result,
                          CallSite where) const {
  if (this->arguments().size() != arguments.size()) return false;
  const internal::LoadedFunction& function = program_->functions[index_];
  // A graph of another form for exactly these types comes before a graph for many sizes.
  const bool has_other_form =
      function.index != nullptr
          ? function.index->has_other_form()
          : std::ranges::any_of(function.graphs, [](const internal::LoadedGraph& graph) {
              return !graph.is_symbolic() && !graph.is_plain &&
                     graph.saved->phase == ambient().phase;
            });
  if (has_other_form) return false;
  for (const bool is_symbolic : {false, true}) {
    const auto calls = [&](const internal::LoadedGraph& graph) {
      return graph.is_plain && graph.is_symbolic() == is_symbolic &&
             call_graph(*program_, index_, graph, arguments, result, where);
    };
    const auto candidates = [&](const internal::GraphIndex& index) {
      return index.of_tensors(arguments, is_symbolic);
    };
    if (internal::any_graph(function, candidates, calls)) return true;
  }
  return false;
}

Match Function::match_named(io::NamedTensors& inputs, CallSite where) const {
  return etude::internal::located("", where,
                                  [&] { return internal::match_named(*program_, index_, inputs); });
}

io::NamedTensors Function::call_named(const io::NamedTensors& inputs, CallSite where) const {
  const SavedFunction& function = program_->content.functions[index_];
  io::NamedTensors given = inputs;  // a call with in-out arguments assigns them
  Match match = match_named(given, where);
  const io::NamedTensors all =
      tensors_of(Call(*program_, index_, std::move(match), where).run(), "output");
  if (!function.exported) return all;
  io::NamedTensors out;  // results of an exported signature are in the order of its structure
  const Parts& parts = function.graphs.front().result.parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& path = parts.leaf(i).path;
    out.emplace(function.exported->outputs[i], all.at(path.empty() ? "output" : path));
  }
  return out;
}

GraphRef Function::closed_graph(const io::NamedTensors& inputs, CallSite where) const {
  io::NamedTensors given = inputs;
  const Match match = match_named(given, where);
  return internal::own_graph(*program_, index_, match, internal::StateAs::kConstants).graph;
}

void Function::require_parameters(std::size_t count, CallSite where) const {
  etude::internal::located("", where, [&] {
    const SavedFunction& function = program_->content.functions[index_];
    ETUDE_REQUIRE(function.graphs.empty() || arguments().size() == count,
                  "function '{}' has {} parameters ({}), but the signature has {}", name(),
                  arguments().size(), fmt::join(arguments(), ", "), count);
  });
}

std::vector<Variable> Function::variables() const {
  std::set<int64_t> used;
  for (const SavedGraph& graph : program_->content.functions[index_].graphs) {
    for (const SavedTensor& x : graph.tensors) used.insert(x.state);
    for (const SavedUse& use : graph.uses) used.insert(use.variable);
  }
  used.erase(-1);
  std::vector<Variable> out;
  for (const int64_t i : used) out.push_back(internal::variable_at(program_->content, i));
  return out;
}

std::vector<Variable> Function::trainable_variables() const {
  std::vector<Variable> out = variables();
  std::erase_if(out, [](const Variable& v) { return !v.trainable(); });
  return out;
}

std::vector<GraphSignature> Function::signatures() const {
  std::vector<GraphSignature> out;
  for (const SavedGraph& graph : program_->content.functions[index_].graphs) {
    if (!graph.is_special) out.push_back(internal::signature_of(program_->content, graph));
  }
  return out;
}

std::string Function::explain() const {
  const SavedFunction& function = program_->content.functions[index_];
  std::string out =
      fmt::format("function '{}', loaded from '{}': {} {}\n", name(), program_->folder.string(),
                  function.graphs.size(), function.graphs.size() == 1 ? "graph" : "graphs");
  std::size_t number = 0;
  for (const SavedGraph& graph : function.graphs) {
    out += fmt::format("graph {} {}, {} nodes: {}{}\n", ++number,
                       internal::signature_of(program_->content, graph).to_string(),
                       graph.sample().size(), graph.is_special ? "for sizes of 1 or 0" : "saved",
                       graph.made_for.empty() ? "" : "  # " + graph.made_for);
  }
  return out;
}

std::vector<GraphFunction> Function::graphs() const {
  std::vector<GraphFunction> out;
  const internal::LoadedFunction& function = program_->functions[index_];
  for (const internal::LoadedGraph& graph : function.graphs) {
    if (!graph.is_symbolic()) {
      out.emplace_back(graph.trace.get(*program_, *graph.saved));
      continue;
    }
    const internal::TraceRef sample =
        internal::make_trace(*program_, *graph.saved, graph.saved->symbolic->graphs().front());
    auto open = etude::internal::make_ref<internal::Trace>();
    static_cast<etude::internal::TraceFacts&>(*open) = *sample;
    open->symbolic = graph.saved->symbolic;
    open->set_graph(sample->graph);
    out.emplace_back(internal::TraceRef(open));
  }
  return out;
}

}  // namespace etude::saved
