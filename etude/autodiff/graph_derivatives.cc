// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/graph_derivatives.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/jvp.h"
#include "etude/autodiff/tape/tape.h"
#include "etude/base/check.h"
#include "etude/core/call/values.h"
#include "etude/core/context/device_scope.h"
#include "etude/graph/builder.h"
#include "etude/passes/graph_copy.h"
#include "etude/stage/make_graph.h"
#include "etude/stage/trace.h"

namespace etude::internal {
namespace {

// Outputs and cotangents of all chosen inputs in one graph: its first outputs are the outputs of
// `graph`, and its first `effects` nodes with effects are the effects of `graph`.
struct JointGraph {
  GraphRef graph;
  std::vector<bool> adds, is_rows;
  std::size_t effects = 0;
};

// Appends a cotangent of `source`; returns whether it is indices and values.
bool add_cotangent(std::vector<Tensor>& outputs, const Tensor& found, const Tensor& source) {
  const std::optional<IndexedSlices> rows = found.slices();
  const bool is_rows = rows && rows->dense_shape == source.shape();
  if (is_rows) {
    outputs.push_back(rows->indices);
    outputs.push_back(rows->values);
  } else {
    outputs.push_back(found);
  }
  return is_rows;
}

JointGraph joint_graph(const Graph& graph, const Chosen& wanted, const Chosen& summed,
                       bool keeps_rows) {
  JointGraph joint;
  const NoDeviceScope own;  // the graph serves calls in other scopes as well
  TraceContext trace(graph.name(), {});
  const std::vector<Tensor> inputs = trace.add_arguments(graph);
  std::vector<Tensor> sources, outputs;
  Tape tape;
  {
    TapeContext context(tape);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!wanted[i]) continue;
      sources.push_back(inputs[i]);
      tape.watch(inputs[i]);
    }
    outputs = interpret(graph, inputs);
  }
  joint.effects = trace.effect_count();
  // Seeds are added one by one: the earlier sum of an input, and then the outputs from the last to
  // the first, in the order of the calls after the graph.
  std::vector<Tensor> cotangents(outputs.size()), sums(sources.size()), targets, seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].has_value() || !is_differentiable(outputs[i].dtype())) continue;
    cotangents[i] = trace.add_argument("ct" + std::to_string(i), outputs[i].type());
  }
  std::size_t source = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!wanted[i]) continue;
    if (summed[i]) {
      sums[source] = trace.add_argument("sum_" + graph.inputs()[i].name, inputs[i].type());
      targets.push_back(inputs[i]);
      seeds.push_back(sums[source]);
    }
    ++source;
  }
  for (std::size_t i = outputs.size(); i-- > 0;) {
    if (!cotangents[i].has_value() || !tape.is_watched(outputs[i])) continue;
    targets.push_back(outputs[i]);
    seeds.push_back(cotangents[i]);
  }
  std::vector<Tensor> found(sources.size());
  if (!targets.empty()) found = tape.gradient(targets, sources, seeds);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool is_sum = sums[i].has_value() && found[i].ref() == sums[i].ref();
    joint.adds.push_back(found[i].has_value() && !is_sum);
    const Tensor cotangent = keeps_rows || !found[i].has_value() ? found[i] : to_dense(found[i]);
    joint.is_rows.push_back(add_cotangent(outputs, cotangent, sources[i]));
  }
  trace.keep_constants();
  joint.graph = trace.finish(outputs).graph;
  return joint;
}

// Cuts a joint graph: `inputs` of its inputs, `outputs` of its outputs and `effects` of its nodes
// with effects belong to the first part.
class Partition {
 public:
  Partition(const Graph& joint, std::size_t inputs, std::size_t outputs, std::size_t effects)
      : joint_(joint),
        inputs_(inputs),
        outputs_(outputs),
        effects_(effects),
        is_forward_(joint.value_count()),
        runs_forward_(joint.size()) {}

  RefPtr<const GraphDerivative> make(JointGraph&& from) {
    find_forward();
    find_residuals();
    auto out = make_ref<GraphDerivative>();
    out->forward = forward();
    out->backward = backward();
    out->read.assign(read_.begin(), read_.end());
    out->adds = std::move(from.adds);
    out->is_rows = std::move(from.is_rows);
    return out;
  }

 private:
  using Draft = GraphBuilder::Draft;

  void find_forward() {
    for (GraphValue v = 0; v < inputs_; ++v) is_forward_[v] = true;
    std::vector<bool> needed(joint_.value_count());
    for (const GraphValue v : joint_.outputs().first(outputs_)) {
      if (v != kNoValue) needed[v] = true;
    }
    std::vector<bool> has_effect(joint_.size());
    std::size_t effects = 0;
    for (std::size_t i = 0; i < joint_.size() && joint_.has_effects(); ++i) {
      const Graph::Node node = joint_.node(i);
      has_effect[i] = has_effects(node.op, node.attrs) && effects++ < effects_;
    }
    for (std::size_t i = joint_.size(); i-- > 0;) {
      const Graph::Node node = joint_.node(i);
      bool is_needed = has_effect[i];
      for (uint32_t r = 0; r < node.results; ++r) {
        is_needed = is_needed || needed[node.first_result + r];
      }
      if (!is_needed) continue;
      runs_forward_[i] = true;
      for (uint32_t r = 0; r < node.results; ++r) is_forward_[node.first_result + r] = true;
      for (const GraphValue v : node.operands) {
        if (v != kNoValue) needed[v] = true;
      }
    }
  }

  // The values of the first part that the second part reads, in order. Constants are in both.
  void find_residuals() {
    std::vector<bool> is_read(joint_.value_count());
    for (std::size_t i = 0; i < joint_.size(); ++i) {
      const Graph::Node node = joint_.node(i);
      if (runs_forward_[i]) continue;
      for (const GraphValue v : node.operands) {
        if (v != kNoValue) is_read[v] = true;
      }
    }
    for (const GraphValue v : joint_.outputs().subspan(outputs_)) {
      if (v != kNoValue) is_read[v] = true;
    }
    for (GraphValue v = 0; v < joint_.value_count(); ++v) {
      if (is_read[v] && is_forward_[v]) (v < inputs_ ? read_ : residuals_).push_back(v);
    }
  }

  // Appends the nodes of one part; `numbers` has the drafts of the outside values that they read.
  void add_nodes(GraphBuilder& build, std::vector<Draft>& numbers, bool forward) const {
    for (std::size_t c = 0; c < joint_.constants().size(); ++c) {
      numbers[joint_.first_constant() + c] = build.add_constant(joint_.constants()[c]);
    }
    for (std::size_t i = 0; i < joint_.size(); ++i) {
      const Graph::Node node = joint_.node(i);
      if (runs_forward_[i] != forward) continue;
      std::vector<Draft> operands;
      for (const GraphValue v : node.operands) {
        operands.push_back(v == kNoValue ? GraphBuilder::kNoDraft : numbers[v]);
      }
      const Draft first = build.add_node(node.op, node.attrs, operands, node.where);
      for (uint32_t r = 0; r < node.results; ++r) numbers[node.first_result + r] = first + r;
    }
  }

  std::vector<Draft> numbered(const std::vector<Draft>& numbers,
                              std::span<const GraphValue> values) const {
    std::vector<Draft> out;
    for (const GraphValue v : values) {
      out.push_back(v == kNoValue ? GraphBuilder::kNoDraft : numbers[v]);
    }
    return out;
  }

  GraphRef forward() const {
    GraphBuilder build(joint_.name());
    std::vector<Draft> numbers(joint_.value_count(), GraphBuilder::kNoDraft);
    for (GraphValue v = 0; v < inputs_; ++v) {
      numbers[v] = build.add_input(joint_.inputs()[v].name, joint_.type(v));
    }
    add_nodes(build, numbers, true);
    std::vector<Draft> outputs = numbered(numbers, joint_.outputs().first(outputs_));
    for (const GraphValue v : residuals_) outputs.push_back(numbers[v]);
    return build.finish(outputs);
  }

  GraphRef backward() const {
    GraphBuilder build(joint_.name() + "_backward");
    std::vector<Draft> numbers(joint_.value_count(), GraphBuilder::kNoDraft);
    for (const GraphValue v : read_) {
      numbers[v] = build.add_input(joint_.inputs()[v].name, joint_.type(v));
    }
    for (const GraphValue v : residuals_) {
      numbers[v] = build.add_input("residual" + std::to_string(v), joint_.type(v));
    }
    for (std::size_t v = inputs_; v < joint_.inputs().size(); ++v) {
      numbers[v] = build.add_input(joint_.inputs()[v].name, joint_.inputs()[v].type);
    }
    add_nodes(build, numbers, false);
    return build.finish(numbered(numbers, joint_.outputs().subspan(outputs_)));
  }

  const Graph& joint_;
  const std::size_t inputs_, outputs_, effects_;
  std::vector<bool> is_forward_;              // by value
  std::vector<bool> runs_forward_;            // by node: some have no value
  std::vector<GraphValue> read_, residuals_;  // inputs, and results of the first part
};

}  // namespace

Chosen::Chosen(uint64_t bits, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    which_.push_back(((bits >> std::min<std::size_t>(i, 63)) & 1) != 0);
}

uint64_t operand_bits(std::span<const int64_t> operands) {
  uint64_t bits = 0;
  for (const int64_t i : operands) bits |= uint64_t{1} << std::min<int64_t>(i, 63);
  return bits;
}

std::string Chosen::to_string() const {
  std::string text;
  for (const bool is : which_) text += is ? '1' : '0';
  return text;
}

namespace {

RefPtr<const GraphDerivative> derive(const Graph& graph, const Chosen& wanted, const Chosen& summed,
                                     bool keeps_rows) {
  const std::string what = fmt::format("{}derivative {} {}", keeps_rows ? "sparse " : "",
                                       wanted.to_string(), summed.to_string());
  return graph.kept<GraphDerivative>(what, [&] {
    JointGraph joint = joint_graph(graph, wanted, summed, keeps_rows);
    Partition partition(*joint.graph, graph.inputs().size(), graph.outputs().size(), joint.effects);
    return partition.make(std::move(joint));
  });
}

Chosen none_of(const Chosen& chosen) { return Chosen(std::vector<bool>(chosen.size(), false)); }

}  // namespace

RefPtr<const GraphDerivative> derivative_of(const Graph& graph, const Chosen& wanted) {
  return derive(graph, wanted, none_of(wanted), false);
}

RefPtr<const GraphDerivative> sparse_derivative_of(const Graph& graph, const Chosen& wanted) {
  return derive(graph, wanted, none_of(wanted), true);
}

RefPtr<const GraphDerivative> sparse_derivative_of(const Graph& graph, const Chosen& wanted,
                                                   const Chosen& summed) {
  return derive(graph, wanted, summed, true);
}

RefPtr<const GraphDerivative> derivative_of(const Graph& graph, const Chosen& wanted,
                                            const Chosen& summed) {
  return derive(graph, wanted, summed, false);
}

GraphRef pushed_graph_of(const Graph& graph, const Chosen& moved) {
  return graph.kept<Graph>("pushed " + moved.to_string(), [&] {
    const NoDeviceScope own;
    TraceContext trace(graph.name() + "_jvp", {});
    const std::vector<Tensor> inputs = trace.add_arguments(graph);
    JvpContext jvp;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!moved[i]) continue;
      const Graph::Input& input = graph.inputs()[i];
      jvp.set_tangent(inputs[i], trace.add_argument("t_" + input.name, input.type));
    }
    std::vector<Tensor> all = interpret(graph, inputs);
    const std::size_t outputs = all.size();
    for (std::size_t i = 0; i < outputs; ++i) all.push_back(jvp.tangent(all[i]));
    ContextStack::remove(jvp);
    trace.keep_constants();
    return trace.finish(all).graph;
  });
}

GraphRef batched_graph_of(const Graph& graph, const Chosen& batched, int64_t size,
                          const Chosen& results) {
  const std::string what =
      fmt::format("batch {} {} {}", size, batched.to_string(), results.to_string());
  return graph.kept<Graph>(what, [&] {
    std::vector<Graph::Input> inputs;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const Graph::Input& input = graph.inputs()[i];
      std::vector<int64_t> sizes = input.type->shape().to_vector();
      if (batched[i]) sizes.insert(sizes.begin(), size);
      inputs.push_back({input.name, intern_type(input.type->dtype(), sizes, input.type->device())});
    }
    return make_graph(graph.name() + "_batch", inputs, [&](std::span<const Tensor> given) {
      BatchContext batch(size);
      std::vector<Tensor> examples, outputs;
      for (std::size_t i = 0; i < given.size(); ++i) {
        examples.push_back(batched[i] ? batch.example_of(given[i]) : given[i]);
      }
      for (const Tensor& y : interpret(graph, examples)) {
        const bool is_result = results[outputs.size()];
        ETUDE_CHECK(is_result || !batch.is_example(y), "output {} belongs to one example",
                    outputs.size());
        outputs.push_back(is_result ? batch.batch_of(y) : y);
      }
      return outputs;
    });
  });
}

namespace {

// Whether a result has elements, such as a result of a host_function: a second run needs it.
bool has_elements(const Graph& graph, const Graph::Node& node) {
  for (uint32_t r = 0; r < node.results; ++r) {
    if (graph.type(node.first_result + r)->count() > 0) return true;
  }
  return false;
}

GraphRef copy_without_effects(const Graph& graph) {
  GraphCopy copy(graph);
  const auto quiet = [](const Graph& carried) { return without_effects(carried); };
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    if (node.op.def().effect != Effect::kOutside || has_elements(graph, node)) {
      copy.copy(node, has_effects(node.op, node.attrs) ? with_graphs(node.op, node.attrs, quiet)
                                                       : node.attrs);
      continue;
    }
    for (uint32_t r = 0; r < node.results; ++r) {  // empty: an output may name it
      const GraphValue v = node.first_result + r;
      copy.set(v, copy.build().add_constant(make_tensor(graph.type(v))));
    }
  }
  return copy.finish(false);
}

}  // namespace

GraphRef without_effects(const Graph& graph) {
  if (!graph.has_effects()) return GraphRef(&graph);
  return graph.kept<Graph>("without effects", [&] { return copy_without_effects(graph); });
}

Chosen outputs_behind(const Graph& graph, const Chosen& inputs) {
  std::vector<bool> depends(graph.value_count());
  for (GraphValue v = 0; v < graph.first_constant(); ++v) depends[v] = inputs[v];
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    const bool does = std::ranges::any_of(
        node.operands, [&](GraphValue v) { return v != kNoValue && depends[v]; });
    for (uint32_t r = 0; r < node.results; ++r) depends[node.first_result + r] = does;
  }
  std::vector<bool> out;
  for (const GraphValue v : graph.outputs()) out.push_back(v != kNoValue && depends[v]);
  return Chosen(std::move(out));
}

}  // namespace etude::internal
