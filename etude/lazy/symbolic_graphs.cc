// SPDX-License-Identifier: Apache-2.0
#include "etude/lazy/symbolic_graphs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "etude/core/tensor.h"
#include "etude/lazy/lazy.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/pipeline.h"
#include "etude/passes/roll.h"

namespace etude::internal {
namespace {

std::vector<int64_t> sizes_in(const SymbolicGraph& symbolic, const Graph& graph) {
  std::vector<const Type*> types;
  for (const Graph::Input& input : graph.inputs()) types.push_back(input.type);
  return symbolic.sizes_of(types);
}

// Whether the list is the shape of the first result, and no operand has that many elements of this
// dtype, so that the shape follows from no operand.
bool gives_shape(const Graph& graph, const Graph::Node& node, const std::vector<int64_t>& list) {
  const Type* const result = node.results > 0 ? graph.type(node.first_result) : nullptr;
  if (result == nullptr || !std::ranges::equal(list, result->shape())) return false;
  return std::ranges::none_of(node.operands, [&](GraphValue v) {
    return v != kNoValue && graph.type(v)->dtype() == result->dtype() &&
           graph.type(v)->count() == result->count();
  });
}

// The graph with an input of that size for each size that comes from an attribute.
GraphRef with_size_inputs(const GraphRef& graph) {
  GraphCopy copy(*graph);
  for (std::size_t i = 0; i < graph->size(); ++i) {
    const Graph::Node node = graph->node(i);
    for (const AttrValue& value : node.attrs.values()) {
      const auto* list = std::get_if<std::vector<int64_t>>(&value);
      if (list == nullptr || !gives_shape(*graph, node, *list)) continue;
      for (const int64_t size : *list) {
        copy.build().add_input("size", intern_type(kBool, Shape({size})));
      }
    }
  }
  for (std::size_t i = 0; i < graph->size(); ++i) copy.copy(graph->node(i));
  return copy.finish();
}

// Graph::same() ignores lines and names.
bool is_at(const SymbolicGraph& symbolic, std::span<const int64_t> sizes, const Graph& graph) {
  const GraphAtSizes found = symbolic.at(sizes);
  return found.graph && found.graph->same(graph);
}

GraphRef rolled_or_same(const GraphRef& graph) { return roll_repeats(*graph); }

std::vector<GraphRef> each(const std::vector<GraphRef>& graphs, GraphRef (*form)(const GraphRef&)) {
  std::vector<GraphRef> out;
  for (const GraphRef& graph : graphs) out.push_back(form(graph));
  return out;
}

}  // namespace

GraphRef LazySymbolicGraph::serve(const GraphRef& graph) const {
  if (!passed_) return {};
  const GraphRef given = has_size_inputs_ ? with_size_inputs(graph) : graph;
  const std::vector<int64_t> sizes = sizes_in(*recorded_, *given);
  if (sizes.empty() || !is_at(*recorded_, sizes, *given)) return {};
  return passed_->at(sizes).graph;
}

bool LazySymbolicGraph::find(const std::vector<GraphRef>& graphs,
                             const std::vector<GraphRef>& starts, const char* without) {
  SymbolicFound recorded = SymbolicGraph::of(graphs);
  if (!recorded.symbolic) return false;
  std::vector<GraphRef> made;
  {
    const PassScope off(without);
    for (const GraphRef& start : starts) made.push_back(run_passes(*start));
  }
  SymbolicFound passed = SymbolicGraph::of(made);
  if (!passed.symbolic || !passed.symbolic->takes_numbers_from(*recorded.symbolic)) return false;
  recorded_ = std::move(recorded.symbolic);
  passed_ = std::move(passed.symbolic);
  return true;
}

bool LazySymbolicGraph::find(const std::vector<GraphRef>& graphs) {
  const std::vector<GraphRef> sized = each(graphs, with_size_inputs);
  const auto try_all = [&](const std::vector<GraphRef>& starts,
                           const std::vector<GraphRef>& sized_starts) {
    // Recomputed calls may depend on sizes: without this pass the graphs may agree.
    for (const char* without : {"fold_constants", "fold_constants,recompute_cheap"}) {
      for (const bool is_sized : {false, true}) {
        if (!find(is_sized ? sized : graphs, is_sized ? sized_starts : starts, without)) continue;
        has_size_inputs_ = is_sized;
        return true;
      }
    }
    return false;
  };
  if (lazy_options().roll) {
    const std::vector<GraphRef> rolled = each(graphs, rolled_or_same);
    const bool has_loops = !std::ranges::equal(rolled, graphs, {}, &GraphRef::get, &GraphRef::get);
    if (has_loops && try_all(rolled, each(sized, rolled_or_same))) return true;
  }
  return try_all(graphs, sized);
}

GraphRef LazySymbolicGraph::extend(const GraphRef& graph) {
  if (failures_ >= kMostFailures) return {};
  std::erase_if(graphs_, [&](const GraphRef& known) { return known->same(*graph); });
  if (graphs_.size() >= kMostGraphs) graphs_.erase(graphs_.begin());
  graphs_.push_back(graph);
  if (graphs_.size() < 2) return {};
  bool is_found = find(graphs_);
  if (!is_found && graphs_.size() > 2) {  // one of them may have a size of 1, which broadcasts
    const std::vector<GraphRef> latest(graphs_.end() - 2, graphs_.end());
    is_found = find(latest);
    if (is_found) graphs_ = latest;
  }
  if (is_found) {
    if (GraphRef made = serve(graph)) return made;
  }
  const auto has_special = [](const Graph::Input& input) {
    return std::ranges::any_of(input.type->shape(),
                               [](int64_t size) { return size < SymbolicGraph::kLeastSize; });
  };
  if (std::ranges::any_of(graph->inputs(), has_special)) {
    graphs_.pop_back();
  } else if (graphs_.size() > 2) {
    ++failures_;
  }
  return {};
}

}  // namespace etude::internal
