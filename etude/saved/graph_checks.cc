// SPDX-License-Identifier: Apache-2.0
// Checks and changes of graphs that are saved or loaded, with the graphs in them.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/op/op.h"
#include "etude/ops/graph/unsaved_rules.h"
#include "etude/passes/graph_copy.h"
#include "etude/saved/content.h"
#include "etude/stage/internal/host_call.h"

namespace etude::saved::internal {
namespace {

using etude::internal::RefPtr;

// Calls fn(node) for the nodes of a graph and of all graphs in it, each graph once.
template <class Fn>
void each_node(const Graph& graph, const Fn& fn) {
  std::set<const Graph*> seen{&graph};
  std::vector<const Graph*> left{&graph};
  while (!left.empty()) {
    const Graph& at = *left.back();
    left.pop_back();
    const auto visit = [&](const AttrObject& object) {
      const auto& inner = static_cast<const Graph&>(object);
      if (seen.insert(&inner).second) left.push_back(&inner);
    };
    for (std::size_t i = 0; i < at.size(); ++i) {
      const Graph::Node node = at.node(i);
      fn(node);
      for (const AttrDef& def : node.attrs.defs()) {
        if (!node.attrs.has(def.name)) continue;
        if (def.kind == AttrKind::kGraph) visit(node.attrs.object(def.name));
        if (def.kind == AttrKind::kGraphs) {
          for (const auto& object : node.attrs.objects(def.name)) visit(*object);
        }
      }
    }
  }
}

std::string line_text(CallSite where) {
  return where.known() ? fmt::format(" at {}:{}", where.file, where.line) : std::string();
}

bool is_custom(const Graph::Node& node) {
  // Derivatives of recompute_grad are derivatives of the function itself.
  return node.op.name() == "custom_call" && node.attrs.flag("is_for_forward");
}

// The call without its rules, and the error of a derivative that needs one.
Attrs without_rules(const Graph::Node& node) {
  const std::string fault = fmt::format(
      "{}{}. Save the function with {{.custom_gradients = true}}", ops::kRulesNotSaved,
      node.where.known() ? fmt::format(" (it is called{})", line_text(node.where)) : "");
  return node.op.attrs_by_name({{"value", node.attrs.value("value")},
                                {"results", node.attrs.value("results")},
                                {"inputs", node.attrs.value("inputs")},
                                {"is_for_forward", true},
                                {"name", node.attrs.value("name")},
                                {"fault", fault},
                                {"forward_fault", fault}});
}

// Copies graphs, each once.
class Stripper {
 public:
  GraphRef strip(const GraphRef& graph) {
    const auto known = done_.find(graph.get());
    if (known != done_.end()) return known->second;
    etude::internal::GraphCopy copy(*graph);
    bool is_changed = false;
    for (std::size_t i = 0; i < graph->size(); ++i) {
      const Graph::Node node = graph->node(i);
      Attrs attrs = is_custom(node) ? without_rules(node) : node.attrs;
      attrs = etude::internal::with_graphs(node.op, attrs, [&](const Graph& inner) {
        const GraphRef before(&inner);
        GraphRef after = strip(before);
        return after;
      });
      is_changed = is_changed || attrs != node.attrs;
      copy.copy(node, attrs);
    }
    GraphRef out = is_changed ? copy.finish() : graph;
    held_.push_back(graph);
    done_.emplace(graph.get(), out);
    return out;
  }

 private:
  std::map<const Graph*, GraphRef> done_;
  std::vector<GraphRef> held_;  // so that no other graph gets an address
};

}  // namespace

GraphRef without_custom_gradients(const GraphRef& graph) {
  bool has_any = false;
  each_node(*graph, [&](const Graph::Node& node) { has_any = has_any || is_custom(node); });
  return has_any ? Stripper().strip(graph) : graph;
}

void require_no_host_calls(const Graph& graph, const std::string& function) {
  each_node(graph, [&](const Graph::Node& node) {
    const HostObject* host = node.attrs.find_host();
    if (host == nullptr) return;
    Error error(ErrorCode::kUnimplemented,
                fmt::format("function '{}' calls {}, which exists only in this process, so it "
                            "cannot be saved. Write it with ops, or save a function without it",
                            function, host->to_string()));
    error.locate(etude::internal::user_line(node.where));
    throw error;
  });
}

void require_loop_limits(const Graph& graph, int64_t most, const std::string& file) {
  each_node(graph, [&](const Graph::Node& node) {
    if (node.op.name() != "while_loop") return;
    const bool has_limit = node.attrs.has("max_steps") && node.attrs.integer("max_steps") >= 0;
    const int64_t limit = has_limit ? node.attrs.integer("max_steps") : 0;
    ETUDE_REQUIRE_CODE(kResourceExhausted, has_limit && limit <= most,
                       "{}: a while_loop{} has {}, but at most {} steps are allowed "
                       "(LoadOptions::max_loop_steps)",
                       file, line_text(node.where),
                       has_limit ? fmt::format("a limit of {} steps", limit) : "no limit", most);
  });
}

}  // namespace etude::saved::internal
