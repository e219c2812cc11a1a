// SPDX-License-Identifier: Apache-2.0
#include "etude/stablehlo/emit.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/passes/drop.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/inline.h"
#include "etude/passes/lower.h"
#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

using etude::internal::located;
using saved::internal::Source;
using saved::internal::SourceInput;

[[noreturn]] void refuse_call(const Op& op, std::span<const Type* const> types) {
  std::vector<std::string> texts;
  for (const Type* type : types) {
    if (type != nullptr) texts.push_back(type->to_string());
  }
  const bool is_loop = op.full_name() == "internal.while_loop";
  ETUDE_THROW(kUnimplemented, "{} of ({}) has no form in StableHLO. {}", op.full_name(),
              fmt::join(texts, ", "),
              is_loop ? "The gradient of a while_loop needs a limit of its steps: set "
                        "LoopOptions::max_iterations"
                      : "Export a function without this call, and make the call outside of the "
                        "module");
}

// The graph with only calls that have conversions. Graphs in attributes are prepared when their
// call is emitted.
GraphRef prepare(const Graph& graph) {
  const GraphRef inlined = etude::internal::inline_calls(graph);
  const GraphRef needed = etude::internal::drop_dead_nodes(*inlined);
  const auto has_form = [](const Op& op, std::span<const Type* const> types, const Attrs& attrs) {
    if (find_conversion(op, types, attrs) != nullptr) return true;
    if (!etude::internal::has_lowering(op)) refuse_call(op, types);
    return false;
  };
  const GraphRef lowered = etude::internal::lower_to(*needed, has_form);
  return etude::internal::drop_dead_nodes(*lowered);
}

std::string location_of(CallSite where) {
  return where.known() ? fmt::format("loc({}:{}:0)", in_quotes(where.file), where.line) : "";
}

class Emitter {
 public:
  Emitter(Writer& writer, const Graph& graph)
      : writer_(writer), graph_(graph), values_(graph.value_count()) {}

  Terms emit(const Terms& inputs) {
    std::ranges::copy(inputs, values_.begin());
    const std::string outside = writer_.location;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      located(node.op, node.where, [&] { emit_node(node); });
    }
    writer_.location = outside;
    Terms out;
    for (const GraphValue v : graph_.outputs()) out.push_back(v == kNoValue ? Term{} : value(v));
    return out;
  }

 private:
  const Term& value(GraphValue v) {
    if (values_[v].is_absent()) {
      // Loops and branches take the key that their bodies draw from.
      ETUDE_REQUIRE_CODE(kUnimplemented, v >= graph_.first_constant(),
                         "a key of random numbers has no form in StableHLO. Draw the numbers "
                         "outside of the module, and pass them as arguments");
      values_[v] = writer_.constant(graph_.constants()[v - graph_.first_constant()]);
    }
    return values_[v];
  }

  void emit_node(const Graph::Node& node) {
    const Types types = etude::internal::operand_types(graph_, node);
    const std::span<const Type* const> in(types.data(), types.size());
    const Conversion* const conversion = find_conversion(node.op, in, node.attrs);
    if (conversion == nullptr) refuse_call(node.op, in);
    if (const std::string line = location_of(node.where); !line.empty()) writer_.location = line;
    Terms inputs;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i] == nullptr) {
        inputs.emplace_back();
        continue;
      }
      const Term& given = value(node.operands[i]);
      const bool is_shared = node.op.operand(i).dtypes.empty();
      inputs.push_back(is_shared ? convert(given, working_dtype(*conversion, given.dtype()))
                                 : given);
    }
    Call call(writer_, node.op, node.attrs, inputs, etude::internal::result_types(graph_, node));
    const Terms results = conversion->write != nullptr ? conversion->write(call)
                                                       : Terms{write_same(call, conversion->name)};
    ETUDE_CHECK(results.size() == node.results, "the conversion of {} has {} results, not {}",
                node.op.full_name(), results.size(), node.results);
    for (uint32_t r = 0; r < node.results; ++r) {
      const Type* type = graph_.type(node.first_result + r);
      const Term result = convert(results[r], type->dtype());
      ETUDE_CHECK(result.shape() == type->shape(), "the conversion of {} makes {}, not {}",
                  node.op.full_name(), result.type->to_string(), type->to_string());
      values_[node.first_result + r] = result;
    }
  }

  // The operator on operands of the shape of the result.
  static Term write_same(const Call& call, std::string_view name) {
    Terms operands;
    for (const Term& x : call.inputs()) operands.push_back(broadcast(x, call.result().shape()));
    return apply(name, operands, operands[0].type);
  }

  Writer& writer_;
  const Graph& graph_;
  Terms values_;
};

// A name as an identifier of MLIR that no other value has.
std::string value_name(Writer& writer, const std::string& name) {
  const bool is_number = name.empty() || (name[0] >= '0' && name[0] <= '9');
  std::string base = is_number ? "%_" : "%";
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    base += is_plain ? c : '_';
  }
  std::string out = base;
  for (int n = 1; !writer.taken.insert(out).second; ++n) out = fmt::format("{}_{}", base, n);
  return out;
}

std::string named_type(const Type* type, const std::string& name) {
  return fmt::format("{} {{etude.name = {}}}", type_text(type), in_quotes(name));
}

}  // namespace

Terms emit_graph(Writer& writer, const Graph& graph, const Terms& inputs) {
  const GraphRef prepared = prepare(graph);
  return Emitter(writer, *prepared).emit(inputs);
}

std::string module_text(const Source& source, bool weights_as_arguments) {
  const Graph& graph = *source.graphs.front();
  Writer writer;
  Terms inputs(source.inputs.size());
  std::vector<std::string> arguments, results;
  for (const bool is_weight : {false, true}) {
    for (std::size_t i = 0; i < source.inputs.size(); ++i) {
      const SourceInput& input = source.inputs[i];
      const bool is_state = input.variable >= 0;
      const bool is_argument =
          is_weight ? is_state && weights_as_arguments : !input.is_key && !input.value.has_value();
      if (!is_argument) continue;
      const Type* given = graph.inputs()[i].type;
      inputs[i] = {&writer, value_name(writer, input.name),
                   intern_type(given->dtype(), given->shape())};
      arguments.push_back(
          fmt::format("{}: {}", inputs[i].name, named_type(inputs[i].type, input.name)));
    }
  }
  for (std::size_t i = 0; i < source.inputs.size(); ++i) {
    const SourceInput& input = source.inputs[i];
    if (inputs[i].is_absent() && !input.is_key) inputs[i] = writer.constant(input.value);
  }
  Terms outputs = emit_graph(writer, graph, inputs);
  outputs.resize(source.outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(named_type(outputs[i].type, source.outputs[i]));
  }
  const std::string types = type_list(outputs);
  return fmt::format(
      "module @{} attributes {{etude.version = {}}} {{\n  func.func public @main({}) -> ({}) {{\n"
      "{}    return {} : {}\n  }}\n}}\n",
      in_quotes(source.function), in_quotes(version()), fmt::join(arguments, ", "),
      fmt::join(results, ", "), writer.text(), name_list(outputs),
      types.substr(1, types.size() - 2));
}

}  // namespace etude::stablehlo::internal
