// SPDX-License-Identifier: Apache-2.0
// Passes: functions from graph to graph that leave the values as they are, bit for bit, and the
// work to compute them less. They run, in the order of one table (pipeline.cc), before a graph is
// made ready to run (plan/plan.h). Derivatives are taken of graphs before they have passed here.
//
//   PassScope off("merge_equal_nodes");   // a bug is gone without it?
//   step(x);                              // planned for the first time: without that pass
//
// For a whole program: ETUDE_PASSES_OFF=merge_equal_nodes,fold_constants in its environment.
// A rule of a record (OpDef::rewrites) is switched off by its name in the same way.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct Pass {
  std::string_view name;
  std::string_view doc;
  GraphRef (*run)(const Graph&);  // gives the graph itself where it changes nothing
  // Plans have no step for what it takes away, so that it cannot be switched off.
  bool is_needed = false;
};
// In the order in which they run.
std::span<const Pass> passes();

// What a pass did to a graph.
struct PassReport {
  std::string_view pass;
  double seconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
  bool is_off = false;
};
// A line each, under a head.
std::string to_string(std::span<const PassReport> reports);

// The graph as it is run. Graphs that its nodes carry have passed as well. In builds with
// assertions the verifier looks at what each pass gives.
//
// throws: kInvalidArgument if ETUDE_PASSES_OFF names no pass; kInternal, naming the pass that broke
//         the graph; what a lowering throws. thread-safe. cost: linear in the graph.
GraphRef run_passes(const Graph& graph, std::vector<PassReport>* reports = nullptr);

// While alive, graphs that this thread plans pass without `off`: names of passes or of rules with
// commas between them, or "all". A graph that was planned before keeps its plan. confined to the
// thread that made it.
//
// throws: kInvalidArgument for a name that is none, and for a pass that is needed.
class PassScope {
 public:
  explicit PassScope(std::string_view off);
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;
  ~PassScope();

 private:
  std::vector<std::string> off_;
  const std::vector<std::string>* outer_;
};

}  // namespace etude
