// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/recognise.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/core/op/registry.h"
#include "etude/onnx/formula.h"
#include "etude/onnx/pattern.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/lower.h"

namespace etude::onnx::internal {
namespace {

using Ints = std::vector<int64_t>;

// A call of a composition that a group may be.
struct Candidate {
  std::string_view op;
  std::vector<GraphValue> operands;
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
};
using Candidates = std::vector<Candidate>;

// The facts that a row reads.
struct Seen {
  const Graph& graph;
  const PatternMatch& match;
  GraphValue result;

  GraphValue value(std::string_view name) const { return match.value(name); }
  const Shape& shape(GraphValue v) const { return graph.type(v)->shape(); }
  const Shape& shape(std::string_view name) const { return shape(value(name)); }
};

// The axes of x other than the first with as many indices as a vector, from the last on.
Ints axes_of_vector(const Seen& seen, std::string_view vector) {
  const Shape &x = seen.shape("x"), &of = seen.shape(vector);
  Ints out;
  for (int axis = x.rank() - 1; axis >= 1; --axis) {
    if (of.rank() == 1 && of[0] == x[axis]) out.push_back(axis);
  }
  return out;
}

Candidates batch_norms(const Seen& seen) {
  Candidates out;
  // The calls round to bfloat16 one by one; the operator would compute in float32.
  if (seen.graph.type(seen.result)->dtype() == kBFloat16) return out;
  for (const int64_t axis : axes_of_vector(seen, "mean")) {
    out.push_back({"nn.batch_normalize",
                   {seen.value("x"), seen.value("mean"), seen.value("var"), seen.value("offset"),
                    seen.value("scale")},
                   {{"axis", axis}, {"epsilon", seen.match.number("$epsilon")}}});
  }
  return out;
}

// Over the least number of trailing axes whose sizes multiply to the length of the rows.
Candidates layer_norms(const Seen& seen) {
  const Graph::Node rows = seen.match.call(seen.graph, "internal.standardize");
  if (rows.attrs.flag("columns")) return {};
  const Shape& x = seen.shape("x");
  const int64_t length = seen.shape(rows.operands[0])[1];
  Ints axes;
  int64_t count = 1;
  for (int axis = x.rank() - 1; axis >= 0 && (axes.empty() || count < length); --axis) {
    axes.insert(axes.begin(), axis);
    count *= x[axis];
  }
  return {{"nn.layer_normalize",
           {seen.value("x"), seen.value("scale"), seen.value("offset")},
           {{"axes", axes}, {"epsilon", rows.attrs.real("epsilon")}}}};
}

// The normalisation of groups, or of each feature, on an axis.
Candidate group_norm(const Seen& seen, int64_t groups, int64_t axis, double epsilon) {
  Candidate out{"nn.instance_normalize",
                {seen.value("x"), seen.value("scale"), seen.value("offset")},
                {{"axis", axis}, {"epsilon", epsilon}}};
  if (groups != seen.shape("x")[static_cast<int>(axis)]) {
    out.op = "nn.group_normalize";
    out.attrs.emplace_back("groups", groups);
  }
  return out;
}
Candidates last_axis_groups(const Seen& seen) {
  const Attrs& attrs = seen.match.call(seen.graph, "internal.standardize_groups").attrs;
  const int64_t axis = seen.shape("x").rank() - 1;
  return {group_norm(seen, attrs.integer("groups"), axis, attrs.real("epsilon"))};
}
// Groups of features on another axis than the last are rows.
Candidates other_axis_groups(const Seen& seen) {
  const Graph::Node rows = seen.match.call(seen.graph, "internal.standardize");
  const int64_t examples = seen.shape("x").rank() > 0 ? seen.shape("x")[0] : 0;
  if (rows.attrs.flag("columns") || examples == 0) return {};
  const int64_t groups = seen.shape(rows.operands[0])[0] / examples;
  Candidates out;
  for (const int64_t axis : axes_of_vector(seen, "scale")) {
    if (groups < 1 || seen.shape("x")[static_cast<int>(axis)] % groups != 0) continue;
    out.push_back(group_norm(seen, groups, axis, rows.attrs.real("epsilon")));
  }
  return out;
}

// The reduced axes are the last ones of the operand, perhaps after a transpose, as one axis.
Candidates log_sums(const Seen& seen, const Ints* order) {
  const Graph::Node rows = seen.match.call(seen.graph, "internal.logsumexp_rows");
  const int rank = seen.shape("x").rank(), kept = seen.shape(rows.operands[0]).rank() - 1;
  Ints axes;
  for (int i = kept; i < rank; ++i) {
    axes.push_back(order == nullptr ? i
                                    : axis_from_front((*order)[static_cast<std::size_t>(i)], rank));
  }
  std::ranges::sort(axes);
  const bool keeps_axes = seen.shape(seen.result).rank() == rank;
  return {{"logsumexp", {seen.value("x")}, {{"axis", axes}, {"keepdims", keeps_axes}}}};
}
Candidates last_axes_log_sums(const Seen& seen) { return log_sums(seen, nullptr); }
Candidates other_axes_log_sums(const Seen& seen) {
  const Attrs& attrs = seen.match.call(seen.graph, "permute_dims").attrs;
  return log_sums(seen, &attrs.ints("axes"));
}

// A composition: patterns of its lowering, and the calls that a match may be.
struct CompositionRow {
  std::string_view pattern;
  Candidates (*candidates)(const Seen&);
};
constexpr CompositionRow kCompositions[] = {
    {"add(multiply(subtract(x, reshape(mean)), multiply(rsqrt(add(reshape(var), $epsilon)), "
     "reshape(scale))), reshape(offset))",
     batch_norms},
    {"reshape(internal.standardize(reshape(x), reshape?(reshape?(scale?)), "
     "reshape?(reshape?(offset?))))",
     layer_norms},
    {"internal.standardize(x, reshape?(reshape?(scale?)), reshape?(reshape?(offset?)))",
     layer_norms},
    {"reshape(internal.standardize_groups(reshape(x), scale?, offset?))", last_axis_groups},
    {"internal.standardize_groups(x, scale?, offset?)", last_axis_groups},
    {"add(multiply(reshape(internal.standardize(reshape(x), none?, none?)), reshape(scale)), "
     "reshape(offset))",
     other_axis_groups},
    {"reshape(internal.logsumexp_rows(reshape(permute_dims(x))))", other_axes_log_sums},
    {"reshape(internal.logsumexp_rows(permute_dims(x)))", other_axes_log_sums},
    {"internal.logsumexp_rows(reshape(permute_dims(x)))", other_axes_log_sums},
    {"internal.logsumexp_rows(permute_dims(x))", other_axes_log_sums},
    {"reshape(internal.logsumexp_rows(reshape(x)))", last_axes_log_sums},
    {"internal.logsumexp_rows(reshape(x))", last_axes_log_sums},
    {"reshape(internal.logsumexp_rows(x))", last_axes_log_sums},
};

// An operator: its operands are names of the pattern. An attribute is a number of the pattern, or
// another number.
struct OperatorRow {
  std::string_view op, pattern;
  std::vector<std::string_view> operands = {"x"};
  std::vector<std::pair<std::string_view, std::string_view>> attributes = {};
  DTypeSet dtypes = kHalfToDouble;
  bool (*fits)(const Seen&) = nullptr;
  int64_t opset = 0;
};

// The slope broadcasts to x, and not the other way.
bool has_fitting_slope(const Seen& seen) {
  const GraphValue slope = seen.value("slope");
  return seen.graph.type(slope)->dtype() == seen.graph.type(seen.value("x"))->dtype() &&
         seen.shape(slope).rank() <= seen.shape("x").rank();
}
bool has_alpha(const Seen& seen) { return seen.match.number("$alpha") != 0; }
// An import of this slope calls nn.hard_sigmoid, which divides by 6.
bool is_no_sixth(const Seen& seen) {
  return std::fabs(seen.match.number("$alpha") - 1.0 / 6.0) > 1e-6;
}

const std::vector<OperatorRow>& operator_rows() {
  constexpr DTypeSet kHalfToSingle = DTypeSet(kFloat16) | kFloat32;
  static const etude::internal::Permanent<std::vector<OperatorRow>> rows(std::vector<OperatorRow>{
      {"LeakyRelu", "where(greater(x, 0), x, multiply(x, $slope))", {"x"}, {{"alpha", "$slope"}}},
      {"PRelu",
       "where(greater(x, 0), x, multiply(x, slope))",
       {"x", "slope"},
       {},
       kHalfToDouble,
       has_fitting_slope},
      {"Elu", "where(greater(x, 0), x, multiply(expm1(x), $alpha))", {"x"}, {{"alpha", "$alpha"}}},
      {"Elu", "where(greater(x, 0), x, expm1(x))", {"x"}, {{"alpha", "1"}}},
      {"Celu",
       "where(greater(x, 0), x, multiply(expm1(divide(x, $alpha)), $alpha))",
       {"x"},
       {{"alpha", "$alpha"}},
       kHalfToSingle,
       has_alpha},
      {"ThresholdedRelu",
       "where(greater(x, $alpha), x, 0)",
       {"x"},
       {{"alpha", "$alpha"}},
       kHalfToSingle},
      {"ThresholdedRelu",
       "where(greater(x, $alpha), x, full(0))",
       {"x"},
       {{"alpha", "$alpha"}},
       kHalfToSingle},
      {"HardSwish", "multiply(x, nn.hard_sigmoid(x))"},
      {"HardSwish", "multiply(x, divide(nn.relu6(add(x, 3)), 6))"},
      {"HardSigmoid",
       "divide(nn.relu6(add(x, 3)), 6)",
       {"x"},
       {{"alpha", "0.16666666666666666"}, {"beta", "0.5"}}},
      {"HardSigmoid",
       "internal.clip_both(add(multiply(x, $alpha), $beta), 0, 1)",
       {"x"},
       {{"alpha", "$alpha"}, {"beta", "$beta"}},
       kHalfToDouble,
       is_no_sixth},
      {"Mish", "multiply(x, tanh(nn.softplus(x)))", {"x"}, {}, kHalfToDouble, nullptr, 18},
      {"Softsign", "divide(x, add(abs(x), 1))"},
      {"Clip", "minimum(maximum(x, $min), $max)", {"x", "$min", "$max"}},
      {"Relu", "maximum(x, 0)"}});
  return *rows;
}

struct Patterns {
  std::vector<PatternNode> compositions, operators;
  Patterns() {
    for (const CompositionRow& row : kCompositions) {
      compositions.push_back(parse_pattern(row.pattern));
    }
    for (const OperatorRow& row : operator_rows()) operators.push_back(parse_pattern(row.pattern));
  }
};

class Recogniser {
 public:
  Recogniser(const Graph& graph, int64_t opset)
      : graph_(graph), opset_(opset), index_(graph), is_taken_(graph.size()) {}

  // Larger groups end later, so they are found first.
  std::unordered_map<std::size_t, Group> run() {
    std::unordered_map<std::size_t, Group> out;
    for (std::size_t root = graph_.size(); root-- > 0;) {
      if (is_taken_[root]) continue;
      std::optional<Group> group = group_at(root);
      if (!group) continue;
      for (const std::size_t node : group->nodes) is_taken_[node] = true;
      out.emplace(root, std::move(*group));
    }
    return out;
  }

 private:
  std::optional<Group> group_at(std::size_t root) {
    static const etude::internal::Permanent<Patterns> patterns;
    const std::string op = graph_.node(root).op.full_name();
    for (std::size_t i = 0; i < std::size(kCompositions); ++i) {
      const PatternNode& pattern = patterns->compositions[i];
      if (pattern.name != op) continue;
      const std::optional<PatternMatch> found = match(index_, pattern, root);
      if (!found) continue;
      const Seen seen{graph_, *found, graph_.node(root).first_result};
      for (const Candidate& candidate : kCompositions[i].candidates(seen)) {
        if (std::optional<Group> group = composition(candidate, root)) return group;
      }
    }
    for (std::size_t i = 0; i < operator_rows().size(); ++i) {
      const PatternNode& pattern = patterns->operators[i];
      if (pattern.name != op) continue;
      const std::optional<PatternMatch> found = match(index_, pattern, root);
      if (!found) continue;
      if (std::optional<Group> group = found_operator(operator_rows()[i], *found)) return group;
    }
    return std::nullopt;
  }

  bool is_free(const std::vector<std::size_t>& nodes) const {
    const auto is_taken = [&](std::size_t node) { return is_taken_[node]; };
    return std::ranges::none_of(nodes, is_taken) && index_.are_private(nodes);
  }

  // The group is the lowering of the candidate, or there is none.
  std::optional<Group> composition(const Candidate& candidate, std::size_t root) const {
    Types types;
    std::vector<GraphValue> inputs;
    for (const GraphValue operand : candidate.operands) {
      types.push_back(operand == kNoValue ? nullptr : graph_.type(operand));
      if (operand != kNoValue) inputs.push_back(operand);
    }
    const std::span<const Type* const> given(types.data(), types.size());
    Group out{{}, &Registry::global().at(candidate.op), {}, candidate.operands, {}};
    out.attrs = out.composition->attrs_by_name(candidate.attrs);
    if (find_conversion(*out.composition, given, out.attrs, opset_) == nullptr) return std::nullopt;
    const GraphRef lowering = lowering_of(*out.composition, out.attrs, given);
    if (!lowering || !has_calls(index_, *lowering, inputs, root, out.nodes)) return std::nullopt;
    return is_free(out.nodes) ? std::optional(std::move(out)) : std::nullopt;
  }

  // Null if the op refuses the operands.
  static GraphRef lowering_of(const Op& op, const Attrs& attrs,
                              std::span<const Type* const> types) {
    try {
      return etude::internal::lower_compositions(*graph_of_call(op, attrs, types));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      return {};
    }
  }

  std::optional<Group> found_operator(const OperatorRow& row, const PatternMatch& found) const {
    const GraphValue result = graph_.node(found.nodes[0]).first_result;
    const Seen seen{graph_, found, result};
    const GraphValue x = seen.value("x");
    if (opset_ < row.opset || graph_.type(x) != graph_.type(result)) return std::nullopt;
    if (!row.dtypes.contains(graph_.type(x)->dtype()) || !is_free(found.nodes)) return std::nullopt;
    if (row.fits != nullptr && !row.fits(seen)) return std::nullopt;
    Group out{found.nodes, nullptr, {}, {}, {std::string(row.op), {}, {}}};
    for (const std::string_view name : row.operands) {
      const bool is_number = name[0] == '$';
      out.found.operands.push_back(
          {is_number ? kNoValue : found.value(name), is_number ? found.number(name) : 0.0});
    }
    for (const auto& [name, value] : row.attributes) {
      const double number = value[0] == '$' ? found.number(value) : std::stod(std::string(value));
      // Attributes are float32.
      const bool is_exact = decimal(static_cast<float>(number)) == number;
      if (value[0] == '$' && !is_exact) return std::nullopt;
      out.found.attributes.push_back({std::string(name), number});
    }
    return out;
  }

  const Graph& graph_;
  const int64_t opset_;
  const GraphIndex index_;
  std::vector<bool> is_taken_;
};

}  // namespace

std::unordered_map<std::size_t, Group> recognise(const Graph& graph, int64_t opset) {
  return Recogniser(graph, opset).run();
}

}  // namespace etude::onnx::internal
