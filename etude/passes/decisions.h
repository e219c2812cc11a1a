// SPDX-License-Identifier: Apache-2.0
// What passes and plans decide by cost, and why, for people who ask: `etude graph plan FILE --why`.
// Nobody pays for it while nobody listens. And which calls a fused call took the place of, which
// plans say beside their steps.
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
  std::string_view who;  // the pass, or "regions"; lives for ever
  std::string text;
};

// While alive, decisions of this thread are kept. One within another takes its place. confined to
// the thread that made it.
class DecisionScope {
 public:
  DecisionScope();
  DecisionScope(const DecisionScope&) = delete;
  DecisionScope& operator=(const DecisionScope&) = delete;
  ~DecisionScope();
  // In order, without repetitions.
  std::vector<Decision> take();

 private:
  friend bool hears_decisions();
  friend void add_decision(std::string_view who, std::string text);
  std::vector<Decision> list_;
  DecisionScope* outer_;
};

bool hears_decisions();
void add_decision(std::string_view who, std::string text);

template <class... T>
void tell_decision(std::string_view who, fmt::format_string<T...> text, T&&... args) {
  if (hears_decisions()) add_decision(who, fmt::format(text, std::forward<T>(args)...));
}

// "multiply (a.cc:3)"; the name alone where no line is known.
std::string call_text(const Graph::Node& node);

// A call that is a part of a fused one.
struct FusedCall {
  std::string op;
  CallSite where;
};
// By node of the graph that the pass gave: the calls, in their order.
struct FusedCalls final : RefCounted {
  std::map<std::size_t, std::vector<FusedCall>> by_node;

  // Those that were noted for this graph; empty where none were.
  static RefPtr<const FusedCalls> of(const Graph& graph);
  static void keep(const Graph& graph, const RefPtr<const FusedCalls>& calls);
  // `to` has the nodes of `from` at the same places.
  static void hand_over(const Graph& from, const Graph& to);
};

}  // namespace etude::internal
