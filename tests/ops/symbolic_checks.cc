// SPDX-License-Identifier: Apache-2.0
// Calls at many sizes: a call is traced at made-up sizes, these graphs form a symbolic graph, and
// the symbolic graph makes the graph at the sizes of the call without a trace. That graph must
// equal the traced one, and have the bits of the call.
//
// Which sizes vary follows from the call alone: all that are greater than 1 at once, and each by
// itself; operands that share a size share it at all points.

// spec: TC-14.a
#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "etude/graph/symbolic_graph.h"
#include "etude/plan/plan.h"
#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

constexpr std::size_t kPoints = 3, kMostSizes = 6;
// How much size i grows at each point. Steps of 12 keep sizes that must be even, or be divisible
// into windows. No two sizes grow in the same way, so that it is known on which size a number
// depends.
constexpr int64_t kGrowthStep = 12;
constexpr std::array<std::array<int64_t, kPoints>, kMostSizes> kGrowth = {
    {{1, 2, 5}, {3, 1, 2}, {2, 5, 1}, {5, 3, 7}, {4, 9, 3}, {7, 4, 11}}};

using Sizes = std::vector<int64_t>;

// The sets of sizes that vary together.
std::vector<Sizes> variations_of(const Call& call) {
  std::set<int64_t> all;
  for (const Tensor& x : call.operands) {
    if (!x.has_value()) continue;
    for (const int64_t size : x.type()->shape()) {
      if (size > 1) all.insert(size);
    }
  }
  std::vector<Sizes> out;
  if (all.size() > 1 && all.size() <= kMostSizes) out.emplace_back(all.begin(), all.end());
  for (const int64_t size : all) out.push_back({size});
  return out;
}

const Type* type_at(const Type* type, const Sizes& varied, std::size_t point) {
  Shape shape = type->shape();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto at = std::ranges::find(varied, shape[axis]);
    if (at == varied.end()) continue;
    const auto i = static_cast<std::size_t>(at - varied.begin());
    shape.set(axis, shape[axis] + kGrowthStep * kGrowth[i][point]);
  }
  return intern_type(type->dtype(), shape, type->device());
}

// The graph at the sizes of the call, of a symbolic graph of graphs at others; or why there is
// none.
GraphAtSizes instance_of(const Call& call, std::span<const internal::TracedGraph> traced) {
  std::vector<GraphRef> graphs;
  std::vector<std::vector<internal::SizeRead>> reads;
  for (const internal::TracedGraph& t : traced) {
    graphs.push_back(t.graph);
    reads.push_back(t.size_reads);
  }
  const SymbolicFound found = SymbolicGraph::of(graphs, reads);
  if (!found.symbolic) return {{}, found.difference};
  std::vector<const Type*> types;
  for (const Tensor& x : call.operands) {
    if (x.has_value()) types.push_back(x.type());
  }
  const std::vector<int64_t> sizes = found.symbolic->sizes_of(types);
  if (sizes.empty()) return {{}, "the sizes of the sample are not of the symbolic graph"};
  return found.symbolic->at(sizes);
}

// The same for one variation: of two graphs, and of three where two leave a number open. Neither a
// graph nor a reason if the op takes the call at these sizes alone.
GraphAtSizes instance_of(const Call& call, const Sizes& varied) {
  std::vector<internal::TracedGraph> traced;
  for (std::size_t point = 0; point < kPoints; ++point) {
    std::vector<const Type*> types;
    for (const Tensor& x : call.operands) {
      types.push_back(x.has_value() ? type_at(x.type(), varied, point) : nullptr);
    }
    try {
      traced.push_back(trace_of(call, types));
    } catch (const Error&) {
      return {};
    }
  }
  GraphAtSizes out = instance_of(call, std::span(traced).first(2));
  return out.graph ? out : instance_of(call, traced);
}

}  // namespace

SymbolicCount count_families(const Call& call) {
  SymbolicCount count;
  if (has_data_sizes(call)) return count;
  for (const Sizes& varied : variations_of(call)) {
    const GraphAtSizes found = instance_of(call, varied);
    ++(found.graph ? count.served : found.refusal.empty() ? count.fixed : count.refused);
    if (!found.refusal.empty()) count.reasons.insert(found.refusal);
  }
  return count;
}

void check_symbolic(const Call& call) {
  if (has_data_sizes(call)) return;
  const std::vector<Tensor> inputs = inputs_of(call);
  const Values want = dense_results(call);
  for (const Sizes& varied : variations_of(call)) {
    const GraphAtSizes found = instance_of(call, varied);
    if (!found.graph) continue;  // counted, and its reason checked, by check_symbolic_shapes
    expect(found.graph->same(*graph_of(call)), call.label("symbolic graph"),
           [&] { return "another graph than a trace: " + found.graph->to_string(); });
    compare_lists(call, "symbolic graph", run_plan(*found.graph, inputs),
                  {want.data(), want.size()});
  }
}

}  // namespace etude::matrix
