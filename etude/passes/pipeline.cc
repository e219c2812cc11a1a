// SPDX-License-Identifier: Apache-2.0
// The table of all passes, and the code around each of them.
#include "etude/passes/pipeline.h"

#include <chrono>
#include <unordered_map>

#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/graph/verify.h"
#include "etude/passes/decisions.h"
#include "etude/passes/drop.h"
#include "etude/passes/fold_constants.h"
#include "etude/passes/fuse.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/hoist.h"
#include "etude/passes/inline.h"
#include "etude/passes/lower.h"
#include "etude/passes/merge.h"
#include "etude/passes/recompute.h"
#include "etude/passes/rewrite.h"
#include "etude/passes/switches.h"

namespace etude {
namespace {

constexpr Pass kPasses[] = {
    {"inline_calls", "inlining: a call of a graph becomes the nodes of that graph",
     internal::inline_calls, true},
    {"lower_compositions",
     "decomposition: an op without a kernel becomes the calls of its lowering",
     internal::lower_compositions, true},
    {"fold_constants", "constant folding: small results of constants are constants",
     internal::fold_constants},
    {"rewrite_calls", "algebraic simplification by the rules of the records, with the same bits",
     internal::rewrite_calls},
    {"hoist_invariants",
     "loop-invariant code motion (LICM): values that are the same in all steps are computed before "
     "the loop",
     internal::hoist_invariants},
    {"merge_equal_nodes",
     "common subexpression elimination (CSE): nodes that compute the same value become one node",
     internal::merge_equal_nodes},
    {"drop_dead_nodes", "dead code elimination (DCE): nodes that no output needs are removed",
     internal::drop_dead_nodes},
    {"recompute_cheap",
     "rematerialisation: cheap values are computed again if storing them would take memory at the "
     "peak",
     internal::recompute_cheap},
    {"fuse_elementwise", "fusion: a sequence of element-wise nodes becomes one pass over memory",
     internal::fuse_elementwise},
};

// Runs one pass on graphs, and on the graphs in their attributes.
class Runner {
 public:
  explicit Runner(const Pass& pass) : pass_(pass) {}

  GraphRef run(const Graph& graph) {
    const auto known = done_.find(&graph);
    if (known != done_.end()) return known->second;
    const GraphRef made = pass_.run(graph);
    GraphRef out = in_subgraphs(*made);
    // Decisions belong to the graph that runs.
    if (made.get() != &graph && out.get() != made.get())
      internal::FusedCalls::hand_over(*made, *out);
    check(*out);
    held_.push_back(GraphRef(&graph));
    done_.emplace(&graph, out);
    return out;
  }

 private:
  static bool carries_graphs(const Graph::Node& node) {
    if (!node.op.def().body.empty()) return false;  // the op is a call of its body
    for (const AttrDef& def : node.op.def().attrs) {
      if (holds_graphs(def.kind)) return true;
    }
    return false;
  }

  // Whether the pass changes a graph in the node's attributes.
  bool changes_graphs(const Graph::Node& node) {
    bool changes = false;
    if (!carries_graphs(node)) return false;
    internal::with_graphs(node.op, node.attrs, [&](const Graph& carried) {
      GraphRef made = run(carried);
      changes = changes || made.get() != &carried;
      return made;
    });
    return changes;
  }

  // The graph with the results of the pass as its subgraphs. Inputs and outputs of a subgraph are
  // unchanged, so each result may replace its source.
  GraphRef in_subgraphs(const Graph& graph) {
    const auto changes = [this](const Graph::Node& node) { return changes_graphs(node); };
    if (!internal::has_node(graph, changes)) return GraphRef(&graph);
    internal::GraphCopy copy(graph);
    const auto pass = [this](const Graph& carried) { return run(carried); };
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const Graph::Node node = graph.node(i);
      copy.copy(node, carries_graphs(node) ? internal::with_graphs(node.op, node.attrs, pass)
                                           : node.attrs);
    }
    return copy.finish();
  }

  void check([[maybe_unused]] const Graph& graph) const {
#ifdef ETUDE_ASSERTIONS
    try {
      verify(graph);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("after pass '{}': {}", pass_.name, error.what()));
    }
#endif
  }

  const Pass& pass_;
  std::unordered_map<const Graph*, GraphRef> done_;
  std::vector<GraphRef> held_;  // so that addresses stay theirs
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

GraphRef run_passes(const Graph& graph, std::vector<PassReport>* reports) {
  internal::check_environment();
  // Computations of passes are in no trace, and where their operands are.
  const BottomScope at_once(eager_context());
  const internal::NoDeviceScope nowhere;
  GraphRef current(&graph);
  for (const Pass& pass : kPasses) {
    PassReport report{pass.name, 0, current->size(), current->size(),
                      !pass.is_needed && internal::is_switched_off(pass.name)};
    if (!report.is_off) {
      const auto start = std::chrono::steady_clock::now();
      current = Runner(pass).run(*current);
      report.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      report.nodes_after = current->size();
    }
    if (reports != nullptr) reports->push_back(report);
  }
  return current;
}

std::string to_string(std::span<const PassReport> reports) {
  std::string out = fmt::format("{:<20} {:>9}  {}\n", "pass", "ms", "nodes");
  for (const PassReport& r : reports) {
    out += r.is_off ? fmt::format("{:<20} {:>9}\n", r.pass, "off")
                    : fmt::format("{:<20} {:>9.3f}  {} -> {}\n", r.pass, 1e3 * r.seconds,
                                  r.nodes_before, r.nodes_after);
  }
  return out;
}

}  // namespace etude
