// SPDX-License-Identifier: Apache-2.0
// Passes: functions from graph to graph that keep all values bit for bit and reduce the work to
// compute them. One table (pipeline.cc) states their order. Passes run before a plan is made for
// the graph (plan/plan.h), and after differentiation.
//
//   PassScope off("merge_equal_nodes");   // does the bug disappear without this pass?
//   step(x);                              // planned for the first time, without that pass
//
// To switch passes off in a whole program, set the environment variable
// ETUDE_PASSES_OFF=merge_equal_nodes,fold_constants. The name of a rule of a record
// (OpDef::rewrites) switches off this rule in the same way.
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
  GraphRef (*run)(const Graph&);  // returns the same graph if it changes nothing
  // Whether the pass cannot be switched off, because plans cannot run the nodes that it removes.
  bool is_needed = false;
};
// The passes in the order in which they run.
std::span<const Pass> passes();

// The effect of a pass on a graph.
struct PassReport {
  std::string_view pass;
  double seconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
  bool is_off = false;
};
// Returns a header line, then a line for each report.
std::string to_string(std::span<const PassReport> reports);

// Returns the graph after all passes. The passes also run on the graphs in its attributes. In
// builds with assertions the verifier checks the result of each pass.
//
// throws: kInvalidArgument if ETUDE_PASSES_OFF has an unknown name, or a pass that cannot be
//   switched off; kInternal, naming the pass, if a pass broke the graph; the errors of a lowering.
// threads: thread-safe.
// cost: linear in the graph.
GraphRef run_passes(const Graph& graph, std::vector<PassReport>* reports = nullptr);

// While alive, this thread plans graphs without the passes and rules in `off`: names separated by
// commas, or "all". A graph that already has a plan keeps its plan.
// threads: confined to the thread that made it.
//
// throws: kInvalidArgument for an unknown name, and for a pass that cannot be switched off.
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
