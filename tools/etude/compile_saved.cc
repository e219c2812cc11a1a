// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/compile_saved.h"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/io/safetensors.h"
#include "etude/ops.h"
#include "etude/saved/graph_inputs.h"
#include "tools/etude/name_text.h"
#include "tools/etude/saved_command.h"

namespace etude::tools {
namespace {

using saved::internal::Content;
using saved::internal::Loaded;
using saved::internal::Match;
using saved::internal::SavedFunction;
using saved::internal::SavedGraph;

std::size_t chosen(const Content& content, const std::string& name) {
  const std::vector<SavedFunction>& all = content.functions;
  std::vector<std::string> names;
  for (const SavedFunction& each : all) names.push_back(each.name);
  const std::size_t at = chosen_index(names, name, "this folder");
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !all[at].graphs.empty(),
                     "function '{}' was saved without a graph. Call it once before it is saved",
                     all[at].name);
  return at;
}

// Zeros of the type of an input, with `size` for each open size.
Tensor zeros_of(const saved::Port& port, int64_t size) {
  std::vector<int64_t> sizes;
  for (const saved::PortSize& each : *port.sizes) {
    sizes.push_back(each.is_open() ? size : each.number);
  }
  return zeros(sizes, {.dtype = *port.dtype});
}

// Tensors of the types of the first graph, by the names that a call takes.
io::NamedTensors sample(const Loaded& loaded, const SavedFunction& function, int64_t size) {
  const SavedGraph& graph = function.graphs.front();
  io::NamedTensors out;
  std::size_t next = 0;
  for (const saved::Port& port : saved::internal::signature_of(loaded.content, graph).inputs) {
    if (port.kind != saved::Port::Kind::kTensor) continue;
    const std::string& name = function.exported ? function.exported->inputs[next] : port.name;
    ++next;
    if (port.dtype) out.emplace(name, zeros_of(port, size));
  }
  return out;
}

std::vector<std::string> names_of_results(const Loaded& loaded, const SavedFunction& function,
                                          const SavedGraph& graph) {
  if (function.exported) return function.exported->outputs;
  std::vector<std::string> out = saved::internal::outputs_of(loaded.content, graph);
  out.resize(saved::internal::result_count(graph));
  return out;
}

// A compiled function gets its state from its caller, and returns results only.
void require_no_change(const Content& content, const SavedFunction& function,
                       const SavedGraph& graph) {
  const std::vector<std::string> outputs = saved::internal::outputs_of(content, graph);
  const std::size_t results = saved::internal::result_count(graph);
  if (outputs.size() == results) return;
  const std::vector<std::string> changed(outputs.begin() + static_cast<std::ptrdiff_t>(results),
                                         outputs.end());
  ETUDE_THROW(kUnimplemented,
              "function '{}' changes {}, but a compiled function changes no state. Export a "
              "function that returns the new values",
              shown(function.name), listed(changed));
}

aot::State state_of(const Loaded& loaded, const std::vector<int64_t>& variables) {
  aot::State out;
  for (const int64_t index : variables) {
    const auto& from = loaded.content.variables[static_cast<std::size_t>(index)];
    out.emplace_back(from.paths.front(), from.variable->read());
  }
  return out;
}

}  // namespace

SavedModels saved_models(const std::string& folder, const std::string& function, int64_t graph,
                         const std::vector<int64_t>& sizes, bool is_state_apart) {
  Content content = saved::internal::read_content(folder, 0);
  const std::size_t at = chosen(content, function);
  const PhaseScope phase(keep_graph(content.functions[at], graph, Phase::kInference));
  const auto loaded = saved::internal::make_loaded(folder, std::move(content));
  const SavedFunction& from = loaded->content.functions[at];
  ETUDE_REQUIRE(
      sizes.size() == 1 || from.graphs.front().symbolic,
      "function '{}' has no open size: it takes {}. Leave --size out, or call it with two "
      "sizes before it is saved",
      from.name, saved::internal::signature_of(loaded->content, from.graphs.front()).to_string());
  SavedModels out;
  std::vector<int64_t> variables;
  for (const int64_t size : sizes) {
    io::NamedTensors inputs = sample(*loaded, from, size);
    if (graph == 0) require_one_host_value(loaded->content, from, inputs, folder);
    const Match match = saved::internal::match_named(*loaded, at, inputs);
    require_no_change(loaded->content, from, *match.graph);
    saved::internal::OwnGraph own = saved::internal::own_graph(
        *loaded, at, match,
        is_state_apart ? saved::internal::StateAs::kInputs : saved::internal::StateAs::kConstants);
    if (out.graphs.empty()) {
      variables = own.state;
      out.outputs = names_of_results(*loaded, from, *match.graph);
      out.state = state_of(*loaded, variables);
    }
    // The state of all sizes is one file.
    ETUDE_REQUIRE_CODE(kUnimplemented, own.state == variables,
                       "function '{}' reads other state at other sizes. Compile each size on its "
                       "own",
                       from.name);
    out.graphs.push_back(std::move(own.graph));
  }
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !is_state_apart || !out.state.empty(),
                     "function '{}' reads no state. Leave --state-file and --state-only out",
                     from.name);
  return out;
}

}  // namespace etude::tools
