// SPDX-License-Identifier: Apache-2.0
// Calls as graphs: traced, run as plans and node by node, and derived. A plan gives the same bits
// as the call, and so do its derivatives.

// spec: CG-04, FB-02
#include <fmt/format.h>

#include "etude/runtime/graph_derivatives.h"
#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

void check_derivatives(const Call& call, const Graph& graph, const std::vector<Tensor>& inputs,
                       const Values& y) {
  if (!has_graph_derivative(call, graph)) return;
  const auto pair = internal::derivative_of(graph, movable_inputs(call));
  const std::vector<Tensor> forward = run_plan(*pair->forward, inputs);
  compare_lists(call, "staged forward", std::span(forward).first(y.size()), {y.data(), y.size()});
  const std::vector<Tensor> seeds = cotangents(call, y);
  std::vector<Tensor> kept;
  for (const int64_t i : pair->read) kept.push_back(inputs[static_cast<std::size_t>(i)]);
  kept.insert(kept.end(), forward.begin() + static_cast<std::ptrdiff_t>(y.size()), forward.end());
  for (const Tensor& seed : seeds) {
    if (seed.has_value()) kept.push_back(seed);
  }
  const std::vector<Tensor> found = run_plan(*pair->backward, kept);
  std::vector<Tensor> want;
  const std::vector<Tensor> all = gradients(call, seeds);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (call.operands[i].has_value() && may_move(call, i)) want.push_back(all[i]);
  }
  compare_lists(call, "staged gradient", found, want);
}

}  // namespace

void check_staged(const Call& call) {
  const Op& op = *call.op;
  if (has_data_sizes(call)) {
    bool refused = false;
    try {
      graph_of(call);
    } catch (const Error& error) {
      refused = error.code() == ErrorCode::kUnimplemented;
    }
    expect(refused, call.label("staged"),
           [] { return std::string("a size that depends on data got into a graph"); });
    return;
  }
  std::vector<Tensor> inputs;
  for (const Tensor& x : call.operands) {
    if (x.has_value()) inputs.push_back(x);
  }
  Values want = run(call);
  for (Tensor& y : want) {
    if (y.has_value()) y = to_dense(y);
  }
  const GraphRef graph = graph_of(call);
  compare_lists(call, "staged", run_plan(*graph, inputs), {want.data(), want.size()});
  compare_lists(call, "interpreted", interpret(*graph, inputs), {want.data(), want.size()});
  // A graph takes one tensor for two operands as two inputs, which have a gradient each.
  if (op.is_differentiable() && !call.is_same_tensor) check_derivatives(call, *graph, inputs, want);
}

}  // namespace etude::matrix
