// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/sizes.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/onnx/write.h"

namespace etude::onnx::internal {
namespace {

using etude::internal::SizeFormula;
using etude::internal::SizePoints;
using saved::internal::OpenSize;
using Graphs = std::vector<GraphModel*>;

constexpr int64_t kMostElements = 4096;  // of a constant that differs

template <class T>
std::vector<T> numbers_of(const Tensor& x, DType dtype) {
  std::vector<T> out(static_cast<std::size_t>(x.size()));
  etude::internal::convert_elements(out.data(), dtype, etude::internal::host_elements(x), x.dtype(),
                                    x.size());
  return out;
}

class SizedModel {
 public:
  SizedModel(Writing& writing, const SizePoints& points, const std::vector<OpenSize>& sizes)
      : writing_(writing), points_(points), sizes_(sizes), values_(sizes.size()) {
    for (const OpenSize& size : sizes) names_.push_back(size.name);
  }

  // Makes the first graph the graph for all sizes.
  void merge(const Graphs& graphs) {
    GraphModel& to = *graphs[0];
    for (const GraphModel* graph : graphs) {
      require(graph->nodes.size() == to.nodes.size() &&
                  graph->constants.size() == to.constants.size() &&
                  graph->outputs.size() == to.outputs.size(),
              "the calls of the function", "");
    }
    for (std::size_t i = 0; i < to.nodes.size(); ++i) merge_node(graphs, i);
    merge_constants(graphs);
    for (std::size_t i = 0; i < to.inputs.size(); ++i) {
      merge_port(graphs, [i](GraphModel& g) -> Port& { return g.inputs[i]; });
    }
    for (std::size_t i = 0; i < to.outputs.size(); ++i) {
      merge_port(graphs, [i](GraphModel& g) -> Port& { return g.outputs[i]; });
    }
  }

  // The nodes and constants that compute numbers from sizes.
  void add_computed(GraphModel& to) {
    to.nodes.insert(to.nodes.begin(), std::make_move_iterator(nodes_.begin()),
                    std::make_move_iterator(nodes_.end()));
    to.constants.insert(to.constants.end(), std::make_move_iterator(constants_.begin()),
                        std::make_move_iterator(constants_.end()));
  }

 private:
  void require(bool holds, std::string_view what, std::string_view line) const {
    ETUDE_REQUIRE_CODE(kUnimplemented, holds,
                       "{} depend{} on the sizes {} in a way that ONNX has no form for{}{}. Set "
                       "SaveOptions::open_sizes to false: the model then has the sizes of one call",
                       what, what.starts_with("the calls") ? "" : "s", fmt::join(names_, ", "),
                       line.empty() ? "" : ", at ", line);
  }

  void merge_node(const Graphs& graphs, std::size_t i) {
    Node& to = graphs[0]->nodes[i];
    for (GraphModel* graph : graphs) {
      const Node& node = graph->nodes[i];
      require(node.op == to.op && node.inputs == to.inputs && node.outputs == to.outputs &&
                  node.attributes.size() == to.attributes.size(),
              "the calls of the function", to.doc);
      require((node.formula == nullptr) == (to.formula == nullptr), "the calls of the function",
              to.doc);
      for (std::size_t a = 0; a < to.attributes.size(); ++a) {
        const auto &mine = to.attributes[a].value, &other = node.attributes[a].value;
        const bool is_graph = std::holds_alternative<std::shared_ptr<GraphModel>>(mine);
        require(is_graph || mine == other,
                fmt::format("attribute '{}' of a {}", to.attributes[a].name, to.op), to.doc);
      }
    }
    const std::size_t inner = graphs_of(to).size();
    for (std::size_t k = 0; k < inner; ++k) {
      Graphs bodies;
      for (GraphModel* graph : graphs) bodies.push_back(graphs_of(graph->nodes[i])[k]);
      merge(bodies);
    }
    if (to.formula == nullptr) return;
    Graphs formulas;
    for (GraphModel* graph : graphs) {
      Formula& formula = *graph->nodes[i].formula;
      formulas.push_back(&formula.nodes);
      if (formula.text != to.formula->text) to.formula->text.clear();
    }
    merge(formulas);
  }

  template <class PortOf>
  void merge_port(const Graphs& graphs, PortOf&& port_of) {
    Port& to = port_of(*graphs[0]);
    for (std::size_t axis = 0; axis < to.axes.size(); ++axis) {
      std::vector<int64_t> seen;
      for (GraphModel* graph : graphs) seen.push_back(port_of(*graph).axes[axis].size);
      if (all_equal(seen)) continue;
      const auto formulas = etude::internal::explain_sizes(seen, points_).formulas;
      to.axes[axis].name =
          formulas.empty() ? writing_.fresh("size") : formulas.front().to_string(names_);
    }
  }

  static bool all_equal(const std::vector<int64_t>& values) {
    return std::ranges::all_of(values, [&](int64_t v) { return v == values[0]; });
  }

  void merge_constants(const Graphs& graphs) {
    std::vector<Constant> kept;
    for (std::size_t i = 0; i < graphs[0]->constants.size(); ++i) {
      Constant& mine = graphs[0]->constants[i];
      const bool differs = std::ranges::any_of(
          graphs, [&](GraphModel* g) { return !is_same(mine.value, g->constants[i].value); });
      std::vector<Tensor> seen;
      if (differs) {
        for (GraphModel* graph : graphs) seen.push_back(graph->constants[i].value);
      }
      if (!differs || has_free_size(*graphs[0], mine, seen)) {
        kept.push_back(std::move(mine));
      } else {
        compute(*graphs[0], mine.name, seen);
      }
    }
    graphs[0]->constants = std::move(kept);
  }

  static const Node* reader(const GraphModel& graph, const Value& value) {
    for (const Node& node : graph.nodes) {
      if (std::ranges::find(node.inputs, value) != node.inputs.end()) return &node;
    }
    return nullptr;
  }

  // A shape of a Reshape with one size that varies: ONNX works it out, written as -1.
  bool has_free_size(const GraphModel& graph, Constant& constant, const std::vector<Tensor>& seen) {
    const Node* node = reader(graph, constant.name);
    if (node == nullptr || node->op != "Reshape" || node->inputs[1] != constant.name) return false;
    std::vector<int64_t> sizes = numbers_of<int64_t>(seen[0], kInt64);
    std::vector<std::size_t> open;
    for (std::size_t e = 0; e < sizes.size(); ++e) {
      const bool is_open = std::ranges::any_of(
          seen, [&](const Tensor& x) { return numbers_of<int64_t>(x, kInt64)[e] != sizes[e]; });
      if (is_open) open.push_back(e);
      if (!is_open && sizes[e] <= 0) return false;
    }
    if (open.size() != 1) return false;
    sizes[open[0]] = -1;
    constant.value = int_constant(sizes);
    return true;
  }

  static Tensor int_constant(const std::vector<int64_t>& values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    Tensor out = etude::internal::make_tensor(intern_type(kInt64, shape));
    etude::internal::convert_elements(etude::internal::host_elements_for_writing(out), kInt64,
                                      values.data(), kInt64, shape[0]);
    return out;
  }
  static Tensor real_constant(double value) {
    Tensor out = etude::internal::make_tensor(intern_type(kFloat64, Shape{1}));
    etude::internal::convert_elements(etude::internal::host_elements_for_writing(out), kFloat64,
                                      &value, kFloat64, 1);
    return out;
  }

  Value constant(Tensor value) {
    constants_.push_back({writing_.fresh("number"), std::move(value)});
    return constants_.back().name;
  }
  Value ints(const std::vector<int64_t>& values) { return constant(int_constant(values)); }
  Value node(const char* op, std::vector<Value> inputs, std::vector<Attribute> attributes = {},
             Value output = "") {
    Node made{op, writing_.fresh(op), "", std::move(inputs), {}, std::move(attributes)};
    made.outputs = {output.empty() ? made.name : std::move(output)};
    nodes_.push_back(std::move(made));
    return nodes_.back().outputs[0];
  }

  // One element: the size of an input.
  const Value& size_value(std::size_t i) {
    if (values_[i].empty()) {
      const int64_t axis = sizes_[i].axis;
      values_[i] = node("Shape", {sizes_[i].input}, {{"start", axis}, {"end", axis + 1}});
    }
    return values_[i];
  }
  Value product_value(const etude::internal::SizeProduct& product) {
    Value out;
    for (std::size_t i = 0; i < product.powers.size(); ++i) {
      for (int p = 0; p < product.powers[i]; ++p) {
        out = out.empty() ? size_value(i) : node("Mul", {out, size_value(i)});
      }
    }
    return out.empty() ? ints({1}) : out;
  }
  Value formula_value(const SizeFormula& formula) {
    Value out = product_value(formula.product);
    if (formula.factor != 1) out = node("Mul", {out, ints({formula.factor})});
    if (formula.offset != 0) out = node("Add", {out, ints({formula.offset})});
    if (formula.divisor != 1) out = node("Div", {out, ints({formula.divisor})});
    return out;
  }
  Value formula_value(const etude::internal::RealFormula& formula) {
    const auto real = [&](const Value& x) {
      return node("Cast", {x}, {{"to", type_number(kFloat64)}});
    };
    Value over = real(product_value(formula.over)), under = real(product_value(formula.under));
    if (formula.shift != 0) {
      under = node("Add", {under, constant(real_constant(static_cast<double>(formula.shift)))});
    }
    const double factor =
        static_cast<double>(formula.numerator) / static_cast<double>(formula.denominator);
    if (factor != 1) over = node("Mul", {over, constant(real_constant(factor))});
    return node("Div", {over, under});
  }

  // The value of element e: "" if no formula explains it.
  Value element(const std::vector<Tensor>& seen, std::size_t e) {
    const DType dtype = seen[0].dtype();
    if (is_integer(dtype)) {
      std::vector<int64_t> numbers;
      for (const Tensor& x : seen) numbers.push_back(numbers_of<int64_t>(x, kInt64)[e]);
      if (all_equal(numbers)) return ints({numbers[0]});
      const auto found = etude::internal::explain_sizes(numbers, points_).formulas;
      return found.empty() ? "" : formula_value(found.front());
    }
    std::vector<double> numbers;
    for (const Tensor& x : seen) numbers.push_back(numbers_of<double>(x, kFloat64)[e]);
    const bool is_equal = std::ranges::all_of(numbers, [&](double x) { return x == numbers[0]; });
    if (is_equal) return constant(real_constant(numbers[0]));
    const auto found = etude::internal::explain_reals(numbers, dtype, points_).formulas;
    return found.empty() ? "" : formula_value(found.front());
  }

  // Nodes that compute a constant, under its name.
  void compute(const GraphModel& graph, const Value& name, const std::vector<Tensor>& seen) {
    const Node* const user = reader(graph, name);
    const std::string what = fmt::format("an operand of a {}", user == nullptr ? "call" : user->op);
    const std::string line = user == nullptr ? "" : user->doc;
    const Type* const type = seen[0].type();
    for (const Tensor& x : seen) require(x.type() == type, what, line);
    require(type->count() <= kMostElements &&
                (is_integer(type->dtype()) || kFloating.contains(type->dtype())),
            what, line);
    std::vector<Value> elements;
    for (std::size_t e = 0; e < static_cast<std::size_t>(type->count()); ++e) {
      elements.push_back(element(seen, e));
      require(!elements.back().empty(), what, line);
    }
    Value out =
        elements.size() == 1 ? elements[0] : node("Concat", elements, {{"axis", int64_t{0}}});
    const DType from = is_integer(type->dtype()) ? kInt64 : kFloat64;
    if (type->dtype() != from) out = node("Cast", {out}, {{"to", type_number(type->dtype())}});
    node("Reshape", {out, ints(type->shape().to_vector())}, {}, name);
  }

  Writing& writing_;
  const SizePoints& points_;
  const std::vector<OpenSize>& sizes_;
  std::vector<std::string> names_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Constant> constants_;
};

}  // namespace

GraphModel with_open_sizes(Writing& writing, std::vector<GraphModel> models,
                           const SizePoints& points, const std::vector<OpenSize>& sizes) {
  Graphs graphs;
  for (GraphModel& model : models) graphs.push_back(&model);
  SizedModel sized(writing, points, sizes);
  sized.merge(graphs);
  sized.add_computed(models[0]);
  return std::move(models[0]);
}

}  // namespace etude::onnx::internal
