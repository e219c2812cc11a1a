// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/convert_graphs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/files/read_limits.h"
#include "etude/graph/builder.h"
#include "etude/passes/graph_copy.h"
#include "etude/saved/loaded.h"
#include "tools/etude/graph_command.h"
#include "tools/etude/name_text.h"
#include "tools/etude/saved_command.h"

namespace etude::tools {
namespace {

using saved::internal::Content;
using saved::internal::SavedFunction;
using saved::internal::SavedGraph;
using saved::internal::Source;
using saved::internal::SourceInput;

InputRole role_of(const SourceInput& input) {
  if (input.is_key) return InputRole::kKey;
  return input.variable >= 0 ? InputRole::kVariable : InputRole::kArgument;
}

bool is_constant(const SourceInput& input) { return input.variable < 0 && input.value.has_value(); }

// A copy of the graph whose inputs have the names and roles of the source.
GraphRef graph_with_names(const Source& source, const Graph& graph) {
  GraphBuilder build(source.function);
  build.keep_texts_of(graph);
  for (const Graph::Frame& frame : graph.frames()) build.add_frame(frame);
  std::vector<GraphBuilder::Draft> drafts(graph.value_count(), GraphBuilder::kNoDraft);
  std::map<int64_t, GraphBuilder::Draft> variables;
  for (std::size_t i = 0; i < source.inputs.size(); ++i) {
    const SourceInput& input = source.inputs[i];
    if (is_constant(input)) {
      drafts[i] = build.add_constant(input.value);
    } else if (const auto known = variables.find(input.variable); known != variables.end()) {
      drafts[i] = known->second;
    } else {
      drafts[i] = build.add_input(input.name, graph.inputs()[i].type, role_of(input));
      if (input.variable >= 0) variables.emplace(input.variable, drafts[i]);
    }
  }
  for (std::size_t i = 0; i < graph.constants().size(); ++i) {
    drafts[graph.first_constant() + i] = build.add_constant(graph.constants()[i]);
  }
  std::vector<GraphBuilder::Draft> operands;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    operands.clear();
    for (const GraphValue v : node.operands) {
      operands.push_back(v == kNoValue ? GraphBuilder::kNoDraft : drafts[v]);
    }
    build.set_frame(node.frame);
    const GraphBuilder::Draft first = build.add_node(
        node.op, node.attrs, operands, internal::result_types(graph, node), node.where);
    for (uint32_t r = 0; r < node.results; ++r) drafts[node.first_result + r] = first + r;
  }
  std::vector<GraphBuilder::Draft> results;
  for (const GraphValue v : graph.outputs().first(source.outputs.size())) {
    results.push_back(drafts[v]);
  }
  return build.finish(results);
}

// The component of a path that begins at `at`.
std::string component(const std::string& path, std::size_t at) {
  return at > path.size() ? std::string() : path.substr(at, path.find('/', at) - at);
}

// A structure with these paths, whose first `at` characters are equal.
Parts structure_of(std::span<const std::string> paths, std::size_t at, int64_t depth) {
  if (paths.size() == 1 && at > paths[0].size()) return Parts(Tensor());
  ETUDE_REQUIRE(depth < read_limits().depth,
                "output '{}' has more than {} components, which read_limits().depth allows",
                shown(paths[0]), read_limits().depth);
  std::vector<Named> fields;
  for (std::size_t i = 0; i < paths.size();) {
    const std::string name = component(paths[i], at);
    std::size_t end = i + 1;
    while (end < paths.size() && component(paths[end], at) == name) ++end;
    fields.emplace_back(name,
                        structure_of(paths.subspan(i, end - i), at + name.size() + 1, depth + 1));
    i = end;
  }
  return Parts::fields(std::move(fields));
}

Parts results_of(const NamedGraph& named, std::size_t count) {
  if (count == 1 && (named.outputs.empty() || named.outputs[0] == "output")) return Parts(Tensor());
  if (!named.outputs.empty()) return structure_of(named.outputs, 0, 0);
  return Parts::list(std::vector<Parts>(count, Parts(Tensor())));
}

class GraphImporter {
 public:
  GraphImporter(io::NamedTensors weights, std::string weights_from)
      : weights_(std::move(weights)), weights_from_(std::move(weights_from)) {}

  void add(const NamedGraph& named) {
    const std::vector<GraphRef> graphs =
        named.graph ? std::vector{named.graph}
                    : std::vector(named.symbolic->graphs().begin(), named.symbolic->graphs().end());
    SavedFunction function{.name = name_of(named.name), .display = named.name};
    SavedGraph to{.graph = named.graph, .symbolic = named.symbolic};
    const Graph& sample = *graphs.front();
    std::set<std::string> seen;
    for (std::size_t i = 0; i < sample.inputs().size(); ++i) {
      const Graph::Input& input = sample.inputs()[i];
      title_ = fmt::format("input '{}' of graph '{}'", shown(input.name), shown(named.name));
      if (input.role != InputRole::kKey) {
        ETUDE_REQUIRE(!input.name.empty() && seen.insert(input.name).second,
                      "{} has {}. Give each input a name of its own", title_,
                      input.name.empty() ? "no name" : "the name of another input");
      }
      add_input(to, function, graphs, i);
    }
    const auto outputs = sample.outputs();
    ETUDE_REQUIRE(!outputs.empty() && std::ranges::count(outputs, kNoValue) == 0,
                  "graph '{}' has {}, but a saved function returns tensors", shown(named.name),
                  outputs.empty() ? "no output" : "an absent output");
    to.result.parts = results_of(named, outputs.size());
    to.result.is_present.assign(outputs.size(), 1);
    function.graphs.push_back(std::move(to));
    content_.functions.push_back(std::move(function));
  }

  Content finish() {
    for (const auto& entry : weights_) {
      ETUDE_REQUIRE(variables_.contains(entry.first) || captures_.contains(entry.first),
                    "{} has '{}', but no graph has an input of this name", weights_from_,
                    shown(entry.first));
    }
    return std::move(content_);
  }

 private:
  // The last component, as saved functions are named.
  std::string name_of(const std::string& graph) const {
    std::string name = graph.substr(graph.rfind('/') + 1);
    if (name.empty()) name = "function";
    for (const SavedFunction& other : content_.functions) {
      ETUDE_REQUIRE(other.name != name,
                    "graphs '{}' and '{}' would both be function '{}'. Choose one by --function",
                    shown(other.display), shown(graph), shown(name));
    }
    return name;
  }

  void add_input(SavedGraph& to, SavedFunction& function, const std::vector<GraphRef>& graphs,
                 std::size_t i) {
    const Graph::Input& input = graphs.front()->inputs()[i];
    const auto weight = weights_.find(input.name);
    const bool is_known = weight != weights_.end();
    if (is_known) require_type(weight->second, graphs, i);
    switch (input.role) {
      case InputRole::kArgument:
        to.tensors.push_back(
            {.state = is_known ? variable(weight->first) : -1, .path = input.name});
        if (!is_known) add_argument(function, component(input.name, 0));
        break;
      case InputRole::kKey:
        break;
      case InputRole::kVariable:
        require_value(is_known);
        to.uses.push_back({.variable = variable(weight->first), .is_read = true});
        break;
      case InputRole::kCapture:
        require_value(is_known);
        to.captures.push_back(capture(weight->first));
        break;
    }
  }

  static void add_argument(SavedFunction& function, const std::string& name) {
    if (std::ranges::find(function.arguments, name) != function.arguments.end()) return;
    function.arguments.push_back(name);
  }

  void require_value(bool is_known) const {
    ETUDE_REQUIRE(is_known,
                  "{} is state and has no value. Give --weights FILE.safetensors with a tensor of "
                  "this name",
                  title_);
  }
  void require_type(const Tensor& x, const std::vector<GraphRef>& graphs, std::size_t i) const {
    for (const GraphRef& graph : graphs) {
      const Type* type = graph->inputs()[i].type;
      ETUDE_REQUIRE(x.type() == type, "{} is {}, but {} in {}", title_, type->to_string(),
                    x.type()->to_string(), weights_from_);
    }
  }

  int64_t variable(const std::string& name) {
    const auto [at, is_new] =
        variables_.try_emplace(name, static_cast<int64_t>(content_.variables.size()));
    if (is_new) {
      const Tensor& value = weights_.at(name);
      saved::internal::SavedVariable& v = content_.variables.emplace_back();
      v.paths = {name};
      v.name = name;
      v.is_trainable = kFloating.contains(value.dtype());
      v.dtype = value.dtype();
      v.shape = value.shape();
      v.value = value;
    }
    return at->second;
  }
  int64_t capture(const std::string& name) {
    const auto [at, is_new] =
        captures_.try_emplace(name, static_cast<int64_t>(content_.constants.size()));
    if (is_new) content_.constants.push_back(weights_.at(name));
    return at->second;
  }

  io::NamedTensors weights_;
  std::string weights_from_;
  Content content_;
  std::map<std::string, int64_t> variables_, captures_;
  std::string title_;  // of the input that is being added
};

}  // namespace

NamedGraph named_graph(const Source& source) {
  NamedGraph out{.name = source.function, .graph = {}, .outputs = source.outputs};
  std::vector<GraphRef> graphs;
  for (std::size_t i = 0; i < source.traced; ++i) {
    graphs.push_back(graph_with_names(source, *source.graphs[i]));
  }
  if (graphs.size() == 1) {
    out.graph = graphs[0];
    return out;
  }
  SymbolicFound found = SymbolicGraph::of(graphs);
  ETUDE_CHECK(found.symbolic, "the graphs of {} differ in {}", source.function, found.difference);
  out.symbolic = std::move(found.symbolic);
  return out;
}

NamedGraph graph_of_file(const std::string& file, const std::string& only, int64_t max_loop_steps) {
  std::vector<NamedGraph> graphs = load_graphs(file);
  std::vector<std::string> names;
  for (const NamedGraph& each : graphs) names.push_back(each.name);
  NamedGraph out = std::move(graphs[chosen_index(names, only, fmt::format("'{}'", file))]);
  const Graph& sample = out.graph ? *out.graph : *out.symbolic->graphs().front();
  if (max_loop_steps > 0) saved::internal::require_loop_limits(sample, max_loop_steps, file);
  return out;
}

bool has_state(const NamedGraph& graph) {
  const Graph& sample = graph.graph ? *graph.graph : *graph.symbolic->graphs().front();
  return std::ranges::any_of(sample.inputs(), [](const Graph::Input& input) {
    return input.role == InputRole::kVariable || input.role == InputRole::kCapture;
  });
}

NamedGraph at_sizes(NamedGraph graph, const std::map<std::string, int64_t>& sizes,
                    std::map<std::string, int64_t>& all) {
  std::vector<int64_t> at;
  std::vector<std::string> names;
  if (graph.symbolic) {
    for (const SymbolicGraph::Size& size : graph.symbolic->sizes()) {
      const auto found = sizes.find(size.name);
      at.push_back(found == sizes.end() ? size.seen[0] : found->second);
      names.push_back(size.name);
      all.emplace(size.name, at.back());
    }
  }
  for (const auto& entry : sizes) {
    ETUDE_REQUIRE(
        all.contains(entry.first), "--size names '{}', but graph '{}' has {}", shown(entry.first),
        shown(graph.name),
        names.empty() ? "no open size" : fmt::format("the open sizes {}", fmt::join(names, ", ")));
  }
  if (!graph.symbolic) return graph;
  GraphAtSizes made = graph.symbolic->at(at);
  ETUDE_REQUIRE(made.graph, "graph '{}' does not serve these sizes: {}", shown(graph.name),
                made.refusal);
  graph.graph = std::move(made.graph);
  graph.symbolic = {};
  return graph;
}

saved::Program program_of_graphs(const std::string& file, const std::string& only,
                                 io::NamedTensors weights, const std::string& weights_from,
                                 int64_t max_loop_steps) {
  std::vector<NamedGraph> graphs = load_graphs(file);
  std::vector<std::string> names;
  for (const NamedGraph& each : graphs) names.push_back(each.name);
  if (!only.empty()) {
    NamedGraph chosen = std::move(graphs[chosen_index(names, only, fmt::format("'{}'", file))]);
    graphs.clear();
    graphs.push_back(std::move(chosen));
  }
  GraphImporter importer(std::move(weights), weights_from);
  for (const NamedGraph& named : graphs) {
    if (max_loop_steps > 0) {
      const Graph& sample = named.graph ? *named.graph : *named.symbolic->graphs().front();
      saved::internal::require_loop_limits(sample, max_loop_steps, file);
    }
    importer.add(named);
  }
  return saved::internal::ProgramAccess::make(file, importer.finish());
}

}  // namespace etude::tools
