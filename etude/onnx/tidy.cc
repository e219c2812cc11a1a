// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/tidy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "etude/core/call/run.h"
#include "etude/core/internal/host_door.h"
#include "etude/onnx/formula.h"
#include "etude/ops.h"

namespace etude::onnx::internal {
namespace {

using Axes = std::vector<int64_t>;
using Metadata = std::pair<std::string, std::string>;
using Names = std::unordered_map<Value, Value>;

// Operators that compute element by element, from operands that broadcast.
bool is_elementwise(std::string_view op) {
  static constexpr std::string_view kAll[] = {
      "Abs",        "Add",         "Cast",     "Ceil",      "Celu",    "Clip",
      "Div",        "Elu",         "Erf",      "Exp",       "Floor",   "Gelu",
      "HardSwish",  "HardSigmoid", "Identity", "LeakyRelu", "Log",     "Max",
      "Min",        "Mish",        "Mul",      "Neg",       "PRelu",   "Pow",
      "Reciprocal", "Relu",        "Round",    "Selu",      "Sigmoid", "Sign",
      "Softplus",   "Softsign",    "Sqrt",     "Sub",       "Tanh",    "ThresholdedRelu"};
  return std::ranges::find(kAll, op) != std::end(kAll);
}

// How a node depends on the order of the axes of its operands.
enum class Layout : uint8_t {
  kFixed,
  kElements,  // not at all: all operands have the same axes
  kJoined,    // it joins its operands along an axis
  kAxes,      // it names axes of its first operand
};
Layout layout_of(const Node& node) {
  if (node.formula != nullptr) {
    return node.formula->is_elementwise ? Layout::kElements : Layout::kFixed;
  }
  const std::string& op = node.op;
  static constexpr std::string_view kWithAxes[] = {"Pad",        "Slice",     "ReduceMean",
                                                   "ReduceSum",  "ReduceMax", "ReduceMin",
                                                   "ReduceProd", "ReduceL2"};
  if (op == "Concat") return Layout::kJoined;
  if (std::ranges::find(kWithAxes, op) != std::end(kWithAxes)) return Layout::kAxes;
  return is_elementwise(op) ? Layout::kElements : Layout::kFixed;
}

// The inputs of the nodes of a formula that are values of the graph around it, such as a size.
template <class F>
void for_outer_inputs(Formula& formula, F f) {
  const std::vector<Port>& own = formula.nodes.inputs;
  for (Node& node : formula.nodes.nodes) {
    for (Value& input : node.inputs) {
      if (std::ranges::find(own, input, &Port::name) == own.end()) f(input);
    }
  }
}

void rename(GraphModel& graph, const Names& names) {
  const auto apply = [&](Value& value) {
    for (auto found = names.find(value); found != names.end(); found = names.find(value)) {
      value = found->second;
    }
  };
  for (Node& node : graph.nodes) {
    for (Value& input : node.inputs) apply(input);
    for (Value& output : node.outputs) apply(output);
    if (node.formula != nullptr) for_outer_inputs(*node.formula, apply);
    for (GraphModel* inner : graphs_of(node)) {
      rename(*inner, names);
      for (Port& port : inner->outputs) apply(port.name);
    }
  }
}

// The number of readers of each value, inner graphs included.
void count_reads(GraphModel& graph, std::unordered_map<Value, int>& reads) {
  for (Node& node : graph.nodes) {
    const auto count = [&](const Value& input) { ++reads[input]; };
    std::ranges::for_each(node.inputs, count);
    if (node.formula != nullptr) for_outer_inputs(*node.formula, count);
    for (GraphModel* inner : graphs_of(node)) count_reads(*inner, reads);
  }
  for (const Port& port : graph.outputs) ++reads[port.name];
}

class Tidier {
 public:
  explicit Tidier(GraphModel& graph) : graph_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) {
      for (GraphModel* inner : graphs_of(node)) tidy(*inner);
    }
    drop_identities();
    drop_unread();
    fold_constants();
    compute_constants();
    while (move_transposes()) {
    }
    drop_identities();
    drop_unread();
    fold_constants();
    drop_unread();
    drop_unread_results();
  }

 private:
  bool is_output(const Value& value) const {
    return std::ranges::find(graph_.outputs, value, &Port::name) != graph_.outputs.end();
  }
  void number_makers() {
    makers_.clear();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const Value& output : graph_.nodes[i].outputs) makers_[output] = i;
    }
  }
  const Node* maker(const Value& value) const {
    const auto found = makers_.find(value);
    return found == makers_.end() ? nullptr : &graph_.nodes[found->second];
  }

  // The result of an Identity is its operand. If it is an output of the graph, the operand gets
  // the name of the output.
  void drop_identities() {
    number_makers();
    Names names;
    std::unordered_set<Value> renamed;
    std::vector<Node> kept;
    for (Node& node : graph_.nodes) {
      if (node.op != "Identity") {
        kept.push_back(std::move(node));
        continue;
      }
      Value from = node.inputs[0];
      const Value& to = node.outputs[0];
      for (auto at = names.find(from); at != names.end(); at = names.find(from)) from = at->second;
      if (!is_output(to)) {
        names[to] = from;
      } else if (makers_.contains(from) && !is_output(from) && renamed.insert(from).second) {
        names[from] = to;
      } else {
        kept.push_back(std::move(node));
      }
    }
    graph_.nodes = std::move(kept);
    if (!names.empty()) rename(graph_, names);
  }

  void drop_unread() {
    for (bool changes = true; changes;) {
      std::unordered_map<Value, int> reads;
      count_reads(graph_, reads);
      const auto unread = [&](const Node& node) {
        return std::ranges::none_of(node.outputs, [&](const Value& v) { return reads[v] > 0; });
      };
      changes = std::erase_if(graph_.nodes, unread) > 0;
      std::erase_if(graph_.constants, [&](const Constant& c) { return reads[c.name] == 0; });
    }
  }

  // A formula has no nodes for results that nothing reads.
  void drop_unread_results() {
    std::unordered_map<Value, int> reads;
    count_reads(graph_, reads);
    for (Node& node : graph_.nodes) {
      for (Value& output : node.outputs) {
        if (node.formula != nullptr && reads[output] == 0) output.clear();
      }
    }
  }

  static const Axes& perm_of(const Node& node) { return std::get<Axes>(node.attributes[0].value); }
  // The transpose that made a value; null for any other value.
  const Node* transpose_of(const Value& value) const {
    const Node* const made = maker(value);
    return made != nullptr && made->op == "Transpose" ? made : nullptr;
  }
  bool is_scalar(const Value& value) const {
    const auto found = std::ranges::find(graph_.constants, value, &Constant::name);
    return found != graph_.constants.end() && found->value.rank() == 0;
  }

  const Constant* constant(const Value& value) const {
    const auto found = std::ranges::find(graph_.constants, value, &Constant::name);
    return found == graph_.constants.end() ? nullptr : &*found;
  }
  // A constant that varies along its last axis alone, such as a number for each channel.
  bool is_vector(const Value& value) const {
    const Constant* const found = constant(value);
    if (found == nullptr || found->value.rank() == 0) return false;
    return found->value.shape()[found->value.rank() - 1] == found->value.size();
  }
  // The vector along the axis that `perm` makes the last axis. A vector with one reader keeps its
  // name.
  Value along_axis(const Value& vector, const Axes& perm, const Value& output) {
    const Tensor x = constant(vector)->value;
    Axes sizes(perm.size() - static_cast<std::size_t>(perm.back()), 1);
    sizes[0] = x.size();
    const Tensor moved = to_dense(reshape(x, sizes));
    std::unordered_map<Value, int> reads;
    count_reads(graph_, reads);
    if (reads[vector] == 1) {
      std::ranges::find(graph_.constants, vector, &Constant::name)->value = moved;
      return vector;
    }
    const Value name = output + "_" + vector;
    if (constant(name) == nullptr) graph_.constants.push_back({name, moved});
    return name;
  }

  // Arithmetic on small constants, such as the numbers of a normalisation.
  void compute_constants() {
    std::erase_if(graph_.nodes, [&](const Node& node) {
      const Tensor made = is_output(node.outputs[0]) ? Tensor() : computed(node);
      if (made.has_value()) graph_.constants.push_back({node.outputs[0], to_dense(made)});
      return made.has_value();
    });
  }

  // The result of a node on constants; absent for other nodes.
  Tensor computed(const Node& node) const {
    static constexpr std::string_view kArithmetic[] = {"Sqrt", "Reciprocal", "Add",
                                                       "Sub",  "Mul",        "Div"};
    constexpr int64_t kMostBytes = 1 << 16;
    const bool is_call = node.formula != nullptr && node.formula->is_elementwise;
    if (!is_call && std::ranges::find(kArithmetic, node.op) == std::end(kArithmetic)) return {};
    std::vector<Tensor> in;
    int64_t bytes = 0;
    for (const Value& input : node.inputs) {
      const Constant* const found = constant(input);
      if (found == nullptr || !kFloating.contains(found->value.dtype())) return {};
      in.push_back(found->value);
      bytes += found->value.type()->bytes();
    }
    if (bytes > kMostBytes) return {};
    if (is_call) {
      const Graph::Node call = node.formula->call->node(0);
      return etude::internal::run(call.op, OperandList(in), call.attrs);
    }
    return node.op == "Sqrt"         ? sqrt(in[0])
           : node.op == "Reciprocal" ? reciprocal(in[0])
           : node.op == "Add"        ? in[0] + in[1]
           : node.op == "Sub"        ? in[0] - in[1]
           : node.op == "Mul"        ? in[0] * in[1]
                                     : in[0] / in[1];
  }

  // One change; false if there is none left.
  bool move_transposes() {
    number_makers();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].op == "Transpose") {
        if (join(graph_.nodes[i])) return true;
      } else if (sink(i)) {
        return true;
      }
    }
    return false;
  }

  // Joins two transposes in a row, and removes a transpose that changes nothing.
  bool join(Node& node) {
    const Node* const before = transpose_of(node.inputs[0]);
    Axes both = perm_of(node);
    if (before != nullptr) {
      for (int64_t& axis : both) axis = perm_of(*before)[static_cast<std::size_t>(axis)];
      node.inputs[0] = before->inputs[0];
    }
    if (std::ranges::is_sorted(both)) {
      node.op = "Identity";
      node.attributes.clear();
      drop_identities();
      return true;
    }
    node.attributes[0].value = both;
    return before != nullptr;
  }

  // Moves a transpose from the operands of a node to its result, if a later node transposes again,
  // so that the two may be joined. The node then works on axes in the order before the transpose.
  bool sink(std::size_t i) {
    const Node& node = graph_.nodes[i];
    const Layout layout = layout_of(node);
    if (layout == Layout::kFixed) return false;
    if (!node.op.starts_with("Reduce") && !meets_transpose(node.outputs[0])) return false;
    const Axes* perm = nullptr;
    const std::size_t data = layout == Layout::kAxes ? 1 : node.inputs.size();
    for (std::size_t k = 0; k < data; ++k) {
      if (layout == Layout::kElements && is_scalar(node.inputs[k])) continue;
      if (layout == Layout::kElements && is_vector(node.inputs[k])) continue;
      const Node* const made = transpose_of(node.inputs[k]);
      if (made == nullptr || (perm != nullptr && *perm != perm_of(*made))) return false;
      perm = &perm_of(*made);
    }
    if (perm == nullptr) return false;
    Node moved = node;
    Axes result = *perm;
    if (layout != Layout::kElements && !number_axes(moved, result)) return false;
    Node after{"Transpose",       node.outputs[0] + "_transpose", node.doc, {}, node.outputs,
               {{"perm", result}}};
    for (std::size_t k = 0; k < data; ++k) {
      if (const Node* const made = transpose_of(moved.inputs[k])) {
        moved.inputs[k] = made->inputs[0];
      } else if (is_vector(moved.inputs[k])) {
        moved.inputs[k] = along_axis(moved.inputs[k], result, node.outputs[0]);
      }
    }
    if (node.op.starts_with("Reduce")) keep_order(moved, *perm);
    moved.outputs[0] = node.outputs[0] + "_inner";
    after.inputs = moved.outputs;
    graph_.nodes[i] = std::move(moved);
    graph_.nodes.insert(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                        std::move(after));
    return true;
  }

  // The constant operand i of a node as integers; none if it is computed.
  std::optional<Axes> ints_of(const Node& node, std::size_t i) const {
    if (i >= node.inputs.size()) return std::nullopt;
    const auto found = std::ranges::find(graph_.constants, node.inputs[i], &Constant::name);
    if (found == graph_.constants.end()) return std::nullopt;
    return found->value.to_vector<int64_t>();
  }
  void set_ints(Node& node, std::size_t i, const Axes& values) {
    const Value name = node.outputs[0] + "_" + std::to_string(i);
    graph_.constants.push_back({name, Tensor(values)});
    node.inputs[i] = name;
  }

  // States the order of axes in which a reduction was called, as sums depend on it. onnx::load()
  // adds up in this order. `perm` is the transpose that the reduction no longer reads.
  static void keep_order(Node& node, const Axes& perm) {
    Axes order = perm;
    const auto known = std::ranges::find(node.metadata, kOrderKey, &Metadata::first);
    if (known != node.metadata.end()) {
      order = *parse_order(known->second);
      for (int64_t& axis : order) axis = perm[static_cast<std::size_t>(axis)];
      node.metadata.erase(known);
    }
    node.metadata.emplace_back(kOrderKey, order_text(order));
  }

  // Rewrites the numbers of axes in a node for an operand before the transpose `perm`. `perm`
  // becomes the transpose of the result. False if the node computes its axes.
  bool number_axes(Node& node, Axes& perm) {
    const auto before = [&](int64_t axis) { return perm[static_cast<std::size_t>(axis)]; };
    if (node.op == "Concat") {
      auto& axis = std::get<int64_t>(node.attributes[0].value);
      axis = before(axis);
      return true;
    }
    if (node.op == "Pad") {
      const std::optional<Axes> pads = ints_of(node, 1);
      if (!pads) return false;
      Axes moved(pads->size());
      for (std::size_t a = 0; a < perm.size(); ++a) {
        const auto at = static_cast<std::size_t>(before(static_cast<int64_t>(a)));
        moved[at] = (*pads)[a];
        moved[at + perm.size()] = (*pads)[a + perm.size()];
      }
      set_ints(node, 1, moved);
      return true;
    }
    const std::size_t operand = node.op == "Slice" ? 3 : 1;
    const auto attribute = std::ranges::find(node.attributes, "axes", &Attribute::name);
    const bool has_attribute = attribute != node.attributes.end();
    std::optional<Axes> axes =
        has_attribute ? std::get<Axes>(attribute->value) : ints_of(node, operand);
    if (!axes) return false;
    for (int64_t& axis : *axes)
      axis = before(axis < 0 ? axis + static_cast<int64_t>(perm.size()) : axis);
    if (has_attribute) {
      attribute->value = *axes;
    } else {
      set_ints(node, operand, *axes);
    }
    const auto keeps = std::ranges::find(node.attributes, "keepdims", &Attribute::name);
    if (keeps == node.attributes.end() || std::get<int64_t>(keeps->value) != 0) return true;
    Axes left;  // axes before the transpose, in the order of the result
    for (const int64_t axis : perm) {
      if (std::ranges::find(*axes, axis) == axes->end()) left.push_back(axis);
    }
    perm.clear();
    for (const int64_t axis : left) {
      perm.push_back(std::ranges::count_if(left, [&](int64_t other) { return other < axis; }));
    }
    return true;
  }

  // Whether a reader of the value, through element-wise nodes, is a transpose.
  bool meets_transpose(const Value& value) const {
    std::vector<Value> left = {value};
    std::unordered_set<Value> seen;
    while (!left.empty()) {
      const Value at = left.back();
      left.pop_back();
      if (!seen.insert(at).second) continue;
      for (const Node& node : graph_.nodes) {
        if (std::ranges::find(node.inputs, at) == node.inputs.end()) continue;
        if (node.op == "Transpose") return true;
        const Layout layout = layout_of(node);
        if (node.op.starts_with("Reduce")) return true;  // fewer axes are left to transpose
        if (layout != Layout::kFixed) left.push_back(node.outputs[0]);
      }
    }
    return false;
  }

  // Transposes and new shapes of constants that nothing else reads.
  void fold_constants() {
    std::unordered_map<Value, int> reads;
    count_reads(graph_, reads);
    std::unordered_map<Value, std::size_t> constants;
    for (std::size_t i = 0; i < graph_.constants.size(); ++i) {
      constants[graph_.constants[i].name] = i;
    }
    Names names;
    std::erase_if(graph_.nodes, [&](const Node& node) {
      if (node.op != "Transpose" && node.op != "Reshape") return false;
      Value from = node.inputs[0];
      if (const auto known = names.find(from); known != names.end()) from = known->second;
      const auto found = constants.find(from);
      if (found == constants.end() || reads[from] != 1 || is_output(node.outputs[0])) return false;
      Tensor& x = graph_.constants[found->second].value;
      if (node.op == "Transpose") {
        x = permute_dims(x, perm_of(node));
      } else {
        const auto shape = constants.find(node.inputs[1]);
        if (shape == constants.end()) return false;
        x = reshape(x, graph_.constants[shape->second].value.to_vector<int64_t>());
      }
      x = to_dense(etude::internal::at_home(x));
      reads[from] = reads[node.outputs[0]];
      names[node.outputs[0]] = from;
      return true;
    });
    if (!names.empty()) rename(graph_, names);
  }

  GraphModel& graph_;
  std::unordered_map<Value, std::size_t> makers_;
};

}  // namespace

void tidy(GraphModel& graph) { Tidier(graph).run(); }

}  // namespace etude::onnx::internal
