// SPDX-License-Identifier: Apache-2.0
// Ops that carry graphs: what they run is an attribute.
#include "etude/base/check.h"
#include "etude/core/builtin.h"
#include "etude/graph/graph.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/runtime/graph_derivatives.h"
#include "etude/runtime/plan.h"

namespace etude::ops {
namespace {

const Graph& graph_of(const Attrs& attrs) {
  const auto* graph = dynamic_cast<const Graph*>(&attrs.object("graph"));
  ETUDE_REQUIRE(graph != nullptr, "attribute 'graph' is no graph");
  return *graph;
}

Types call_type(const TypeCall& call) {
  const Graph& graph = graph_of(call.attrs);
  internal::require_inputs(graph, call.types);
  return graph.output_types();
}

// With `backward`, as a tape makes the call: `visible` results, and then those that it reads.
const Graph& backward_of(const Attrs& attrs) {
  ETUDE_CHECK(attrs.has("backward"), "a call without its backward graph was recorded");
  return static_cast<const Graph&>(attrs.object("backward"));
}

KeptCall keep_call(std::span<const Type* const> operands, const Attrs& attrs, uint64_t wanted) {
  const Graph& graph = graph_of(attrs);
  const auto pair = internal::derivative_of(graph, internal::Chosen(wanted, operands.size()));
  return {op<"call">().attrs({pair->forward.get(), pair->backward.get(),
                              static_cast<int64_t>(graph.outputs().size()), pair->read}),
          internal::operand_bits(pair->read)};
}

Values call_vjp(const VjpCall& call) {
  const Graph& backward = backward_of(call.attrs);
  const auto visible = static_cast<std::size_t>(call.attrs.integer("visible"));
  OperandList in;
  for (const int64_t i : call.attrs.ints("read")) in.add(call.in[static_cast<std::size_t>(i)]);
  for (std::size_t i = visible; i < call.out.size(); ++i) in.add(call.out[i]);
  std::vector<Tensor> zeros(visible);  // for results from which nothing arrived
  for (std::size_t i = 0; i < visible; ++i) {
    if (!call.out[i].has_value() || !is_differentiable(call.out[i].dtype())) continue;
    if (call.cotangents[i].has_value()) {
      in.add(call.cotangents[i]);
    } else {
      zeros[i] = internal::full(call.out[i].type(), 0);
      in.add(zeros[i]);
    }
  }
  const Values found = internal::call_graph(internal::graph_attrs(backward), in.view(), {});
  Values out(call.in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.wants(i)) out[i] = found[next++];
  }
  return out;
}

Values call_jvp(const JvpCall& call) {
  const Graph& graph = graph_of(call.attrs);
  OperandList in;
  for (std::size_t i = 0; i < call.in.size(); ++i) in.add(call.in[i]);
  std::vector<bool> moves;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    moves.push_back(call.tangents[i].has_value());
    if (moves.back()) in.add(call.tangents[i]);
  }
  const GraphRef tangents = internal::tangent_graph_of(graph, internal::Chosen(std::move(moves)));
  return internal::call_graph(internal::graph_attrs(*tangents), in.view(), {});
}

Values call_batch(const BatchCall& call) {
  std::vector<bool> batched;
  OperandList in;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    batched.push_back(call.is_batched(i));
    in.add(call.in[i]);
  }
  const Graph& graph = graph_of(call.attrs);
  const internal::Chosen all(std::vector<bool>(graph.outputs().size(), true));
  const GraphRef batch =
      internal::batched_graph_of(graph, internal::Chosen(std::move(batched)), call.size, all);
  return internal::call_graph(internal::graph_attrs(*batch), in.view(), {});
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
                {"read", AttrKind::kInts, none}},
      .results = {"ys..."},
      .type = call_type,
      .data = [](Operands in,
                 const Attrs& attrs) { return internal::Plan::of(graph_of(attrs))->run(in); },
      .vjp = call_vjp,
      .keep = keep_call,
      .jvp = call_jvp,
      .batch = call_batch,
      .body = "graph",
      .samples = {.around = call_around},
  });
}

}  // namespace etude::ops
