// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/source.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/edit_distance.h"
#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/type.h"
#include "etude/saved/gather.h"
#include "etude/saved/graph_inputs.h"

namespace etude::saved::internal {
namespace {

constexpr std::size_t kPoints = 6;  // sizes at which open numbers are observed

class SourceReader {
 public:
  SourceReader(const Content& content, const std::string& prefix, const SourceOptions& options)
      : content_(content), prefix_(prefix), options_(options) {}

  Source read() {
    const SavedFunction& function = chosen_function();
    const SavedGraph* graph = &chosen_graph(function);
    const bool is_open = options_.open_sizes && graph->symbolic;
    if (!is_open) {
      auto [chosen, fixed] = at_sizes(function, *graph);
      graph = chosen;
      out_.graphs.push_back(std::move(fixed));
    }
    out_.function = without_prefix(function.name);
    out_.made_for = graph->made_for;
    require_pure(function, *graph);
    add_inputs(function, *graph);
    add_outputs(function, *graph);
    if (is_open) add_open_graphs(*graph->symbolic);
    return std::move(out_);
  }

  std::vector<std::pair<std::string, int64_t>> fixed_sizes() const {
    const SavedGraph& graph = chosen_graph(chosen_function());
    std::vector<std::pair<std::string, int64_t>> out;
    if (!graph.symbolic || options_.open_sizes) return out;
    const std::vector<int64_t> at = chosen_sizes(*graph.symbolic);
    const auto sizes = graph.symbolic->sizes();
    for (std::size_t s = 0; s < at.size(); ++s) out.emplace_back(sizes[s].name, at[s]);
    return out;
  }

 private:
  std::string without_prefix(const std::string& text) const {
    return text.starts_with(prefix_) ? text.substr(prefix_.size()) : text;
  }

  const SavedFunction& chosen_function() const {
    std::vector<std::string> names;
    for (const SavedFunction& f : content_.functions) names.push_back(without_prefix(f.name));
    if (options_.function.empty()) {
      ETUDE_REQUIRE(names.size() == 1,
                    "there are {} functions{}{}. Name one in SaveOptions::function", names.size(),
                    names.empty() ? "" : ": ", fmt::join(names, ", "));
      return content_.functions[0];
    }
    const auto found = std::ranges::find(names, options_.function);
    if (found == names.end()) {
      const std::vector<std::string_view> all(names.begin(), names.end());
      ETUDE_THROW(kNotFound, "there is no function '{}'. There are: {}", options_.function,
                  fmt::join(etude::internal::nearest_names(options_.function, all, false), ", "));
    }
    return content_.functions[static_cast<std::size_t>(found - names.begin())];
  }

  const SavedGraph& chosen_graph(const SavedFunction& function) const {
    const auto count = static_cast<int64_t>(function.graphs.size());
    ETUDE_REQUIRE_CODE(kFailedPrecondition, count > 0,
                       "function '{}' has no graph. Call it once before it is exported",
                       without_prefix(function.name));
    if (options_.graph > 0) {
      ETUDE_REQUIRE(options_.graph <= count, "graph is {}, but function '{}' has {} graph{}",
                    options_.graph, without_prefix(function.name), count, count == 1 ? "" : "s");
      return function.graphs[static_cast<std::size_t>(options_.graph - 1)];
    }
    const Phase phase = options_.training ? Phase::kTraining : Phase::kInference;
    const SavedGraph* best = nullptr;
    for (const SavedGraph& graph : function.graphs) {
      if (graph.phase != phase || graph.is_special) continue;
      if (best == nullptr || (!best->symbolic && graph.symbolic)) best = &graph;
    }
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, best != nullptr, "function '{}' has no graph of the {} phase. {}",
        without_prefix(function.name), options_.training ? "training" : "inference",
        options_.training ? "Call it in PhaseScope(Phase::kTraining) before it is exported"
                          : "Call it outside of training before it is exported, or set "
                            "SaveOptions::training");
    return *best;
  }

  // A model is a function from inputs to results.
  void require_pure(const SavedFunction& function, const SavedGraph& graph) const {
    std::vector<std::string> changed;
    for (const SavedTensor& x : graph.tensors) {
      if (x.is_changed) changed.push_back(x.state >= 0 ? path_of(x.state) : x.path);
    }
    for (const SavedUse& use : graph.uses) {
      if (use.is_written) changed.push_back(use.variable >= 0 ? path_of(use.variable) : "argument");
    }
    ETUDE_REQUIRE_CODE(
        kUnimplemented, changed.empty(),
        "function '{}' changes '{}'{}, but {} changes no state. Export a function that returns the "
        "new values",
        without_prefix(function.name), changed[0],
        changed.size() == 1 ? "" : fmt::format(" and {} more", changed.size() - 1),
        options_.format);
  }

  std::string path_of(int64_t variable) const {
    return without_prefix(content_.variables[static_cast<std::size_t>(variable)].paths[0]);
  }

  Tensor value_of(int64_t index) const {
    const SavedVariable& v = content_.variables[static_cast<std::size_t>(index)];
    const Tensor value = v.variable && v.variable->initialized() ? v.variable->read() : v.value;
    ETUDE_REQUIRE_CODE(kFailedPrecondition, value.has_value(),
                       "'{}' has no value. Run the function once, so that it gets one",
                       path_of(index));
    return value;
  }

  std::string unique(const std::string& name) { return unique_name(name, used_); }

  void add_inputs(const SavedFunction& function, const SavedGraph& graph) {
    using From = GraphInput::Source;
    for (const GraphInput& input : inputs_of(content_, graph)) {
      switch (input.source) {
        case From::kArgument: {
          const std::string name = argument_name(function, input.path);
          out_.inputs.push_back({unique(name.empty() ? "input" : name), {}});
          break;
        }
        case From::kState:
          out_.inputs.push_back({.name = unique(without_prefix(input.path)),
                                 .value = value_of(input.index),
                                 .variable = input.index});
          break;
        case From::kKey:
          out_.inputs.push_back({.name = unique("key"), .value = {}, .is_key = true});
          break;
        case From::kVariable:
          out_.inputs.push_back({unique(input.path), {}});
          break;
        case From::kConstant:
          out_.inputs.push_back({unique(fmt::format("constant_{}", input.index)),
                                 content_.constants[static_cast<std::size_t>(input.index)]});
          break;
      }
    }
  }

  void add_outputs(const SavedFunction& function, const SavedGraph& graph) {
    const Parts& parts = graph.result.parts;
    std::set<std::string> used;  // a result may have the name of an input
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (graph.result.is_present[i] == 0) continue;
      const std::string& path = parts.leaf(i).path;
      const bool is_exported = function.exported && i < function.exported->outputs.size();
      const std::string name = is_exported ? function.exported->outputs[i] : path;
      out_.outputs.push_back(unique_name(name.empty() ? "output" : name, used));
    }
    ETUDE_REQUIRE(!out_.outputs.empty(), "function '{}' returns no tensor",
                  without_prefix(function.name));
  }

  // Sizes of all kinds: even and odd, with and without divisors in common.
  static std::vector<int64_t> point(std::size_t number, std::size_t sizes) {
    std::vector<int64_t> out;
    uint64_t state = 0x9E3779B97F4A7C15ull * (number + 1);
    for (std::size_t i = 0; i < sizes; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      out.push_back(3 + static_cast<int64_t>((state >> 33) % 61));
    }
    return out;
  }

  // The types of the inputs at these sizes.
  static std::vector<const Type*> types_at(const SymbolicGraph& symbolic,
                                           const std::vector<int64_t>& at) {
    std::vector<const Type*> out;
    for (const Graph::Input& input : symbolic.graphs().front()->inputs()) out.push_back(input.type);
    const auto sizes = symbolic.sizes();
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      for (const auto& [input, axis] : sizes[s].axes) {
        std::vector<int64_t> shape = out[input]->shape().to_vector();
        shape[static_cast<std::size_t>(axis)] = at[s];
        out[input] = intern_type(out[input]->dtype(), Shape(shape));
      }
    }
    return out;
  }

  std::vector<int64_t> chosen_sizes(const SymbolicGraph& symbolic) const {
    std::vector<std::string> names;
    std::vector<int64_t> out;
    for (const SymbolicGraph::Size& size : symbolic.sizes()) {
      const auto found = options_.sizes.find(size.name);
      names.push_back(size.name);
      out.push_back(found == options_.sizes.end() ? size.seen[0] : found->second);
    }
    for (const auto& [name, size] : options_.sizes) {
      ETUDE_REQUIRE(std::ranges::find(names, name) != names.end(),
                    "SaveOptions::sizes names '{}', but the open sizes of the graph are {}", name,
                    fmt::join(names, ", "));
      ETUDE_REQUIRE(size >= 0, "SaveOptions::sizes has {} for '{}', but a size is not negative",
                    size, name);
    }
    return out;
  }

  // The graph with the sizes of the options, and its entry: the sizes 1 and 0 have entries of their
  // own.
  std::pair<const SavedGraph*, GraphRef> at_sizes(const SavedFunction& function,
                                                  const SavedGraph& graph) const {
    if (!graph.symbolic) {
      ETUDE_REQUIRE(
          options_.sizes.empty(),
          "SaveOptions::sizes names '{}', but the graph of function '{}' has no open size",
          options_.sizes.begin()->first, without_prefix(function.name));
      return {&graph, graph.graph};
    }
    if (options_.sizes.empty()) return {&graph, graph.symbolic->graphs().front()};
    const std::vector<int64_t> at = chosen_sizes(*graph.symbolic);
    GraphAtSizes made = graph.symbolic->at(at);
    if (made.graph) return {&graph, std::move(made.graph)};
    const std::vector<const Type*> types = types_at(*graph.symbolic, at);
    for (const SavedGraph& other : function.graphs) {
      if (!other.is_special || other.phase != graph.phase) continue;
      if (other.symbolic) {
        const std::vector<int64_t> sizes = other.symbolic->sizes_of(types);
        GraphAtSizes special = sizes.empty() ? GraphAtSizes{} : other.symbolic->at(sizes);
        if (special.graph) return {&other, std::move(special.graph)};
      } else if (std::ranges::equal(other.graph->inputs(), types, {}, &Graph::Input::type)) {
        return {&other, other.graph};
      }
    }
    std::vector<std::string> sizes;
    for (std::size_t s = 0; s < at.size(); ++s) {
      sizes.push_back(fmt::format("{}={}", graph.symbolic->sizes()[s].name, at[s]));
    }
    ETUDE_THROW(
        kInvalidArgument,
        "function '{}' has no graph at the sizes {}: {}. Call it with these sizes before it "
        "is saved",
        without_prefix(function.name), fmt::join(sizes, ", "), made.refusal);
  }

  void add_open_graphs(const SymbolicGraph& symbolic) {
    const auto traced = symbolic.graphs();
    const auto sizes = symbolic.sizes();
    for (const SymbolicGraph::Size& size : sizes) {
      const auto [input, axis] = size.axes.front();
      out_.sizes.push_back({size.name, out_.inputs[input].name, axis});
    }
    out_.traced = traced.size();
    for (std::size_t g = 0; g < traced.size(); ++g) {
      std::vector<int64_t> seen;
      for (const SymbolicGraph::Size& size : sizes) seen.push_back(size.seen[g]);
      out_.graphs.push_back(traced[g]);
      out_.points.push_back(std::move(seen));
    }
    for (std::size_t n = 0; n < 64 && out_.graphs.size() < kPoints + sizes.size(); ++n) {
      std::vector<int64_t> at = point(n, sizes.size());
      GraphAtSizes made = symbolic.at(at);
      if (!made.graph) continue;
      out_.graphs.push_back(std::move(made.graph));
      out_.points.push_back(std::move(at));
    }
  }

  const Content& content_;
  const std::string& prefix_;
  const SourceOptions& options_;
  Source out_;
  std::set<std::string> used_;
};

}  // namespace

Source source_of(const Content& content, const std::string& prefix, const SourceOptions& options) {
  return SourceReader(content, prefix, options).read();
}

Source source_of(const std::vector<Entry>& entries, const SourceOptions& options) {
  const bool is_loaded = entries.size() == 1 && entries[0].loaded() != nullptr;
  const Content content = gather(entries, {}).content;
  const BottomScope at_once(eager_context());
  const etude::internal::NoDeviceScope nowhere;
  return source_of(content, is_loaded ? entries[0].name() + "/" : "", options);
}

std::string unique_name(const std::string& name, std::set<std::string>& used) {
  std::string out = name;
  for (int n = 2; !used.insert(out).second; ++n) out = fmt::format("{}_{}", name, n);
  return out;
}

std::vector<std::pair<std::string, int64_t>> fixed_sizes(const Content& content,
                                                         const std::string& prefix,
                                                         const SourceOptions& options) {
  return SourceReader(content, prefix, options).fixed_sizes();
}

}  // namespace etude::saved::internal
