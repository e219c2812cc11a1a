// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/conversions.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/core/call/run.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/onnx/emit.h"
#include "etude/onnx/write.h"

namespace etude::onnx::internal {
namespace {

// All conversions, by op.
class Table {
 public:
  Table() {
    add_elementwise_conversions(conversions_);
    add_scalar_conversions(conversions_);
    add_reduction_conversions(conversions_);
    add_shape_conversions(conversions_);
    add_index_conversions(conversions_);
    add_order_conversions(conversions_);
    add_window_conversions(conversions_);
    add_network_conversions(conversions_);
    add_normalization_conversions(conversions_);
    add_control_conversions(conversions_);
    for (const Conversion& conversion : conversions_) {
      std::vector<const Conversion*>& rows = by_op_[conversion.op];
      const bool is_reached = rows.empty() || rows.back()->fits != nullptr ||
                              rows.back()->opset != 0 || rows.back()->dtypes != kAnyDType;
      ETUDE_CHECK(is_reached, "a conversion of op '{}' is never used", conversion.op);
      rows.push_back(&conversion);
    }
  }

  std::span<const Conversion* const> find(const Op& op) const {
    const auto found = by_op_.find(op.full_name());
    if (found == by_op_.end()) return {};
    return found->second;
  }

 private:
  Conversions conversions_;
  std::unordered_map<std::string_view, std::vector<const Conversion*>> by_op_;
};

bool shares_dtype(const Op& op, std::size_t i) { return op.operand(i).dtypes.empty(); }

bool applies(const Conversion& conversion, const Op& op, const CallFacts& call) {
  if (call.opset < conversion.opset) return false;
  for (std::size_t i = 0; i < call.types.size(); ++i) {
    if (call.types[i] == nullptr) continue;
    if (is_complex(call.types[i]->dtype())) return false;
    if (shares_dtype(op, i) && !working_dtype(conversion, call.types[i]->dtype())) return false;
  }
  return conversion.fits == nullptr || conversion.fits(call);
}

}  // namespace

std::optional<DType> working_dtype(const Conversion& conversion, DType dtype) {
  if (conversion.dtypes.contains(dtype)) return dtype;
  static constexpr DType kFloats[] = {kFloat32, kFloat64};
  static constexpr DType kWhole[] = {kInt32, kInt64};
  const bool is_whole = is_integer(dtype) && dtype != kUInt64 && dtype != kInt64;
  if (!is_whole && !kFloating.contains(dtype)) return std::nullopt;
  for (const DType wide : is_whole ? std::span(kWhole) : std::span(kFloats)) {
    const bool fits =
        itemsize(wide) > itemsize(dtype) || (itemsize(wide) == itemsize(dtype) && dtype != kUInt32);
    if (fits && conversion.dtypes.contains(wide)) return wide;
  }
  return std::nullopt;
}

const Conversion* find_conversion(const Op& op, std::span<const Type* const> types,
                                  const Attrs& attrs, int64_t opset) {
  static const etude::internal::Permanent<Table> table;
  for (const Conversion* const conversion : table->find(op)) {
    if (applies(*conversion, op, {types, attrs, opset})) return conversion;
  }
  return nullptr;
}

std::string Writing::fresh(std::string_view base) {
  std::string out = fmt::format("{}_{}", base, ++next);
  while (taken.contains(out)) out += "_";
  return out;
}

std::vector<Term> Call::nodes(std::string_view op, const std::vector<Term>& inputs,
                              std::vector<Attribute> attributes,
                              const std::vector<DType>& results) {
  Node node{std::string(op), fresh(op), line_, {}, {}, std::move(attributes)};
  for (const Term& input : inputs) node.inputs.push_back(input.name);
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  std::vector<Term> out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    out.push_back(
        {this, results.size() == 1 ? node.name : fmt::format("{}_{}", node.name, i), results[i]});
    node.outputs.push_back(out.back().name);
  }
  to_.nodes.push_back(std::move(node));
  return out;
}

Term Call::node_of(DType dtype, std::string_view op, const std::vector<Term>& inputs,
                   std::vector<Attribute> attributes) {
  return nodes(op, inputs, std::move(attributes), {dtype})[0];
}

Term Call::node(std::string_view op, const std::vector<Term>& inputs,
                std::vector<Attribute> attributes) {
  return node_of(inputs[0].dtype, op, inputs, std::move(attributes));
}

Term Call::cast(const Term& x, DType dtype) {
  if (x.dtype == dtype || x.is_absent()) return x;
  return node_of(dtype, "Cast", {x}, {{"to", type_number(dtype)}});
}

Term Call::constant(const Tensor& value) {
  to_.constants.push_back({fresh("constant"), to_dense(etude::internal::at_home(value))});
  return {this, to_.constants.back().name, value.dtype()};
}

Term Call::number(double value, DType dtype) {
  Tensor out = etude::internal::make_tensor(intern_type(dtype, Shape{}));
  etude::internal::convert_elements(etude::internal::host_elements_for_writing(out), dtype, &value,
                                    kFloat64, 1);
  return constant(out);
}

Term Call::ints(const std::vector<int64_t>& values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  Tensor out = etude::internal::make_tensor(intern_type(kInt64, shape));
  etude::internal::convert_elements(etude::internal::host_elements_for_writing(out), kInt64,
                                    values.data(), kInt64, shape[0]);
  return constant(out);
}

Term Call::reshape(const Term& x, const std::vector<int64_t>& sizes) {
  // Without the attribute a size of 0 would mean the size of x.
  return node("Reshape", {x, ints(sizes)}, {{"allowzero", int64_t{1}}});
}

Term Call::transpose(const Term& x, const std::vector<int64_t>& axes) {
  if (axes == all_axes(static_cast<int>(axes.size()))) return x;
  return node("Transpose", {x}, {{"perm", axes}});
}

Term Call::unsqueeze(const Term& x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : node("Unsqueeze", {x, ints(axes)});
}

void Call::need_bytes(int64_t rows, int64_t columns, DType dtype) const {
  int64_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(rows, columns, &bytes) &&
                    !__builtin_mul_overflow(bytes, itemsize(dtype), &bytes) &&
                    bytes <= writing_.most_bytes;
  ETUDE_REQUIRE_CODE(
      kResourceExhausted, fits,
      "its form in ONNX has a constant of {} x {} elements, and the limit is {} bytes", rows,
      columns, writing_.most_bytes);
}

Term Call::evaluate(std::span<const Tensor> operands, const Attrs& with) {
  const BottomScope at_once(eager_context());
  return constant(etude::internal::run(op_, OperandList(operands), with));
}

std::vector<Term> Call::splice(const Graph& graph, const std::vector<Term>& inputs) {
  std::vector<Value> names;
  for (const Term& input : inputs) names.push_back(input.name);
  std::vector<Term> out;
  const Types types = graph.output_types();
  const std::vector<Value> results = emit_graph(writing_, to_, graph, names);
  for (std::size_t i = 0; i < results.size(); ++i) {
    out.push_back({this, results[i], types[i]->dtype()});
  }
  return out;
}

Attribute Call::body(std::string_view name, std::vector<Port> inputs,
                     const std::vector<Port>& outputs, MakeBody make) {
  auto graph = std::make_shared<GraphModel>();
  graph->name = fresh(name);
  graph->inputs = std::move(inputs);
  Call inside(writing_, *graph, op_, attrs, types_, results_, line_);
  const std::vector<Term> results = make(inside);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Term out = inside.node("Identity", {results[i]});  // results have names of their own
    graph->outputs.push_back(outputs[i]);
    graph->outputs.back().name = out.name;
  }
  return {std::string(name), std::move(graph)};
}

namespace {

Term binary(std::string_view op, const Term& a, const Term& b) { return a.call->node(op, {a, b}); }
Term compare(std::string_view op, const Term& a, const Term& b) {
  return a.call->node_of(kBool, op, {a, b});
}

}  // namespace

Term operator+(const Term& a, const Term& b) { return binary("Add", a, b); }
Term operator-(const Term& a, const Term& b) { return binary("Sub", a, b); }
Term operator*(const Term& a, const Term& b) { return binary("Mul", a, b); }
Term operator/(const Term& a, const Term& b) { return binary("Div", a, b); }
Term operator+(const Term& a, double b) { return a + a.call->number(b, a.dtype); }
Term operator-(const Term& a, double b) { return a - a.call->number(b, a.dtype); }
Term operator*(const Term& a, double b) { return a * a.call->number(b, a.dtype); }
Term operator/(const Term& a, double b) { return a / a.call->number(b, a.dtype); }
Term operator-(double a, const Term& b) { return b.call->number(a, b.dtype) - b; }
Term operator<(const Term& a, const Term& b) { return compare("Less", a, b); }
Term operator<(const Term& a, double b) { return a < a.call->number(b, a.dtype); }
Term operator>(const Term& a, double b) {
  return compare("Greater", a, a.call->number(b, a.dtype));
}
Term operator==(const Term& a, const Term& b) { return compare("Equal", a, b); }
Term operator==(const Term& a, double b) { return a == a.call->number(b, a.dtype); }
Term both(const Term& a, const Term& b) { return binary("And", a, b); }
Term either(const Term& a, const Term& b) { return binary("Or", a, b); }
Term inverse(const Term& a) { return apply("Not", a); }
Term where(const Term& condition, const Term& a, const Term& b) {
  return a.call->node_of(a.dtype, "Where", {condition, a, b});
}
Term apply(std::string_view op, const Term& x) { return x.call->node(op, {x}); }

}  // namespace etude::onnx::internal
