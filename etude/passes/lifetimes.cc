// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/lifetimes.h"

#include <algorithm>

#include "etude/core/op/op.h"
#include "etude/passes/facts.h"

namespace etude::internal {
namespace {

constexpr int64_t kLeastViewed = 4096;  // bytes: a view of less does not matter

}  // namespace

Lifetimes::Lifetimes(const Graph& of)
    : graph(of),
      root(of.value_count()),
      maker(of.value_count(), kNone),
      last(of.value_count()),
      is_output(of.value_count()) {
  for (GraphValue v = 0; v < graph.first_result(); ++v) root[v] = v;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    for (uint32_t r = 0; r < node.results; ++r) {
      const GraphValue v = node.first_result + r;
      root[v] = v;
      maker[v] = last[v] = static_cast<uint32_t>(i);
    }
    for (const GraphValue v : node.operands) {
      if (v != kNoValue) last[root[v]] = static_cast<uint32_t>(i);
    }
    const auto is_large = [&](GraphValue v) { return v != kNoValue && bytes(v) >= kLeastViewed; };
    if (!node.op.def().is_cheap || std::ranges::none_of(node.operands, is_large)) continue;
    const int shown = viewed_operand(graph, node);
    if (shown >= 0) {
      root[node.first_result] = root[node.operands[static_cast<std::size_t>(shown)]];
    }
  }
  for (const GraphValue v : graph.outputs()) {
    if (v != kNoValue) is_output[root[v]] = true;
  }
}

int64_t Lifetimes::bytes(GraphValue v) const {
  const Type* type = graph.type(v);
  return type == nullptr ? 0 : type->bytes();
}

// Whether the result overwrites an operand that has no later readers.
bool Lifetimes::is_written_over(std::size_t i, const Graph::Node& node) const {
  if (!is_cheap(node.op)) return false;
  return std::ranges::any_of(node.operands, [&](GraphValue v) {
    return v != kNoValue && is_placed(root[v]) && last[root[v]] == i &&
           graph.type(v) == graph.type(node.first_result);
  });
}

std::vector<int64_t> Lifetimes::live_bytes() const {
  std::vector<int64_t> live(graph.size() + 1);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    for (uint32_t r = 0; r < node.results; ++r) {
      const GraphValue v = node.first_result + r;
      if (is_view(v) || !is_placed(v)) continue;
      const bool is_over = node.results == 1 && last[v] > i && is_written_over(i, node);
      live[i + (is_over ? 1 : 0)] += bytes(v);
      live[last[v] + 1] -= bytes(v);
    }
  }
  for (std::size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.pop_back();
  return live;
}

int64_t Lifetimes::most_bytes() const {
  const std::vector<int64_t> live = live_bytes();
  return live.empty() ? 0 : *std::ranges::max_element(live);
}

}  // namespace etude::internal
