// SPDX-License-Identifier: Apache-2.0
// custom_call: results with a derivative written by the user. custom_gradient, with_derivative and
// recompute_grad become this op in a trace.
#include <algorithm>

#include <fmt/format.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/internal/custom_rule.h"
#include "etude/autodiff/traced_rule.h"
#include "etude/base/check.h"
#include "etude/core/op/batching.h"
#include "etude/ops/families.h"
#include "etude/ops/graph/graph_attrs.h"
#include "etude/ops/graph/unsaved_rules.h"
#include "etude/stage/make_graph.h"

namespace etude::ops {
namespace {

// throws: an error of the rule `what`, with the reason that the call states.
[[noreturn]] void throw_fault(const std::string& fault, const std::string& what) {
  const bool is_unsaved = fault.starts_with(kRulesNotSaved);
  Error error(is_unsaved ? ErrorCode::kUnimplemented : ErrorCode::kInvalidArgument, fault);
  error.name_op(what);
  throw error;
}

// The operands are the results, the inputs of the rules, and the values that the rules keep.
struct CustomCall {
  CustomCall(const Attrs& given, std::size_t operands)
      : attrs(given),
        results(static_cast<std::size_t>(given.integer("results"))),
        inputs(static_cast<std::size_t>(given.integer("inputs"))) {
    ETUDE_REQUIRE(given.integer("results") >= 0 && given.integer("inputs") >= 0 &&
                      results + inputs <= operands,
                  "has {} results and {} inputs, but only {} operands", given.integer("results"),
                  given.integer("inputs"), operands);
    if (given.has("rules")) rules = graphs_of(given, "rules");
    if (given.has("sets")) sets = given.ints("sets");
    if (given.has("tangents")) tangents = graphs_of(given, "tangents");
    ETUDE_REQUIRE(tangents.size() <= 1, "has {} graphs of tangents, but only one can be run",
                  tangents.size());
    ETUDE_REQUIRE(sets.empty() ? rules.size() <= 1 : rules.size() == sets.size(),
                  "has {} rules for {} sets of cotangents", rules.size(), sets.size());
  }
  std::size_t first_residual() const { return results + inputs; }
  std::string_view name() const { return attrs.text("name"); }
  // By result: whether rule number `rule` takes its cotangent.
  std::vector<bool> taken(std::size_t rule, std::span<const Type* const> types) const {
    std::vector<bool> out;
    int moving = 0;
    for (const Type* type : types.first(results)) {
      const bool moves = type != nullptr && is_differentiable(type->dtype());
      out.push_back(moves && (sets.empty() || ((sets[rule] >> moving) & 1) != 0));
      moving += moves ? 1 : 0;
    }
    return out;
  }
  // The number of residuals that each rule takes: the first ones.
  std::size_t kept(std::span<const Type* const> types) const {
    if (rules.empty()) return 0;
    const auto cotangents = static_cast<std::size_t>(std::ranges::count(taken(0, types), true));
    const std::size_t all = rules[0]->inputs().size();
    ETUDE_REQUIRE(all >= cotangents && all - cotangents <= types.size() - first_residual(),
                  "a rule has {} inputs, for {} cotangents and {} residuals", all, cotangents,
                  types.size() - first_residual());
    return all - cotangents;
  }
  // The number of the rule for the cotangents that arrived.
  // throws: kInvalidArgument if the pullback could not be made a graph for them; kUnimplemented if
  // the rules were not saved.
  std::size_t find_rule(const std::vector<bool>& arrived, std::span<const Type* const> types,
                        std::string_view what) const {
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (sets.empty() || taken(i, types) == arrived) return i;
    }
    throw_fault(attrs.text("fault"), fmt::format("{}{}", what, name()));
  }

  const Attrs& attrs;
  std::size_t results, inputs;
  Graphs rules, tangents;
  std::vector<int64_t> sets;
};

// Checks the graph of tangents: tangents of inputs, then all residuals; results that move.
void require_tangents(const CustomCall& custom, std::span<const Type* const> types) {
  std::vector<const Type*> inputs, outputs;
  for (const Type* type : types.subspan(custom.results)) inputs.push_back(type);
  for (const Type* type : types.first(custom.results)) {
    if (type != nullptr && is_differentiable(type->dtype())) outputs.push_back(type);
  }
  const Graph& graph = *custom.tangents[0];
  internal::require_inputs(graph, inputs);
  ETUDE_REQUIRE(std::ranges::equal(graph.output_types(), outputs),
                "attribute 'tangents' does not give the tangents of the {} results",
                outputs.size());
}

Types custom_type(const TypeCall& call) {
  const CustomCall custom(call.attrs, call.types.size());
  const GraphRef value = graph_of(call.attrs, "value");
  internal::require_inputs(*value, call.types);
  const auto results = call.types.first(custom.results);
  ETUDE_REQUIRE(std::ranges::equal(value->output_types(), results),
                "attribute 'value' does not give the {} results", custom.results);
  for (std::size_t r = 0; r < custom.rules.size(); ++r) {
    const std::vector<bool> taken = custom.taken(r, call.types);
    std::vector<const Type*> types;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i]) types.push_back(results[i]);
    }
    const auto residuals = call.types.subspan(custom.first_residual(), custom.kept(call.types));
    types.insert(types.end(), residuals.begin(), residuals.end());
    const Graph& rule = *custom.rules[r];
    internal::require_inputs(rule, types);
    ETUDE_REQUIRE(rule.outputs().size() == custom.inputs,
                  "the rule returns {} gradients for {} inputs", rule.outputs().size(),
                  custom.inputs);
  }
  if (!custom.tangents.empty()) require_tangents(custom, call.types);
  return {results.begin(), results.end()};
}

Values custom_data(Operands in, const Attrs& attrs) {
  Values out;
  const CustomCall custom(attrs, in.size());
  for (std::size_t i = 0; i < custom.results; ++i) out.push_back(internal::identity(in[i]));
  return out;
}

ResidualCall custom_residuals(std::span<const Type* const> operands, const Attrs& attrs, uint64_t) {
  const CustomCall custom(attrs, operands.size());
  std::vector<int64_t> residuals;
  const std::size_t kept = custom.kept(operands);  // forward mode alone reads further ones
  for (std::size_t i = 0; i < kept; ++i) {
    residuals.push_back(static_cast<int64_t>(custom.first_residual() + i));
  }
  return {attrs, internal::operand_bits(residuals)};
}

// The nodes of the rule run one by one, like its calls in eager mode: contexts then add the
// cotangents of a value in the same order.
Values custom_vjp(const VjpCall& call) {
  const CustomCall custom(call.attrs, call.in.size());
  const Types types = types_of(call.out);
  std::vector<bool> arrived;
  for (std::size_t i = 0; i < custom.results; ++i) {
    arrived.push_back(call.cotangents[i].has_value());
  }
  const std::size_t rule = custom.find_rule(arrived, types, "gradient of ");
  const std::vector<bool> taken = custom.taken(rule, types);
  const bool is_run_again = !call.attrs.flag("is_for_forward");  // see RepeatedRun
  Tensors in;
  for (std::size_t i = 0; i < custom.results; ++i) {
    if (!taken[i]) continue;
    in.push_back(arrived[i] ? call.cotangents[i] : internal::full(types[i], 0));
    if (is_run_again) in.back() = to_dense(in.back());
  }
  const std::size_t kept = custom.kept(types_of(call.in));
  for (std::size_t i = 0; i < kept; ++i) in.push_back(call.in[custom.first_residual() + i]);
  const Tensors found = interpret(*custom.rules[rule], in);
  Values out(call.in.size());
  for (std::size_t i = 0; i < custom.inputs; ++i) {
    if (call.wants(custom.results + i)) out[custom.results + i] = found[i];
  }
  return out;
}

// The tangents of the results by the graph of tangents. An absent tangent counts as zeros.
Values pushed(const CustomCall& custom, const Tensors& operands, std::span<const Tensor> moved) {
  Tensors in;
  for (std::size_t i = 0; i < custom.inputs; ++i) {
    const Tensor& x = operands[custom.results + i];
    in.push_back(moved[i].has_value() ? to_dense(moved[i]) : internal::full(x.type(), 0));
  }
  append(in, std::span(operands).subspan(custom.first_residual()));
  const Tensors found = interpret(*custom.tangents[0], in);
  Values out(custom.results);
  std::size_t next = 0;
  for (std::size_t i = 0; i < custom.results; ++i) {
    if (internal::moves(operands[i])) out[i] = found[next++];
  }
  return out;
}

Values custom_jvp(const JvpCall& call) {
  const CustomCall custom(call.attrs, call.in.size());
  const Tensors tangents = list_of(call.tangents);
  if (!call.attrs.flag("is_for_forward")) {
    return {tangents.begin(), tangents.begin() + static_cast<std::ptrdiff_t>(custom.results)};
  }
  std::size_t at = custom.results;
  const auto moved = part(tangents, at, custom.inputs);
  if (std::ranges::none_of(moved, &Tensor::has_value)) return Values(custom.results);
  const Tensors operands = list_of(call.in);
  const Types types = types_of(call.in);
  if (!custom.tangents.empty()) return pushed(custom, operands, moved);
  if (const std::string& fault = call.attrs.text("forward_fault"); !fault.empty()) {
    throw_fault(fault, fmt::format("tangent of {}", custom.name()));
  }
  const auto residuals = std::span(operands).subspan(at, custom.kept(types));
  internal::RuleCall rule{.name = custom.name()};
  for (std::size_t i = 0; i < custom.results; ++i) rule.results.push_back(call.in[i]);
  for (std::size_t i = 0; i < custom.inputs; ++i) {
    rule.inputs.push_back(call.in[custom.results + i]);
  }
  std::vector<bool> all;
  for (const Tensor& y : rule.results) all.push_back(internal::moves(y));
  const GraphRef graph = custom.rules[custom.find_rule(all, types, "")];
  rule.pullback = [&](std::span<const Tensor> cotangents) {
    Tensors in;
    for (const Tensor& ct : cotangents) {
      if (ct.has_value()) in.push_back(ct);
    }
    append(in, residuals);
    return interpret(*graph, in);
  };
  Tensors out = internal::push_forward(rule, moved);
  for (Tensor& t : out) t = t.has_value() ? to_dense(t) : t;
  return {out.begin(), out.end()};
}

// Rule number `r` on batches of cotangents. A value that it keeps is a batch if the operand is.
GraphRef batched_rule(const CustomCall& custom, std::size_t r, const BatchCall& call,
                      const Tensors& operands) {
  const GraphRef rule = custom.rules[r];
  const std::vector<bool> taken = custom.taken(r, types_of(call.in));
  Inputs inputs;
  for (std::size_t i = 0; i < custom.results; ++i) {
    if (taken[i]) inputs.push_back({"dy", operands[i].type()});
  }
  const std::size_t cotangents = inputs.size();
  const std::size_t kept = custom.kept(types_of(call.in));
  for (std::size_t i = 0; i < kept; ++i) {
    inputs.push_back({"residual", operands[custom.first_residual() + i].type()});
  }
  std::vector<bool> is_example;
  for (std::size_t i = 0; i < custom.inputs; ++i) {
    is_example.push_back(call.is_batched(custom.results + i));
  }
  return internal::make_graph(rule->name(), inputs, [&](std::span<const Tensor> in) {
    BatchContext batch(call.size);
    Tensors residuals(in.begin() + static_cast<std::ptrdiff_t>(cotangents), in.end());
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      if (call.is_batched(custom.first_residual() + i))
        residuals[i] = batch.example_of(residuals[i]);
    }
    const auto pull = [&](std::span<const Tensor> examples) {
      Tensors all(examples.begin(), examples.end());
      append(all, residuals);
      return interpret(*rule, all);
    };
    return internal::pull_in(batch, pull, in.first(cotangents), is_example);
  });
}

// The graph of tangents on batches: the tangent of a batch is a batch, and so are all results.
GraphRef batched_tangents(const CustomCall& custom, const BatchCall& call,
                          const Tensors& operands) {
  const GraphRef graph = custom.tangents[0];
  Inputs inputs;
  std::vector<bool> is_example;
  for (std::size_t i = custom.results; i < operands.size(); ++i) {
    const bool is_tangent = i < custom.first_residual();
    inputs.push_back({is_tangent ? "dx" : "residual", operands[i].type()});
    if (is_tangent) is_example.push_back(call.is_batched(i));
  }
  return internal::make_graph(graph->name(), inputs, [&](std::span<const Tensor> in) {
    BatchContext batch(call.size);
    Tensors residuals(in.begin() + static_cast<std::ptrdiff_t>(custom.inputs), in.end());
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      if (call.is_batched(custom.first_residual() + i))
        residuals[i] = batch.example_of(residuals[i]);
    }
    const auto push = [&](std::span<const Tensor> examples) {
      Tensors all(examples.begin(), examples.end());
      append(all, residuals);
      return interpret(*graph, all);
    };
    return internal::push_in(batch, push, in.first(custom.inputs), is_example);
  });
}

Values custom_batch(const BatchCall& call) {
  const CustomCall custom(call.attrs, call.in.size());
  Tensors operands = list_of(call.in);
  for (std::size_t i = 0; i < custom.results; ++i) operands[i] = batching::leading(call, i);
  std::vector<std::pair<std::string_view, AttrValue>> attrs = {
      {"value", graph_value(internal::first_of(operands, custom.results))},
      {"results", call.attrs.value("results")},
      {"inputs", call.attrs.value("inputs")},
      {"is_for_forward", call.attrs.value("is_for_forward")},
      {"name", call.attrs.value("name")},
      {"sets", call.attrs.value("sets")},
      {"fault", call.attrs.value("fault")},
      {"forward_fault", call.attrs.value("forward_fault")}};
  Graphs rules;
  for (std::size_t r = 0; r < custom.rules.size(); ++r) {
    rules.push_back(batched_rule(custom, r, call, operands));
  }
  if (!rules.empty()) attrs.emplace_back("rules", graphs_value(rules));
  if (!custom.tangents.empty()) {
    attrs.emplace_back("tangents", graphs_value({batched_tangents(custom, call, operands)}));
  }
  return call_op(op<"custom_call">(), operands, attrs);
}

// The results of the graph, with its own gradient for a rule.
GraphSample custom_around(const AttrObject& object, std::span<const Tensor> inputs) {
  const GraphRef graph(static_cast<const Graph*>(&object));
  GraphSample out;  // operands are values of their own
  for (const Tensor& y : interpret(*graph, inputs)) {
    out.operands.push_back(internal::identity(y));
  }
  const auto results = static_cast<int64_t>(out.operands.size());
  std::vector<bool> wanted;
  for (const Tensor& x : inputs) wanted.push_back(is_differentiable(x.dtype()));
  const auto pair = internal::derivative_of(*graph, Chosen(wanted));
  Tensors residuals;
  for (const int64_t i : pair->read) {
    residuals.push_back(internal::identity(inputs[static_cast<std::size_t>(i)]));
  }
  const Tensors all = interpret(*pair->forward, inputs);
  append(residuals, std::span(all).subspan(static_cast<std::size_t>(results)));
  Inputs of_rule;
  for (const Tensor& y : out.operands) {
    if (is_differentiable(y.dtype())) of_rule.push_back({"dy", y.type()});
  }
  const std::size_t cotangents = of_rule.size();
  for (const Tensor& x : residuals) of_rule.push_back({"residual", x.type()});
  const GraphRef rule = internal::make_graph("rule", of_rule, [&](std::span<const Tensor> in) {
    Tensors given(in.begin() + static_cast<std::ptrdiff_t>(cotangents), in.end());
    append(given, in.first(cotangents));
    return interpret(*pair->backward, given);
  });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (wanted[i]) out.operands.push_back(inputs[i]);
  }
  const auto count = static_cast<int64_t>(out.operands.size()) - results;
  append(out.operands, residuals);
  out.attrs = {
      {"value", graph_value(internal::first_of(out.operands, static_cast<std::size_t>(results)))},
      {"rules", graphs_value({rule})},
      {"results", results},
      {"inputs", count},
      {"name", std::string("custom_gradient")}};
  return out;
}

}  // namespace

void define_custom_calls(Registry& r) {
  r.define({
      .name = "custom_call",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "The first `results` operands, of which derivatives know by rules alone: graphs of "
             "cotangents and of kept values, which give gradients for `inputs` further operands. "
             "Each is for a set of cotangents, those that arrive. Forward mode runs the transpose "
             "of a "
             "rule, or the graph `tangents` of tangents of the inputs and of kept values.",
      .operands = {{"xs...", kAnyDType}},
      .attrs = {{"value", AttrKind::kGraph},
                {"rules", AttrKind::kGraphs, none},
                {"sets", AttrKind::kInts, none},
                {"results", AttrKind::kInt},
                {"inputs", AttrKind::kInt},
                {"is_for_forward", true},
                {"name", "custom_gradient"},
                {"fault", ""},
                {"tangents", AttrKind::kGraphs, none},
                {"forward_fault", ""}},
      .results = {"ys..."},
      .type = custom_type,
      .data = custom_data,
      .vjp = custom_vjp,
      .residuals = custom_residuals,
      .jvp = custom_jvp,
      .batch = custom_batch,
      .body = "value",
      .samples = {.no_gradient_check = "results are operands, whatever the inputs are",
                  .around = custom_around},
  });
}

}  // namespace etude::ops
