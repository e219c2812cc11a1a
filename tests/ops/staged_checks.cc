// SPDX-License-Identifier: Apache-2.0
// Calls as graphs: traced, run as plans and node by node, and derived. A plan has the bits of the
// call, and so have its derivatives, and the derivatives by an equal rule.

// spec: FB-02.a
#include <cmath>

#include <fmt/format.h>

#include "etude/autodiff/graph_derivatives.h"
#include "etude/autodiff/internal/custom_rule.h"
#include "etude/core/call/builtin.h"
#include "etude/stage/make_graph.h"
#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

using internal::Chosen;

void check_derivatives(const Call& call, const std::string& mode, const Graph& graph,
                       const std::vector<Tensor>& inputs, const Values& y) {
  const auto pair = internal::derivative_of(graph, movable_inputs(call));
  const std::vector<Tensor> forward = run_plan(*pair->forward, inputs);
  compare_lists(call, mode + " forward", std::span(forward).first(y.size()), {y.data(), y.size()});
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
  compare_lists(call, mode + " gradient", found, want);
}

// The graph as the value of a custom_gradient, whose rule is the gradient of the graph.
GraphRef with_own_rule(const Call& call, const Graph& graph) {
  const Chosen movable = movable_inputs(call);
  return internal::make_graph(graph.name(), graph.inputs(), [&](std::span<const Tensor> in) {
    const std::vector<Tensor> inputs(in.begin(), in.end());
    internal::RuleCall rule{inputs, interpret(graph, in), {}, "custom_gradient"};
    rule.pullback = [&](std::span<const Tensor> cotangents) {
      Tape tape;
      std::vector<Tensor> outputs;
      {
        TapeContext context(tape);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          if (movable[i]) tape.watch(inputs[i]);
        }
        outputs = interpret(graph, inputs);
      }
      return tape.gradient(outputs, inputs, cotangents);
    };
    return attach_rule(rule);
  });
}

// Tangents use the transpose of the rule: checks them against the gradients by the inner product.
void check_tangents(const Call& call, const Graph& graph, const std::vector<Tensor>& inputs,
                    const Values& y) {
  if (!is_checked_numerically(call) || real_dtype(call.dtype) != kFloat64) return;
  Draw draw(call.label("direction"));
  std::vector<Tensor> in = inputs, directions;
  const Chosen movable = movable_inputs(call);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (movable[i]) in.push_back(directions.emplace_back(draw_like(draw, inputs[i].type())));
  }
  GraphRef pushed;
  try {
    pushed = internal::pushed_graph_of(graph, movable);
  } catch (const Error& error) {  // the gradient of some ops is an op that is not declared linear
    const std::string_view what = error.what();
    if (what.find("a pullback that is linear in its cotangents") == what.npos) throw;
    return;
  }
  const std::vector<Tensor> found = run_plan(*pushed, in);
  const std::size_t results = graph.outputs().size();
  const std::vector<Tensor> seeds = cotangents(call, y), all = gradients(call, seeds);
  double forward = 0, backward = 0;
  for (std::size_t r = 0; r < seeds.size(); ++r) {
    forward += inner_product(seeds[r], found[results + r]);
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!call.operands[i].has_value() || !may_move(call, i)) continue;
    backward += inner_product(all[i], directions[next++]);
  }
  expect(std::abs(forward - backward) <= 1e-9 * (1 + std::abs(backward)),
         call.label("custom_call tangent"),
         [&] { return fmt::format("got {}, want {}", forward, backward); });
}

// A batch of one example that is there three times.
void check_batches(const Call& call, const Graph& custom, const Graph& plain,
                   const std::vector<Tensor>& inputs) {
  const Chosen movable = movable_inputs(call);
  const Chosen all(std::vector<bool>(plain.outputs().size(), true));
  std::vector<Tensor> in = inputs;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (movable[i]) in[i] = internal::stack(std::vector<Tensor>(3, in[i]));
  }
  const auto batch_of = [&](const Graph& graph) {
    return internal::batched_graph_of(graph, movable, 3, all);
  };
  const GraphRef batch = batch_of(custom);
  compare_lists(call, "custom_call batch", run_plan(*batch, in), run_plan(*batch_of(plain), in));
  internal::derivative_of(*batch, movable);
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
  const std::vector<Tensor> inputs = inputs_of(call);
  const Values want = dense_results(call);
  const GraphRef graph = graph_of(call);
  compare_lists(call, "staged", run_plan(*graph, inputs), {want.data(), want.size()});
  compare_lists(call, "interpreted", interpret(*graph, inputs), {want.data(), want.size()});
  // A graph takes one tensor for two operands as two inputs, which have a gradient each.
  const bool has_derivative = op.is_differentiable() && !call.is_same_tensor;
  if (!has_derivative || !has_graph_derivative(call, *graph)) return;
  check_derivatives(call, "staged", *graph, inputs, want);
  const GraphRef custom = with_own_rule(call, *graph);
  check_derivatives(call, "custom_call", *custom, inputs, want);
  check_tangents(call, *custom, inputs, want);
  check_batches(call, *custom, *graph, inputs);
}

}  // namespace etude::matrix
