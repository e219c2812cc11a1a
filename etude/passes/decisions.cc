// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/decisions.h"

#include <algorithm>
#include <utility>

#include "etude/core/op.h"

namespace etude::internal {
namespace {

thread_local constinit DecisionScope* listener = nullptr;
constexpr std::string_view kFusedCalls = "fused calls";

}  // namespace

DecisionScope::DecisionScope() : outer_(std::exchange(listener, this)) {}
DecisionScope::~DecisionScope() { listener = outer_; }
std::vector<Decision> DecisionScope::take() { return std::exchange(list_, {}); }

bool hears_decisions() noexcept { return listener != nullptr; }

void add_decision(std::string_view who, std::string text) {
  std::vector<Decision>& list = listener->list_;
  const auto is_same = [&](const Decision& d) { return d.who == who && d.text == text; };
  if (std::ranges::none_of(list, is_same)) list.push_back({who, std::move(text)});
}

std::string call_text(const Graph::Node& node) {
  if (!node.where.known()) return std::string(node.op.name());
  return fmt::format("{} ({}:{})", node.op.name(), node.where.file, node.where.line);
}

RefPtr<const FusedCalls> FusedCalls::of(const Graph& graph) {
  return graph.kept<FusedCalls>(kFusedCalls, [] { return make_ref<FusedCalls>(); });
}

void FusedCalls::keep(const Graph& graph, const RefPtr<const FusedCalls>& calls) {
  graph.kept<FusedCalls>(kFusedCalls, [&] { return calls; });
}

void FusedCalls::hand_over(const Graph& from, const Graph& to) {
  if (from.size() == to.size()) keep(to, of(from));
}

}  // namespace etude::internal
