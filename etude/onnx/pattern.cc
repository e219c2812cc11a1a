// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/pattern.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/op/op.h"
#include "etude/onnx/model.h"

namespace etude::onnx::internal {
namespace {

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  PatternNode all() {
    PatternNode out = node();
    ETUDE_CHECK(at_ == text_.size(), "the pattern '{}' has more text at {}", text_, at_);
    return out;
  }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    const std::size_t end = text_.find_first_of("(),? ", at_);
    const std::string_view out = text_.substr(at_, end == text_.npos ? end : end - at_);
    ETUDE_CHECK(!out.empty(), "the pattern '{}' has no name at {}", text_, at_);
    at_ += out.size();
    return out;
  }
  PatternNode node() {
    using Kind = PatternNode::Kind;
    const std::string_view name = word();
    PatternNode out{Kind::kValue, std::string(name)};
    if (name[0] == '$') {
      out.kind = Kind::kAnyNumber;
      return out;
    }
    if (name[0] == '-' || (name[0] >= '0' && name[0] <= '9')) {
      out.kind = Kind::kNumber;
      std::from_chars(name.data(), name.data() + name.size(), out.number);
      return out;
    }
    out.is_optional = take('?');
    if (!take('(')) return out;
    out.kind = Kind::kCall;
    do {
      take(' ');
      out.operands.push_back(node());
    } while (take(','));
    ETUDE_CHECK(take(')'), "the pattern '{}' has no ')' at {}", text_, at_);
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool takes_both_orders(const PatternNode& pattern) {
  return pattern.name == "add" || pattern.name == "multiply";
}

class PatternMatcher {
 public:
  explicit PatternMatcher(const GraphIndex& index) : index_(index) {}

  bool is(const PatternNode& pattern, GraphValue value) {
    switch (pattern.kind) {
      case PatternNode::Kind::kValue:
        return (value != kNoValue || pattern.is_optional) &&
               binds(found.values, pattern.name, value);
      case PatternNode::Kind::kNumber:
        return index_.number(value) == pattern.number;
      case PatternNode::Kind::kAnyNumber: {
        const std::optional<double> number = index_.number(value);
        return number && binds(found.numbers, pattern.name, *number);
      }
      case PatternNode::Kind::kCall:
        break;
    }
    return is_call(pattern, value) || (pattern.is_optional && is(pattern.operands[0], value));
  }

  PatternMatch found;

 private:
  template <class T>
  static bool binds(std::vector<std::pair<std::string_view, T>>& to, const std::string& name,
                    T value) {
    for (const auto& [known, bound] : to) {
      if (known == name) return bound == value;
    }
    to.emplace_back(name, value);
    return true;
  }

  bool is_call(const PatternNode& pattern, GraphValue value) {
    const std::optional<std::size_t> maker = index_.maker(value);
    if (!maker) return false;
    const Graph::Node node = index_.graph().node(*maker);
    if (node.op.full_name() != pattern.name) return false;
    if (node.operands.size() != pattern.operands.size()) return false;
    const PatternMatch before = found;
    found.nodes.push_back(*maker);
    if (has_operands(pattern, {node.operands.begin(), node.operands.end()})) return true;
    if (takes_both_orders(pattern)) {
      found = before;
      found.nodes.push_back(*maker);
      if (has_operands(pattern, {node.operands.rbegin(), node.operands.rend()})) return true;
    }
    found = before;
    return false;
  }
  bool has_operands(const PatternNode& pattern, const std::vector<GraphValue>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!is(pattern.operands[i], values[i])) return false;
    }
    return true;
  }

  const GraphIndex& index_;
};

// Compares the calls of a graph with calls of another graph.
class CallMatcher {
 public:
  CallMatcher(const GraphIndex& index, const Graph& calls, const std::vector<GraphValue>& inputs)
      : index_(index), calls_(calls), inputs_(inputs), own_(calls) {}

  // Whether `value` is the value `own` of the calls.
  bool is(GraphValue own, GraphValue value) {
    if (own == kNoValue || value == kNoValue) return own == value;
    if (own < calls_.first_constant()) {
      depends_ = own == 0;
      return inputs_[own] == value;
    }
    depends_ = false;
    const Graph& graph = index_.graph();
    if (calls_.is_constant(own)) {
      if (!graph.is_constant(value)) return false;
      return is_same(calls_.constants()[own - calls_.first_constant()],
                     graph.constants()[value - graph.first_constant()]);
    }
    const std::optional<std::size_t> a = own_.maker(own), b = index_.maker(value);
    if (!a || !b) return false;
    const Graph::Node want = calls_.node(*a), got = graph.node(*b);
    if (&want.op != &got.op || want.attrs != got.attrs) return false;
    if (want.operands.size() != got.operands.size()) return false;
    const std::size_t place = nodes.size();
    bool depends = false;
    for (std::size_t i = 0; i < want.operands.size(); ++i) {
      if (!is(want.operands[i], got.operands[i])) return false;
      depends = depends || depends_;
    }
    depends_ = depends;
    const auto at = nodes.begin() + static_cast<std::ptrdiff_t>(place);
    if (depends && std::ranges::find(nodes, *b) == nodes.end()) nodes.insert(at, *b);
    return true;
  }

  std::vector<std::size_t> nodes;

 private:
  const GraphIndex& index_;
  const Graph& calls_;
  const std::vector<GraphValue>& inputs_;
  const GraphIndex own_;
  bool depends_ = false;  // whether the value that was compared last depends on input 0
};

}  // namespace

PatternNode parse_pattern(std::string_view text) { return PatternParser(text).all(); }

double decimal(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double out = 0;
  std::from_chars(text.data(), end, out);
  return out;
}

GraphIndex::GraphIndex(const Graph& graph)
    : graph_(graph), makers_(graph.value_count()), readers_(graph.value_count()) {
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    if (node.results > 0) makers_[node.first_result] = i;
    for (const GraphValue operand : node.operands) {
      if (operand != kNoValue) readers_[operand].push_back(i);
    }
  }
  for (const GraphValue output : graph.outputs()) {
    if (output != kNoValue) readers_[output].push_back(graph.size());
  }
}

std::optional<std::size_t> GraphIndex::maker(GraphValue value) const {
  return value == kNoValue ? std::nullopt : makers_[value];
}

bool GraphIndex::are_private(const std::vector<std::size_t>& nodes) const {
  const auto is_inside = [&](std::size_t reader) {
    return std::ranges::find(nodes, reader) != nodes.end();
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Graph::Node node = graph_.node(nodes[i]);
    for (uint32_t r = i == 0 ? 1 : 0; r < node.results; ++r) {
      if (!std::ranges::all_of(readers_[node.first_result + r], is_inside)) return false;
    }
  }
  return true;
}

std::optional<double> GraphIndex::number(GraphValue value) const {
  if (value == kNoValue || !graph_.is_constant(value)) return std::nullopt;
  const Tensor& x = graph_.constants()[value - graph_.first_constant()];
  if (x.rank() != 0 || !is_floating(x.dtype())) return std::nullopt;
  const BottomScope at_once(eager_context());
  const double element = x.to_vector<double>()[0];
  return x.dtype() == kFloat32 ? decimal(static_cast<float>(element)) : element;
}

GraphValue PatternMatch::value(std::string_view name) const {
  for (const auto& [known, bound] : values) {
    if (known == name) return bound;
  }
  return kNoValue;
}

double PatternMatch::number(std::string_view name) const {
  for (const auto& [known, bound] : numbers) {
    if (known == name) return bound;
  }
  ETUDE_CHECK(false, "the pattern has no number '{}'", name);
  return 0;
}

Graph::Node PatternMatch::call(const Graph& graph, std::string_view op) const {
  const auto found = std::ranges::find_if(
      nodes, [&](std::size_t node) { return graph.node(node).op.full_name() == op; });
  ETUDE_CHECK(found != nodes.end(), "the pattern has no call of '{}'", op);
  return graph.node(*found);
}

std::optional<PatternMatch> match(const GraphIndex& index, const PatternNode& pattern,
                                  std::size_t root) {
  const Graph::Node node = index.graph().node(root);
  PatternMatcher matcher(index);
  if (!matcher.is(pattern, node.first_result)) return std::nullopt;
  if (matcher.found.nodes.empty() || matcher.found.nodes[0] != root) return std::nullopt;
  return std::move(matcher.found);
}

bool has_calls(const GraphIndex& index, const Graph& calls, const std::vector<GraphValue>& inputs,
               std::size_t root, std::vector<std::size_t>& nodes) {
  if (calls.outputs().size() != 1) return false;
  CallMatcher matcher(index, calls, inputs);
  if (!matcher.is(calls.outputs()[0], index.graph().node(root).first_result)) return false;
  nodes = std::move(matcher.nodes);
  return !nodes.empty() && nodes[0] == root;
}

}  // namespace etude::onnx::internal
