// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/decisions.h"

#include <algorithm>
#include <utility>

#include "etude/base/thread_object.h"
#include "etude/core/op/op.h"

namespace etude::internal {
namespace {

// The innermost scope of this thread.
struct Listener {
  DecisionScope* scope = nullptr;
};
constexpr std::string_view kFusedCalls = "fused calls";

}  // namespace

DecisionScope::DecisionScope() : outer_(std::exchange(ThreadObject<Listener>::get().scope, this)) {}
DecisionScope::~DecisionScope() { ThreadObject<Listener>::find()->scope = outer_; }
std::vector<Decision> DecisionScope::take() { return std::exchange(list_, {}); }

bool wants_decisions() {
  const Listener* listener = ThreadObject<Listener>::find();
  return listener != nullptr && listener->scope != nullptr;
}

void add_decision(std::string_view who, std::string text) {
  std::vector<Decision>& list = ThreadObject<Listener>::find()->scope->list_;
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
