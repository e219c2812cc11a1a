// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/emit.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/internal/host_door.h"
#include "etude/onnx/onnx.h"
#include "etude/passes/drop.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/inline.h"
#include "etude/passes/lower.h"

namespace etude::onnx::internal {
namespace {

using etude::internal::located;

[[noreturn]] void refuse_call(const Op& op, std::span<const Type* const> types, const Attrs& attrs,
                              int64_t opset) {
  std::vector<std::string> texts;
  for (const Type* type : types) {
    if (type != nullptr) texts.push_back(type->to_string());
  }
  int64_t newer = opset;
  while (newer <= SaveOptions::kNewestOpset && !find_conversion(op, types, attrs, newer)) ++newer;
  const bool needs_newer = newer > opset && newer <= SaveOptions::kNewestOpset;
  ETUDE_THROW(kUnimplemented, "{} of ({}) has no form in ONNX opset {}. {}", op.full_name(),
              fmt::join(texts, ", "), opset,
              needs_newer
                  ? fmt::format("Set SaveOptions::opset to {}", newer)
                  : "Export a function without this call, and make the call outside of the model");
}

// The graph with only calls that have conversions. Graphs in attributes are prepared when their
// call is emitted.
GraphRef prepare(const Graph& graph, int64_t opset) {
  const GraphRef inlined = etude::internal::inline_calls(graph);
  const GraphRef needed = etude::internal::drop_dead_nodes(*inlined);
  const auto has_form = [opset](const Op& op, std::span<const Type* const> types,
                                const Attrs& attrs) {
    if (find_conversion(op, types, attrs, opset) != nullptr) return true;
    if (!etude::internal::has_lowering(op)) refuse_call(op, types, attrs, opset);
    return false;
  };
  const GraphRef lowered = etude::internal::lower_to(*needed, has_form);
  return etude::internal::drop_dead_nodes(*lowered);
}

std::string line_of(CallSite where) {
  return where.known() ? fmt::format("{}:{}", where.file, where.line) : "";
}

class Emitter {
 public:
  Emitter(Writing& writing, GraphModel& to, const Graph& graph)
      : writing_(writing), to_(to), graph_(graph), values_(graph.value_count()) {}

  std::vector<Value> emit(const std::vector<Value>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) values_[i] = inputs[i];
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      located(node.op, node.where, [&] { emit_node(node); });
    }
    std::vector<Value> out;
    for (const GraphValue v : graph_.outputs()) out.push_back(v == kNoValue ? "" : value(v));
    return out;
  }

 private:
  const Value& value(GraphValue v) {
    if (values_[v].empty()) {  // a constant
      values_[v] = writing_.fresh("constant");
      const Tensor& x = graph_.constants()[v - graph_.first_constant()];
      to_.constants.push_back({values_[v], to_dense(etude::internal::at_home(x))});
    }
    return values_[v];
  }

  void emit_node(const Graph::Node& node) {
    const Types types = etude::internal::operand_types(graph_, node);
    const std::span<const Type* const> in(types.data(), types.size());
    const Conversion* const conversion = find_conversion(node.op, in, node.attrs, writing_.opset);
    const Types made = etude::internal::result_types(graph_, node);
    const bool is_real =
        std::ranges::none_of(made, [](const Type* t) { return is_complex(t->dtype()); });
    if (conversion == nullptr || !is_real) refuse_call(node.op, in, node.attrs, writing_.opset);
    Call call(writing_, to_, node.op, node.attrs, in, made, line_of(node.where));
    std::vector<Term> inputs;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i] == nullptr) {
        inputs.push_back(call.absent());
        continue;
      }
      const Term given{&call, value(node.operands[i]), in[i]->dtype()};
      const bool is_shared = node.op.operand(i).dtypes.empty();
      inputs.push_back(is_shared ? call.cast(given, *working_dtype(*conversion, given.dtype))
                                 : given);
    }
    call.set_inputs(inputs);
    const std::vector<Term> results = conversion->write != nullptr
                                          ? conversion->write(call)
                                          : std::vector{call.node(conversion->node, inputs)};
    ETUDE_CHECK(results.size() == node.results, "the conversion of {} has {} results, not {}",
                node.op.full_name(), results.size(), node.results);
    for (uint32_t r = 0; r < node.results; ++r) {
      const Term result = call.cast(results[r], graph_.type(node.first_result + r)->dtype());
      values_[node.first_result + r] = result.name;
    }
  }

  Writing& writing_;
  GraphModel& to_;
  const Graph& graph_;
  std::vector<Value> values_;
};

}  // namespace

std::vector<Value> emit_graph(Writing& writing, GraphModel& to, const Graph& graph,
                              const std::vector<Value>& inputs) {
  const GraphRef prepared = prepare(graph, writing.opset);
  return Emitter(writing, to, *prepared).emit(inputs);
}

}  // namespace etude::onnx::internal
