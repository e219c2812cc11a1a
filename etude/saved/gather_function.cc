// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/gather_function.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/resource.h"
#include "etude/saved/loaded.h"
#include "etude/saved/structure.h"

namespace etude::saved::internal {
namespace {

// The structure of arguments has words in the key of a trace as well: lengths, and the forms of
// Parts. The leaves below show them.
bool is_structure(const std::string& path, const ArgumentNames& names, const std::string& text) {
  if (text.starts_with('{') || text.starts_with('[')) return true;
  const std::string below = path + "/";
  const auto is_at = [&](const std::string& other) {
    return other == path || other.starts_with(below);
  };
  if (std::ranges::any_of(names.tensors, is_at)) return true;
  return std::ranges::any_of(names.words,
                             [&](const std::string& other) { return other.starts_with(below); });
}

std::string line_of(CallSite where) {
  if (!where.known()) return "";
  const std::string_view file = where.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line);
}

// Whether the symbolic graph of `wide` has the graph of `narrow` at its sizes.
bool covers(const SavedGraph& wide, const SavedGraph& narrow) {
  const auto same_hosts = std::ranges::equal(
      wide.hosts, narrow.hosts,
      [](const SavedHost& a, const SavedHost& b) { return a.path == b.path && a.text == b.text; });
  const auto same_uses =
      std::ranges::equal(wide.uses, narrow.uses, [](const SavedUse& a, const SavedUse& b) {
        return a.variable == b.variable && a.argument == b.argument && a.is_read == b.is_read &&
               a.is_written == b.is_written;
      });
  if (!wide.symbolic || !narrow.graph || narrow.is_special || wide.phase != narrow.phase ||
      !same_hosts || !same_uses || wide.captures != narrow.captures) {
    return false;
  }
  const std::vector<int64_t> sizes = wide.symbolic->sizes_of(input_types(*narrow.graph));
  if (sizes.empty()) return false;
  const GraphAtSizes at = wide.symbolic->at(sizes);
  return at.graph && at.graph->same(*narrow.graph);
}

}  // namespace

std::string joined(const std::string& name, const std::string& path) {
  return path.empty() ? name : name + "/" + path;
}

SavedFunction FunctionGatherer::gather(const StateOf& state_of) {
  SavedFunction out{.name = name_, .display = given_.display};
  for (const GivenArgument& argument : given_.arguments) out.arguments.push_back(argument.name);
  if (given_.traces.empty()) return out;
  for (const GivenTrace& each : given_.traces) {
    if (!is_usable(each)) continue;
    bind(state_of, *each.trace);
    out.graphs.push_back(graph_of(each));
  }
  if (out.graphs.empty()) refuse_state();
  std::vector<SavedGraph> kept;
  for (std::size_t i = 0; i < out.graphs.size(); ++i) {
    const bool is_covered = std::ranges::any_of(
        out.graphs, [&](const SavedGraph& wide) { return covers(wide, out.graphs[i]); });
    if (!is_covered) kept.push_back(out.graphs[i]);
  }
  out.graphs = std::move(kept);
  return out;
}

void FunctionGatherer::refuse_state() const {
  throw Error(unusable_code_,
              fmt::format("function '{}' has no graph that can be saved: {}", name_, unusable_));
}

bool FunctionGatherer::is_usable(const GivenTrace& given) {
  const etude::internal::Trace& trace = *given.trace;
  if (trace.enclosing || trace.has_examples) {
    unusable_ = "its graphs use values of a function or a vmap around it. Save that function";
    return false;
  }
  if (!given.fits) {
    unusable_ =
        "none was made for the present state of its bound objects. Call it with them before it is "
        "saved";
    return false;
  }
  if (trace.arguments != nullptr) {
    unusable_ =
        "a call changes the structure of an argument, as the first step of an optimiser does. "
        "Call it once more, with the changed argument";
    unusable_code_ = ErrorCode::kFailedPrecondition;
    return false;
  }
  return true;
}

void FunctionGatherer::bind(const StateOf& state_of, const etude::internal::Trace& trace) {
  if (!states_.empty() || !bound_variables_.empty()) return;
  std::size_t first = 0;
  for (const BoundObject& object : given_.bound) {
    BoundState& state = state_of(object);
    if (state.values.size() != object.tensors.size() || state.variables.empty()) {
      ETUDE_REQUIRE_CODE(kFailedPrecondition, state.variables.empty(),
                         "function '{}': bound object '{}' changed its structure between two calls "
                         "of saved::bind. Call bind() for all functions together",
                         name_, state.prefix);
      for (std::size_t i = 0; i < object.tensors.size(); ++i) {
        const Tensor& value = object.tensors[i];
        std::string path = trace.names.tensors[first + i];
        path = path == object.name ? "" : path.substr(object.name.size() + 1);
        state.values.push_back(value);
        state.variables.push_back(
            value.has_value()
                ? store_.add_state(joined(state.prefix, path), value, object.is_trained[i] != 0)
                : -1);
      }
    }
    for (std::size_t i = 0; i < object.tensors.size(); ++i) {
      const Tensor &now = object.tensors[i], &before = state.values[i];
      ETUDE_REQUIRE_CODE(
          kFailedPrecondition,
          now.has_value() == before.has_value() && (!now.has_value() || now.ref() == before.ref()),
          "function '{}': bound object '{}' changed between two calls of "
          "saved::bind. Call bind() for all functions together",
          name_, state.prefix);
      states_.push_back(state.variables[i]);
    }
    first += object.tensors.size();
  }
  for (const Variable& v : given_.bound_variables) {
    const int64_t known = store_.reach(v);
    bound_variables_.push_back(
        known >= 0 ? known : store_.add(v, v.name().empty() ? "variable" : v.name()));
  }
}

SavedGraph FunctionGatherer::graph_of(const GivenTrace& given) {
  const etude::internal::Trace& trace = *given.trace;
  SavedGraph out;
  out.phase = trace.key.phase;
  out.is_special = given.is_special;
  out.made_for = line_of(trace.where);
  require_no_host_calls(*trace.graph, name_);
  ETUDE_REQUIRE_CODE(kUnimplemented, trace.key.objects.size() == given_.bound_objects,
                     "function '{}': its graph was made for argument '{}', an object of this "
                     "process, so it cannot be saved. Pass tensors, numbers or texts",
                     name_, trace.names.objects[given_.bound_objects]);
  add_tensors(out, trace);
  add_hosts(out, trace);
  add_uses(out, trace);
  for (const Tensor& x : trace.captures) out.captures.push_back(store_.constant(x));
  add_result(out, given.result);
  add_graphs(out, given);
  return out;
}

void FunctionGatherer::add_graphs(SavedGraph& to, const GivenTrace& given) {
  const auto saved = [&](const GraphRef& graph) {
    return options_.custom_gradients ? graph : without_custom_gradients(graph);
  };
  if (!given.symbolic) {
    to.graph = saved(given.trace->graph);
    return;
  }
  std::vector<GraphRef> graphs;
  for (const GraphRef& graph : given.symbolic->graphs()) graphs.push_back(saved(graph));
  SymbolicFound found = SymbolicGraph::of(graphs);
  ETUDE_CHECK(found.symbolic, "graphs of a symbolic graph form none: {}", found.difference);
  to.symbolic = std::move(found.symbolic);
}

void FunctionGatherer::add_tensors(SavedGraph& to, const etude::internal::Trace& trace) {
  for (std::size_t i = 0; i < trace.key.types.size(); ++i) {
    const bool is_absent = trace.key.types[i] == nullptr;
    if (is_absent && i < states_.size()) continue;  // of a bound object: no caller can pass it
    SavedTensor& x = to.tensors.emplace_back();
    if (i < states_.size()) x.state = states_[i];
    x.path = trace.names.tensors[i];
    x.is_absent = is_absent;
    x.is_changed = i < trace.in_out.size() && trace.in_out[i] != 0 && !x.is_absent;
  }
}

void FunctionGatherer::add_hosts(SavedGraph& to, const etude::internal::Trace& trace) {
  const ArgumentNames& names = trace.names;
  for (std::size_t i = given_.bound_words; i < names.words.size(); ++i) {
    const std::string &path = names.words[i], &text = names.values[i];
    const auto variable = std::ranges::find_if(
        given_.arguments, [&](const GivenArgument& a) { return a.is_variable && a.name == path; });
    if (variable != given_.arguments.end()) {
      to.variable_arguments.push_back({path, static_cast<int64_t>(trace.key.words[i])});
      continue;
    }
    if (is_structure(path, names, text)) continue;
    if (text.empty()) {  // an empty container
      ETUDE_REQUIRE_CODE(kUnimplemented, trace.key.words[i] == 0,
                         "function '{}': its graph was made for a value of argument '{}' that only "
                         "this process knows, such as a function, so it cannot be saved. Bind the "
                         "argument, or pass a number or a text",
                         name_, path);
      continue;
    }
    if (!to.hosts.empty() && to.hosts.back().path == path) continue;  // of several words
    to.hosts.push_back({path, text});
  }
}

void FunctionGatherer::add_uses(SavedGraph& to, const etude::internal::Trace& trace) {
  for (const etude::internal::VariableSlot& slot : trace.variables) {
    ETUDE_REQUIRE_CODE(kUnimplemented, slot.source == nullptr,
                       "function '{}' reads {} at each call, from code of this process, so it "
                       "cannot be saved. Pass the value as an argument",
                       name_, slot.name);
    SavedUse& use = to.uses.emplace_back();
    use.is_read = slot.is_read;
    use.is_written = slot.is_written;
    if (slot.argument >= 0) {
      const auto at = static_cast<std::size_t>(slot.argument);
      if (at < bound_variables_.size()) {
        use.variable = bound_variables_[at];
        continue;
      }
      use.argument = slot.argument - static_cast<int64_t>(bound_variables_.size());
      ETUDE_REQUIRE_CODE(
          kUnimplemented, use.argument < static_cast<int64_t>(to.variable_arguments.size()),
          "function '{}' has a Variable in a structure among its arguments, which cannot be saved. "
          "Bind the structure (saved::bind), or pass the Variable as an argument of its own",
          name_);
      continue;
    }
    const std::shared_ptr<void> state = slot.state.lock();
    ETUDE_REQUIRE_CODE(kFailedPrecondition, state != nullptr,
                       "function '{}' uses {}, which is gone: its last handle was destroyed", name_,
                       slot.name);
    const Variable variable = etude::internal::variable_of_state(state);
    use.variable = store_.reach(variable);
    ETUDE_REQUIRE_CODE(kFailedPrecondition, use.variable >= 0,
                       "function '{}' uses {}, which no entry reaches. Save it as well: "
                       "{{\"name\", variable}}, or the object that owns it",
                       name_, etude::internal::made_text(variable));
  }
}

void FunctionGatherer::add_result(SavedGraph& to, const Parts& result) {
  std::optional<Parts> empty = rebuilt(result, [&](std::size_t i) -> std::optional<Parts> {
    const FormLeaf& leaf = result.leaf(i);
    if (leaf.kind == LeafKind::kHost) {
      const Described& value = result.host(leaf.path);
      ETUDE_REQUIRE_CODE(kUnimplemented, is_storable(value),
                         "function '{}' returns '{}', a {} of this process, so it cannot be saved. "
                         "Return tensors, numbers or texts",
                         name_, leaf.path, value.type_name());
      to.result.is_present.push_back(0);
      return Parts(value);
    }
    const Tensor x = tensor_of(result, i);
    ETUDE_REQUIRE_CODE(kUnimplemented, !x.has_value() || !TensorAccess::is_sparse(x),
                       "function '{}' returns sparse rows, '{}', which cannot be saved yet. Make "
                       "them dense: to_dense(x)",
                       name_, leaf.path);
    to.result.is_present.push_back(x.has_value() ? 1 : 0);
    return empty_leaf(leaf);
  });
  to.result.parts = std::move(*empty);
}

}  // namespace etude::saved::internal
