// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/match.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/ambient.h"
#include "etude/ops.h"
#include "etude/saved/graph_index.h"

namespace etude::saved::internal {
namespace {

std::string_view rest_of(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == path.npos ? std::string_view() : path.substr(slash);
}

template <class T>
CallLeaf leaf_of(T& value) {
  CallLeaf out;
  if constexpr (std::is_same_v<T, Tensor>) {
    out.tensor = &value;
  } else if constexpr (std::is_same_v<T, Variable>) {
    out.variable = &value;
  } else if constexpr (std::is_same_v<T, Described>) {
    out.host = &value;
  } else if constexpr (std::is_same_v<T, LayerState<Tensor>>) {
    out.tensor = &value.value;
  } else {
    if (!value.value) value.value.emplace();
    out.tensor = &*value.value;
  }
  return out;
}

// The parameter of each part of the arguments.
std::vector<std::size_t> parameters_of(const SavedFunction& function, const Form& form) {
  const std::vector<std::string>& names = function.arguments;
  std::vector<std::size_t> out;
  if (form.kind() == Form::Kind::kList) {
    ETUDE_REQUIRE(form.parts().size() == names.size(),
                  "function '{}' has {} parameters ({}), but {} arguments were given",
                  function.name, names.size(), fmt::join(names, ", "), form.parts().size());
    for (std::size_t i = 0; i < names.size(); ++i) out.push_back(i);
    return out;
  }
  for (const std::string& given : form.names()) {
    const auto found = std::ranges::find(names, given);
    ETUDE_REQUIRE(found != names.end(), "function '{}' has no parameter '{}'. It has: {}",
                  function.name, given, fmt::join(names, ", "));
    out.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    ETUDE_REQUIRE(std::ranges::count(out, i) > 0, "function '{}': argument '{}' is missing",
                  function.name, names[i]);
  }
  return out;
}

}  // namespace

std::vector<CallLeaf> leaves_of(const SavedFunction& function, Parts& arguments) {
  const Form& form = *arguments.form();
  const bool is_lone = form.kind() != Form::Kind::kFields && form.kind() != Form::Kind::kMap &&
                       form.kind() != Form::Kind::kList;
  ETUDE_REQUIRE(!is_lone || function.arguments.size() == 1,
                "function '{}' has {} parameters ({}): pass fields with these names, or a list",
                function.name, function.arguments.size(), fmt::join(function.arguments, ", "));
  const std::vector<std::size_t> parameters =
      is_lone ? std::vector<std::size_t>{0} : parameters_of(function, form);
  std::vector<CallLeaf> out;
  std::size_t part = 0, left = is_lone ? form.leaves().size() : 0;
  arguments.each_part([&](const FormLeaf& leaf, auto& value) {
    while (!is_lone && left == 0) left = form.parts()[part++]->leaves().size();
    --left;
    CallLeaf& made = out.emplace_back(leaf_of(value));
    made.argument = parameters[is_lone ? 0 : part - 1];
    made.path = function.arguments[made.argument];
    if (is_lone) {
      if (!leaf.path.empty()) made.path += "/" + leaf.path;
    } else {
      made.path += rest_of(leaf.path);
    }
  });
  std::ranges::stable_sort(out, {}, &CallLeaf::argument);
  return out;
}

namespace {

// Whether an integer dtype has this number. Above 2^53 a double may be a rounded integer.
bool is_in_range(double value, DType dtype) {
  const bool is_signed = kSignedIntegers.contains(dtype);
  const double end = std::ldexp(1.0, static_cast<int>(8 * itemsize(dtype)) - (is_signed ? 1 : 0));
  return value >= (is_signed ? -end : 0) && value < end && std::fabs(value) <= 0x1p53;
}

// The number as a tensor of this type. Absent if it is no number, if it is not in the range of an
// integer dtype, or if a floating dtype rounds a whole number up to 2^24.
std::optional<Tensor> as_tensor(const Described& host, const Type* type) {
  const bool is_bool = host.type() == typeid(bool);
  if (type->rank() != 0 || is_bool != (type->dtype() == kBool)) return std::nullopt;
  double value = 0;
  try {
    value = is_bool ? (host.get<bool>() ? 1 : 0) : host.get<double>();
  } catch (const Error&) {
    return std::nullopt;
  }
  const bool is_whole = value == std::floor(value);
  if (is_integer(type->dtype()) && !(is_whole && is_in_range(value, type->dtype()))) {
    return std::nullopt;
  }
  Tensor out = etude::internal::full(type, value);
  const bool is_small = is_whole && std::fabs(value) <= 0x1p24;
  if (is_floating(type->dtype()) && is_small && astype(out, kFloat64).item<double>() != value) {
    return std::nullopt;
  }
  return out;
}

class Matcher {
 public:
  Matcher(const Loaded& program, const std::vector<CallLeaf>& leaves, HostValues hosts)
      : program_(program), leaves_(leaves), hosts_(hosts) {}

  // `converts`: numbers may become tensors.
  std::optional<Match> match(const LoadedGraph& graph, bool converts) const {
    const SavedGraph& saved = *graph.saved;
    if (saved.phase != ambient().phase) return std::nullopt;
    Match out{.graph = &saved};
    std::vector<uint8_t> is_used(leaves_.size());
    std::vector<const Type*> types = graph.types;
    if (!take_tensors(saved, converts, types, is_used, out) || !take_hosts(saved, is_used) ||
        !take_variables(graph, types, is_used, out)) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const bool is_absent = leaves_[i].tensor != nullptr && !leaves_[i].tensor->has_value();
      if (is_used[i] == 0 && !is_absent) return std::nullopt;
    }
    out.trace = trace_for(program_, graph, types);
    if (!out.trace) return std::nullopt;
    return out;
  }

 private:
  const CallLeaf* find(const std::string& path, std::vector<uint8_t>& is_used) const {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (is_used[i] != 0 || leaves_[i].path != path) continue;
      is_used[i] = 1;
      return &leaves_[i];
    }
    return nullptr;
  }

  // Sets the types of the inputs for the arguments of the call.
  bool take_tensors(const SavedGraph& saved, bool converts, std::vector<const Type*>& types,
                    std::vector<uint8_t>& is_used, Match& out) const {
    std::size_t input = 0;
    for (const SavedTensor& x : saved.tensors) {
      Tensor*& to = out.tensors.emplace_back(nullptr);
      if (x.state >= 0) {
        const Variable& state = variable_at(program_.content, x.state);
        types[input++] = intern_type(state.dtype(), state.shape());
        continue;
      }
      const CallLeaf* leaf = find(x.path, is_used);
      const bool is_absent =
          leaf == nullptr || (leaf->tensor != nullptr && !leaf->tensor->has_value());
      if (x.is_absent != is_absent) return false;
      if (x.is_absent) continue;
      const Type*& type = types[input++];
      if (leaf->tensor != nullptr) {
        type = type_at_home(*leaf->tensor);
        to = leaf->tensor;
        continue;
      }
      if (!converts || leaf->host == nullptr) return false;
      std::optional<Tensor> made = as_tensor(*leaf->host, type);
      if (!made) return false;
      out.converted.push_back(std::make_unique<Tensor>(std::move(*made)));
      to = out.converted.back().get();
    }
    return true;
  }

  bool take_hosts(const SavedGraph& saved, std::vector<uint8_t>& is_used) const {
    if (hosts_ == HostValues::kOfGraph) return true;
    return std::ranges::all_of(saved.hosts, [&](const SavedHost& host) {
      const CallLeaf* leaf = find(host.path, is_used);
      return leaf != nullptr && leaf->host != nullptr && leaf->host->text() == host.text;
    });
  }

  bool take_variables(const LoadedGraph& graph, std::vector<const Type*>& types,
                      std::vector<uint8_t>& is_used, Match& out) const {
    const SavedGraph& saved = *graph.saved;
    for (const SavedVariableArgument& argument : saved.variable_arguments) {
      const CallLeaf* leaf = find(argument.path, is_used);
      if (leaf == nullptr || leaf->variable == nullptr) return false;
      out.variables.push_back(*leaf->variable);
      std::size_t first = 0;
      while (out.variables[first].ref() != leaf->variable->ref()) ++first;
      if (first != static_cast<std::size_t>(argument.same_as)) return false;
    }
    std::size_t input = graph.first_variable;
    for (const SavedUse& use : saved.uses) {
      if (!use.is_read) continue;
      const Variable& v = use.variable >= 0 ? variable_at(program_.content, use.variable)
                                            : out.variables[static_cast<std::size_t>(use.argument)];
      types[input++] = intern_type(v.dtype(), v.shape());
    }
    return true;
  }

  const Loaded& program_;
  const std::vector<CallLeaf>& leaves_;
  const HostValues hosts_;
};

std::string text_of(const CallLeaf& leaf) {
  if (leaf.host != nullptr) return leaf.host->text();
  if (leaf.variable != nullptr) {
    return fmt::format("Variable {}{}", name(leaf.variable->dtype()),
                       leaf.variable->shape().to_string());
  }
  return leaf.tensor->has_value() ? leaf.tensor->type()->to_string() : "absent";
}

std::string given_text(const std::vector<CallLeaf>& leaves) {
  std::vector<std::string> out;
  for (const CallLeaf& leaf : leaves) out.push_back(leaf.path + ": " + text_of(leaf));
  return fmt::format("({}){}", fmt::join(out, ", "), is_training() ? " in the training phase" : "");
}

// How far the graph is from the arguments: parts that only one of them has count most, then
// dtypes and ranks, then sizes and host values.
std::size_t distance(const SavedGraph& graph, const std::vector<CallLeaf>& leaves) {
  constexpr std::size_t kPart = 100, kKind = 10;
  std::size_t out = graph.phase == ambient().phase ? 0 : 1, used = 0, input = 0;
  const auto find = [&](const std::string& path) {
    const auto found = std::ranges::find(leaves, path, &CallLeaf::path);
    used += found != leaves.end() ? 1 : 0;
    return found == leaves.end() ? nullptr : &*found;
  };
  for (const SavedTensor& x : graph.tensors) {
    const Type* type = x.is_absent ? nullptr : graph.sample().inputs()[input++].type;
    if (x.state >= 0) continue;
    const CallLeaf* leaf = find(x.path);
    const bool has = leaf != nullptr && leaf->tensor != nullptr && leaf->tensor->has_value();
    if (has != (type != nullptr)) {
      out += kPart;
      continue;
    }
    if (!has) continue;
    const Type* given = leaf->tensor->type();
    out += given->dtype() == type->dtype() ? 0 : kKind;
    if (given->rank() != type->rank()) {
      out += kKind;
      continue;
    }
    for (int axis = 0; axis < type->rank(); ++axis) {
      out += given->shape()[axis] == type->shape()[axis] ? 0 : 1;
    }
  }
  for (const SavedHost& host : graph.hosts) {
    const CallLeaf* leaf = find(host.path);
    if (leaf == nullptr || leaf->host == nullptr) {
      out += kPart;
    } else {
      out += leaf->host->text() == host.text ? 0 : 1;
    }
  }
  for (const SavedVariableArgument& v : graph.variable_arguments) {
    const CallLeaf* leaf = find(v.path);
    out += leaf != nullptr && leaf->variable != nullptr ? 0 : kPart;
  }
  return out + kPart * (leaves.size() - std::min(leaves.size(), used));
}

[[noreturn]] void throw_no_graph(const Loaded& program, const SavedFunction& function,
                                 const std::vector<CallLeaf>& leaves) {
  constexpr std::size_t kShown = 16;
  std::vector<std::pair<std::size_t, std::string>> known;
  for (const SavedGraph& graph : function.graphs) {
    if (graph.is_special) continue;
    known.emplace_back(distance(graph, leaves), signature_of(program.content, graph).to_string());
  }
  std::ranges::stable_sort(known, {}, &std::pair<std::size_t, std::string>::first);
  std::string list;
  for (std::size_t i = 0; i < std::min(known.size(), kShown); ++i) list += "\n  " + known[i].second;
  if (known.size() > kShown) list += fmt::format("\n  and {} more", known.size() - kShown);
  ETUDE_THROW(
      kInvalidArgument,
      "function '{}' has no graph for {}. A loaded function has the graphs that it had when "
      "it was saved, for these arguments, the nearest first:{}",
      function.name, given_text(leaves), list);
}

}  // namespace

TraceRef trace_for(const Loaded& program, const LoadedGraph& graph,
                   const std::vector<const Type*>& types) {
  const SavedGraph& saved = *graph.saved;
  if (!graph.is_symbolic()) {
    return types == graph.types ? graph.trace.get(program, saved) : TraceRef();
  }
  if (TraceRef known = graph.instances->find(program, types)) return known;
  const std::vector<int64_t> sizes = saved.symbolic->sizes_of(types);
  if (sizes.empty()) return {};
  const GraphAtSizes at = saved.symbolic->at(sizes);
  if (!at.graph) return {};
  TraceRef made = make_trace(program, saved, at.graph);
  graph.instances->add(program, types, made);
  return made;
}

namespace {

// The types of the inputs of a call. Calls are frequent, so they are found without an allocation.
using InputTypes = etude::internal::InlineVector<const Type*, 16>;

const Type* present_type(const Variable& v) { return type_at_home(etude::internal::peek(v)); }

// Whether the arguments may fit the graph. Its state is not looked at.
bool may_fit(const LoadedGraph& graph, std::span<const Tensor* const> arguments) {
  std::size_t input = 0, next = 0;
  for (const SavedTensor& x : graph.saved->tensors) {
    const Type* const wanted = graph.types[input++];
    if (x.state >= 0) continue;
    const Tensor& given = *arguments[next++];
    if (!given.has_value()) return false;
    const Type* const type = type_at_home(given);
    const bool fits = !graph.is_symbolic()
                          ? type == wanted
                          : type->dtype() == wanted->dtype() && type->rank() == wanted->rank();
    if (!fits) return false;
  }
  return true;
}

// Whether all state that the graph reads has values. It keeps them, so that one look suffices.
// State without a value fits no graph: the general path has the error.
bool has_state(const Loaded& program, const LoadedGraph& graph) {
  if (graph.has_state.load(std::memory_order_relaxed)) return true;
  for (const SavedTensor& x : graph.saved->tensors) {
    if (x.state >= 0 && !variable_at(program.content, x.state).initialized()) return false;
  }
  for (const SavedUse& use : graph.saved->uses) {
    if (use.is_read && !variable_at(program.content, use.variable).initialized()) return false;
  }
  graph.has_state.store(true, std::memory_order_relaxed);
  return true;
}

// The trace of a plain graph for these arguments. `state_type` has the type of each Variable that
// the graph reads as an operand, in order.
template <class StateType>
TraceRef trace_of(const Loaded& program, const LoadedGraph& graph,
                  std::span<const Tensor* const> arguments, const StateType& state_type) {
  const SavedGraph& saved = *graph.saved;
  if (saved.phase != ambient().phase || !may_fit(graph, arguments) || !has_state(program, graph)) {
    return {};
  }
  InputTypes types;
  std::size_t next = 0;
  for (const SavedTensor& x : saved.tensors) {
    types.push_back(x.state >= 0 ? state_type(variable_at(program.content, x.state))
                                 : type_at_home(*arguments[next++]));
  }
  for (std::size_t key = types.size(); key < graph.first_variable; ++key) {
    types.push_back(graph.types[key]);
  }
  for (const SavedUse& use : saved.uses) {
    if (use.is_read) types.push_back(present_type(variable_at(program.content, use.variable)));
  }
  for (std::size_t rest = types.size(); rest < graph.types.size(); ++rest) {
    types.push_back(graph.types[rest]);
  }
  if (!graph.is_symbolic()) {
    const bool fits = std::ranges::equal(types, graph.types);
    return fits ? graph.trace.get(program, saved) : TraceRef();
  }
  if (TraceRef known = graph.instances->find(program, {types.data(), types.size()})) return known;
  return trace_for(program, graph, std::vector<const Type*>(types.begin(), types.end()));
}

}  // namespace

TraceRef trace_of_plain(const Loaded& program, const LoadedGraph& graph,
                        std::span<const Tensor* const> arguments) {
  return trace_of(program, graph, arguments, present_type);
}

TraceRef trace_of_pure(const Loaded& program, const LoadedGraph& graph,
                       std::span<const Tensor* const> arguments, StateValues& state,
                       CallSite where) {
  return trace_of(program, graph, arguments, [&](const Variable& v) {
    state.push_back(v.read(where));
    return type_at_home(state.back());
  });
}

Match find_graph(const Loaded& program, std::size_t index_of_function,
                 const std::vector<CallLeaf>& leaves, HostValues hosts) {
  const SavedFunction& function = program.content.functions[index_of_function];
  const LoadedFunction& loaded = program.functions[index_of_function];
  ETUDE_REQUIRE_CODE(
      kFailedPrecondition, !loaded.graphs.empty(),
      "function '{}' was saved without a graph, since it had not been called. Call it "
      "once before it is saved, or give it a signature",
      function.name);
  const Matcher matcher(program, leaves, hosts);
  const auto find = [&](bool is_symbolic, bool converts) {
    std::optional<Match> found;
    const auto fits = [&](const LoadedGraph& graph) {
      if ((!graph.saved->graph) == is_symbolic) found = matcher.match(graph, converts);
      return found.has_value();
    };
    static_cast<void>(any_graph(
        loaded,
        [&](const GraphIndex& index) { return index.of_leaves(leaves, hosts, is_symbolic); },
        fits));
    return found;
  };
  for (const bool converts : {false, true}) {
    for (const bool is_symbolic : {false, true}) {
      if (std::optional<Match> found = find(is_symbolic, converts)) return std::move(*found);
    }
  }
  throw_no_graph(program, function, leaves);
}

namespace {

std::vector<PortSize> sizes_of(const Type* type) {
  std::vector<PortSize> out;
  for (const int64_t size : type->shape()) out.push_back({size});
  return out;
}

Port port_of_input(const SavedGraph& graph, const std::string& path, std::size_t input) {
  const Type* type = graph.sample().inputs()[input].type;
  Port out{.name = path,
           .type = type_text(graph, static_cast<GraphValue>(input)),
           .dtype = type->dtype()};
  out.sizes = sizes_of(type);
  if (!graph.symbolic) return out;
  for (const SymbolicGraph::Size& size : graph.symbolic->sizes()) {
    for (const auto& [at, axis] : size.axes) {
      if (at == input) (*out.sizes)[static_cast<std::size_t>(axis)] = {-1, size.name};
    }
  }
  return out;
}

Port port_of_result(const SavedGraph& graph, const std::string& path, GraphValue value) {
  const Type* type = graph.sample().type(value);
  Port out{.name = path.empty() ? "output" : path,
           .type = type_text(graph, value),
           .dtype = type->dtype()};
  if (!graph.symbolic) out.sizes = sizes_of(type);
  return out;
}

}  // namespace

GraphSignature signature_of(const Content& content, const SavedGraph& graph) {
  GraphSignature out{.phase = graph.phase};
  std::size_t input = 0;
  for (const SavedTensor& x : graph.tensors) {
    const std::size_t at = x.is_absent ? input : input++;
    if (x.state < 0) {
      out.inputs.push_back(x.is_absent ? Port{.name = x.path, .type = "absent"}
                                       : port_of_input(graph, x.path, at));
    }
    const std::string& path =
        x.state < 0 ? x.path : content.variables[static_cast<std::size_t>(x.state)].paths[0];
    if (x.is_changed) out.changed.push_back(path);
  }
  for (const SavedVariableArgument& v : graph.variable_arguments) {
    out.inputs.push_back({v.path, "Variable", Port::Kind::kVariable});
  }
  for (const SavedHost& host : graph.hosts) {
    out.inputs.push_back({host.path, host.text, Port::Kind::kHost});
  }
  for (const SavedUse& use : graph.uses) {
    if (!use.is_written || use.variable < 0) continue;
    out.changed.push_back(content.variables[static_cast<std::size_t>(use.variable)].paths[0]);
  }
  std::size_t output = 0;
  for (std::size_t i = 0; i < graph.result.parts.size(); ++i) {
    if (graph.result.is_present[i] == 0) continue;
    const GraphValue value = graph.sample().outputs()[output++];
    out.outputs.push_back(port_of_result(graph, graph.result.parts.leaf(i).path, value));
  }
  return out;
}

}  // namespace etude::saved::internal

namespace etude::saved {

std::string GraphSignature::to_string() const {
  std::vector<std::string> texts;
  for (const Port& input : inputs) texts.push_back(input.name + ": " + input.type);
  return fmt::format("({}){}", fmt::join(texts, ", "),
                     phase == Phase::kTraining ? " in the training phase" : "");
}

}  // namespace etude::saved
