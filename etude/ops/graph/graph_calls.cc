// SPDX-License-Identifier: Apache-2.0
// Ops that run a graph; the graph is an attribute.
#include <algorithm>
#include <ranges>

#include "etude/base/check.h"
#include "etude/core/internal/mode.h"
#include "etude/ops/families.h"
#include "etude/ops/graph/graph_attrs.h"

namespace etude::ops {
namespace {

Types call_type(const TypeCall& call) {
  const GraphRef graph = graph_of(call.attrs, "graph");
  internal::require_inputs(*graph, call.types);
  return graph->output_types();
}

// With `backward`, the call has the form that a tape makes: `visible` results, then the residuals
// that `backward` reads. For the operands `rows`, `backward` returns indices and values of a sparse
// cotangent. `source` is the graph before the tape changed the call.
GraphRef backward_of(const Attrs& attrs) {
  ETUDE_CHECK(attrs.has("backward"), "a call without its backward graph was recorded");
  return graph_of(attrs, "backward");
}

ResidualCall call_residuals(std::span<const Type* const> operands, const Attrs& attrs,
                            uint64_t wanted) {
  const GraphRef graph = graph_of(attrs, "graph");
  const Chosen chosen(wanted, operands.size());
  const auto pair = internal::sparse_derivative_of(*graph, chosen);
  std::vector<int64_t> rows;
  std::size_t next = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (chosen[i] && pair->is_rows[next++]) rows.push_back(static_cast<int64_t>(i));
  }
  return {op<"call">().attrs({pair->forward.get(), pair->backward.get(),
                              static_cast<int64_t>(graph->outputs().size()), pair->read, rows,
                              graph.get()}),
          internal::operand_bits(pair->read)};
}

// The backward graph for operands with a cotangent sum so far, which is appended to `in`: the graph
// adds its own cotangents to the sum one by one. Sparse cotangents are joined to sums later.
GraphRef backward_with_sums(const VjpCall& call, const GraphRef& backward, Tensors& in) {
  const auto has_sum = [&](std::size_t i) {
    return call.wants(i) && call.sums != nullptr && call.sums[i] != nullptr &&
           call.sums[i]->has_value();
  };
  if (std::ranges::none_of(std::views::iota(std::size_t{0}, call.in.size()), has_sum)) {
    return backward;
  }
  const GraphRef source = graph_of(call.attrs, "source");
  const Chosen chosen(call.wanted, call.in.size());
  const auto pair = internal::sparse_derivative_of(*source, chosen);
  std::vector<bool> summed(call.in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!chosen[i]) continue;
    const std::size_t at = next++;
    if (!pair->adds[at] || pair->is_rows[at] || !has_sum(i)) continue;
    summed[i] = true;
    in.push_back(to_dense(call.take_sum(i)));
  }
  return internal::sparse_derivative_of(*source, chosen, Chosen(std::move(summed)))->backward;
}

Values run_graph(const Graph& graph, const Tensors& inputs) {
  const OperandList list{std::span<const Tensor>(inputs)};
  return internal::call_graph(internal::graph_attrs(graph), list.view(), {});
}

// Cotangents, or tangents, that are operands or one value twice are one tensor. Results of calls
// are values of their own to contexts around.
void share_from(Values& out, std::size_t first, const Graph& graph, const Tensors& inputs) {
  if (internal::mode_word == 0) return;
  Values shared = out;
  const OperandList list{std::span<const Tensor>(inputs)};
  internal::share_values(graph, list.view(), shared);
  for (std::size_t i = first; i < out.size(); ++i) out[i] = shared[i];
}

// The line of the node that made an output; unknown if the output is an input.
CallSite line_of_output(const Graph& graph, std::size_t output) {
  const GraphValue v = graph.outputs()[output];
  for (std::size_t i = graph.size(); i-- > 0;) {
    const Graph::Node node = graph.node(i);
    if (v >= node.first_result && v < node.first_result + node.results) return node.where;
  }
  return {};
}

Values call_vjp(const VjpCall& call) {
  const auto visible = static_cast<std::size_t>(call.attrs.integer("visible"));
  Tensors in;
  for (const int64_t i : call.attrs.ints("read"))
    in.push_back(call.in[static_cast<std::size_t>(i)]);
  for (std::size_t i = visible; i < call.out.size(); ++i) in.push_back(call.out[i]);
  add_cotangents(in, call, 0, visible);
  const GraphRef backward = backward_with_sums(call, backward_of(call.attrs), in);
  Values found = run_graph(*backward, in);
  share_from(found, 0, *backward, in);
  const std::vector<int64_t>& rows = call.attrs.ints("rows");
  Values out(call.in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.wants(i)) continue;
    const std::size_t at = next++;
    if (std::ranges::count(rows, static_cast<int64_t>(i)) == 0) {
      out[i] = found[at];
    } else {
      out[i] = make_slices(
          {found[at], found[next++], call.in[i].type()->shape(), line_of_output(*backward, at)});
    }
  }
  return out;
}

Values call_jvp(const JvpCall& call) {
  Tensors in = list_of(call.in);
  const std::vector<bool> moves = moving(call);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (moves[i]) in.push_back(call.tangents[i]);
  }
  const GraphRef graph = graph_of(call.attrs, "graph");
  const GraphRef pushed = internal::pushed_graph_of(*graph, Chosen(moves));
  Values out = run_graph(*pushed, in);
  share_from(out, out.size() / 2, *pushed, in);
  return out;
}

Values call_batch(const BatchCall& call) {
  const GraphRef graph = graph_of(call.attrs, "graph");
  const Chosen all(std::vector<bool>(graph->outputs().size(), true));
  const GraphRef batch = internal::batched_graph_of(*graph, Chosen(batched(call)), call.size, all);
  return run_graph(*batch, list_of(call.in));
}

// A call that was not inlined (passes/inline.h) is a step of a plan.
bool run_call(const KernelCall& call) {
  const auto& p = *static_cast<const PlanParams*>(call.params);
  return guarded([&] {
    internal::Plan::Runner runner(*p.plans[0]);
    return runner.run(call.in, call.out);
  });
}

void prepare_call(const PrepareCall& call) {
  auto params = internal::make_ref<PlanParams>();
  params->add(graph_of(call.attrs, "graph"));
  call.set(run_call, params);
}

GraphSample call_around(const AttrObject& graph, std::span<const Tensor> inputs) {
  return {{inputs.begin(), inputs.end()}, {{"graph", internal::RefPtr<const AttrObject>(&graph)}}};
}

}  // namespace

void define_graph_calls(Registry& r) {
  r.define({
      .name = "call",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Runs a graph: what a staged function is to the program that calls it.",
      .operands = {{"xs...", kAnyDType}},
      .attrs = {{"graph", AttrKind::kGraph},
                {"backward", AttrKind::kGraph, none},
                {"visible", AttrKind::kInt, none},
                {"read", AttrKind::kInts, none},
                {"rows", AttrKind::kInts, none},
                {"source", AttrKind::kGraph, none}},
      .results = {"ys..."},
      .type = call_type,
      .kernels = {.cpu = prepare_call},
      .data =
          [](Operands in, const Attrs& attrs) {
            return internal::Plan::of(*graph_of(attrs, "graph"))->run(in);
          },
      .vjp = call_vjp,
      .residuals = call_residuals,
      .takes_sums = true,
      .jvp = call_jvp,
      .batch = call_batch,
      .body = "graph",
      .samples = {.around = call_around},
  });
}

}  // namespace etude::ops
