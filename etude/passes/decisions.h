// SPDX-License-Identifier: Apache-2.0
// Records the decisions by cost of passes and plans, with reasons, for `etude graph plan FILE
// --why`. It costs nothing without a DecisionScope. Also records the calls that a fused call
// replaced, which plans print with their steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "etude/base/call_site.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// "fused: multiply (a.cc:3) joins add (a.cc:4): ..."
struct Decision {
  std::string_view who;  // the pass, or "clusters"; static
  std::string text;
};

// While alive, collects the decisions of this thread. A nested scope replaces the outer scope.
// threads: confined to the thread that made it.
class DecisionScope {
 public:
  DecisionScope();
  DecisionScope(const DecisionScope&) = delete;
  DecisionScope& operator=(const DecisionScope&) = delete;
  ~DecisionScope();
  // In order, without repetitions.
  std::vector<Decision> take();

 private:
  friend bool wants_decisions();
  friend void add_decision(std::string_view who, std::string text);
  std::vector<Decision> list_;
  DecisionScope* outer_;
};

bool wants_decisions();
void add_decision(std::string_view who, std::string text);

template <class... T>
void report_decision(std::string_view who, fmt::format_string<T...> text, T&&... args) {
  if (wants_decisions()) add_decision(who, fmt::format(text, std::forward<T>(args)...));
}

// "multiply (a.cc:3)"; the name alone if the line is unknown.
std::string call_text(const Graph::Node& node);

// A call that is part of a fused call.
struct FusedCall {
  std::string op;
  CallSite where;
};
// By node of the pass's result: the fused calls, in order.
struct FusedCalls final : RefCounted {
  std::map<std::size_t, std::vector<FusedCall>> by_node;

  // The fused calls recorded for this graph; empty if there are none.
  static RefPtr<const FusedCalls> of(const Graph& graph);
  static void keep(const Graph& graph, const RefPtr<const FusedCalls>& calls);
  // `to` has the nodes of `from` at the same indices.
  static void hand_over(const Graph& from, const Graph& to);
};

}  // namespace etude::internal
