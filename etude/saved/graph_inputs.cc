// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/graph_inputs.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/stage/make_graph.h"

namespace etude::saved::internal {
namespace {

const std::string& path_of(const Content& content, int64_t variable) {
  return content.variables[static_cast<std::size_t>(variable)].paths.front();
}

}  // namespace

std::vector<GraphInput> inputs_of(const Content& content, const SavedGraph& graph) {
  using Source = GraphInput::Source;
  std::vector<GraphInput> out;
  for (const SavedTensor& x : graph.tensors) {
    if (x.is_absent) continue;
    if (x.state >= 0) {
      out.push_back({Source::kState, x.state, path_of(content, x.state)});
    } else {
      out.push_back({Source::kArgument, -1, x.path});
    }
  }
  const auto inputs = graph.sample().inputs();
  while (out.size() < inputs.size() && inputs[out.size()].role == InputRole::kKey) {
    out.push_back({.source = Source::kKey});
  }
  for (const SavedUse& use : graph.uses) {
    if (!use.is_read) continue;
    if (use.variable >= 0) {
      out.push_back({Source::kState, use.variable, path_of(content, use.variable)});
    } else {
      const auto at = static_cast<std::size_t>(use.argument);
      out.push_back({Source::kVariable, use.argument, graph.variable_arguments[at].path});
    }
  }
  for (const int64_t c : graph.captures) {
    out.push_back({Source::kConstant, c, fmt::format("constant {}", c)});
  }
  ETUDE_CHECK(out.size() == inputs.size(), "{} inputs are known, of {}", out.size(), inputs.size());
  return out;
}

std::string argument_name(const SavedFunction& function, const std::string& path) {
  if (!function.exported) return path;
  const auto& paths = function.exported->input_paths;
  const auto found = std::ranges::find(paths, path);
  if (found == paths.end()) return path;
  return function.exported->inputs[static_cast<std::size_t>(found - paths.begin())];
}

std::size_t result_count(const SavedGraph& graph) {
  return static_cast<std::size_t>(std::ranges::count(graph.result.is_present, 1));
}

std::vector<std::string> outputs_of(const Content& content, const SavedGraph& graph) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < graph.result.parts.size(); ++i) {
    if (graph.result.is_present[i] == 0) continue;
    const std::string& path = graph.result.parts.leaf(i).path;
    out.push_back(path.empty() ? "output" : path);
  }
  for (const SavedTensor& x : graph.tensors) {
    if (x.is_changed) out.push_back(x.state >= 0 ? path_of(content, x.state) : x.path);
  }
  for (const SavedUse& use : graph.uses) {
    if (!use.is_written) continue;
    out.push_back(use.variable >= 0
                      ? path_of(content, use.variable)
                      : graph.variable_arguments[static_cast<std::size_t>(use.argument)].path);
  }
  ETUDE_CHECK(out.size() == graph.sample().outputs().size(), "{} outputs are known, of {}",
              out.size(), graph.sample().outputs().size());
  return out;
}

Match match_named(const Loaded& program, std::size_t index, io::NamedTensors& inputs) {
  const SavedFunction& function = program.content.functions[index];
  std::vector<CallLeaf> leaves;
  for (auto& [name, x] : inputs) {
    CallLeaf& leaf = leaves.emplace_back();
    leaf.path = name;
    leaf.tensor = &x;
    if (!function.exported) continue;
    const auto& names = function.exported->inputs;
    const auto found = std::ranges::find(names, name);
    ETUDE_REQUIRE(found != names.end(), "function '{}' has no input '{}'. It has: {}",
                  function.name, name, fmt::join(names, ", "));
    leaf.path = function.exported->input_paths[static_cast<std::size_t>(found - names.begin())];
  }
  return find_graph(program, index, leaves, HostValues::kOfGraph);
}

Tensor value_of(const Loaded& program, const Match& match, const GraphInput& input) {
  switch (input.source) {
    case GraphInput::Source::kArgument:
    case GraphInput::Source::kKey:
      break;
    case GraphInput::Source::kState:
      return variable_at(program.content, input.index).read();
    case GraphInput::Source::kVariable:
      return match.variables[static_cast<std::size_t>(input.index)].read();
    case GraphInput::Source::kConstant:
      return program.content.constants[static_cast<std::size_t>(input.index)];
  }
  return {};
}

OwnGraph own_graph(const Loaded& program, std::size_t index, const Match& match, StateAs state) {
  OwnGraph out;
  const SavedFunction& function = program.content.functions[index];
  const Graph& graph = *match.trace->graph;
  const std::vector<GraphInput> inputs = inputs_of(program.content, *match.graph);
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<Tensor> fixed(inputs.size());
  std::vector<std::size_t> place(inputs.size(), kNone);  // among the inputs of the new graph
  std::vector<Graph::Input> open;
  std::map<int64_t, std::size_t> place_of_state;
  const auto add = [&](std::size_t i, std::string name) {
    place[i] = open.size();
    open.push_back({std::move(name), graph.inputs()[i].type});
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    using Source = GraphInput::Source;
    const GraphInput& input = inputs[i];
    if (input.source == Source::kArgument) {
      add(i, argument_name(function, input.path));
    } else if (input.source == Source::kKey) {
      add(i, graph.inputs()[i].name);
    } else if (input.source != Source::kState || state == StateAs::kConstants) {
      fixed[i] = value_of(program, match, input);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {  // after the arguments and keys
    if (place[i] != kNone || fixed[i].has_value()) continue;
    const auto known = place_of_state.try_emplace(inputs[i].index, open.size());
    if (known.second) {
      add(i, inputs[i].path);
      out.state.push_back(inputs[i].index);
    } else {
      place[i] = known.first->second;
    }
  }
  const std::size_t results = result_count(*match.graph);
  out.graph = etude::internal::make_graph(function.name, open, [&](std::span<const Tensor> in) {
    std::vector<Tensor> all = fixed;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (place[i] != kNone) all[i] = in[place[i]];
    }
    std::vector<Tensor> values = interpret(graph, all);
    values.resize(results);
    return values;
  });
  return out;
}

}  // namespace etude::saved::internal
