// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/roll.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "etude/core/call/graph_calls.h"
#include "etude/passes/decisions.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/rolled_loops.h"

namespace etude::internal {
namespace {

using Draft = GraphBuilder::Draft;
using From = RolledLoop::From;

const Type* rows_type(const Type* row, std::size_t count) {
  Shape shape{static_cast<int64_t>(count)};
  for (const int64_t size : row->shape()) shape.push_back(size);
  return intern_type(row->dtype(), shape, row->device());
}

// The step of a loop as a graph: carried values, rows and invariants in, carried values and kept
// results out. `invariants`: without constants, which are copied into the graph.
GraphRef step_of(const Graph& graph, const RolledLoop& loop,
                 std::span<const GraphValue> invariants) {
  GraphBuilder build("step");
  build.keep_texts_of(graph);
  for (const Graph::Frame& frame : graph.frames()) build.add_frame(frame);
  std::vector<Draft> carried, rows;
  for (const auto& c : loop.carried)
    carried.push_back(build.add_input("carried", graph.type(c.start)));
  for (const auto& r : loop.rows) rows.push_back(build.add_input("row", graph.type(r.values[0])));
  std::unordered_map<GraphValue, Draft> outside = {{kNoValue, GraphBuilder::kNoDraft}};
  for (const GraphValue v : invariants) outside[v] = build.add_input("same", graph.type(v));
  for (const GraphValue v : loop.same) {
    if (v == kNoValue || !graph.is_constant(v)) continue;
    outside[v] = build.add_constant(graph.constants()[v - graph.first_constant()]);
  }
  std::vector<Draft> results, operands;
  const auto result = [&](GraphValue v) { return results[v - loop.first_value]; };
  auto read = loop.reads.begin();
  for (std::size_t j = 0; j < loop.period; ++j) {
    const Graph::Node node = graph.node(loop.first + j);
    if (loop.is_before[j]) {
      results.resize(results.size() + node.results, GraphBuilder::kNoDraft);
      read += static_cast<std::ptrdiff_t>(node.operands.size());
      continue;
    }
    operands.clear();
    for (std::size_t o = 0; o < node.operands.size(); ++o, ++read) {
      operands.push_back(read->from == From::kStep      ? result(read->index)
                         : read->from == From::kCarried ? carried[read->index]
                         : read->from == From::kRow     ? rows[read->index]
                                                        : outside.at(loop.same[read->index]));
    }
    build.set_frame(node.frame);
    const Draft first =
        build.add_node(node.op, node.attrs, operands, result_types(graph, node), node.where);
    for (uint32_t r = 0; r < node.results; ++r) results.push_back(first + r);
  }
  std::vector<Draft> outputs;
  for (const auto& c : loop.carried) outputs.push_back(result(c.result));
  for (const GraphValue v : loop.kept) outputs.push_back(result(v));
  return build.finish(outputs);
}

// One attempt to make a graph with these loops.
class Rolling {
 public:
  Rolling(const Graph& graph, const std::vector<RolledLoop>& loops)
      : graph_(graph), loops_(loops), copy_(graph), kept_(loops.size()) {
    for (std::size_t l = 0; l < loops.size(); ++l) {
      for (std::size_t i = 0; i < loops[l].kept.size(); ++i) {
        for (std::size_t k = 0; k < loops[l].count; ++k) {
          row_of_[loops[l].value(loops[l].kept[i], k)] = {l, i};
        }
      }
    }
  }

  GraphRef run() {
    for (std::size_t i = 0, next = 0; i < graph_.size();) {
      if (next < loops_.size() && loops_[next].first == i) {
        add_loop(next);
        i = loops_[next++].end();
        continue;
      }
      const Graph::Node node = graph_.node(i++);
      for (const GraphValue v : node.operands) static_cast<void>(draft(v));
      copy_.copy(node);
    }
    for (const GraphValue v : graph_.outputs()) static_cast<void>(draft(v));
    return copy_.finish();
  }
  // Loops with large results that would have to be copied.
  const std::unordered_set<std::size_t>& too_large() const { return too_large_; }

 private:
  // The value in the new graph, taken from the rows of a loop if necessary.
  Draft draft(GraphValue v) {
    const Draft known = copy_.at(v);
    if (known != GraphBuilder::kNoDraft || v == kNoValue) return known;
    const auto [l, i] = row_of_.at(v);
    take_apart(l, i);
    return copy_.at(v);
  }

  void take_apart(std::size_t l, std::size_t i) {
    const RolledLoop& loop = loops_[l];
    const Type* const row = graph_.type(loop.kept[i]);
    const auto count = static_cast<int64_t>(loop.count);
    if (row->bytes() * count > kMostCopiedRows) too_large_.insert(l);
    Types types;
    for (std::size_t k = 0; k < loop.count; ++k) types.push_back(row);
    const Draft first = add(loop, unstack_call(), {kept_[l][i]}, types);
    for (std::size_t k = 0; k < loop.count; ++k) {
      const GraphValue v = loop.value(loop.kept[i], k);
      const auto at = static_cast<Draft>(loop.row_of(k));
      if (copy_.at(v) == GraphBuilder::kNoDraft) copy_.set(v, first + at);
    }
  }

  Draft rows_of(const RolledLoop& loop, const RolledLoop::Row& row) {
    const Type* const type = rows_type(graph_.type(row.values[0]), loop.count);
    if (row.loop >= 0) {
      const auto l = static_cast<std::size_t>(row.loop);
      const Draft all = kept_[l][row.kept];
      if (loops_[l].count == loop.count) return all;
      const auto first = static_cast<int64_t>(row.first);
      return add(loop, rows_call(first, first + static_cast<int64_t>(loop.count)), {all}, {type});
    }
    std::vector<Draft> operands;
    for (std::size_t k = 0; k < loop.count; ++k) {
      operands.push_back(draft(row.values[loop.row_of(k)]));
    }
    return add(loop, stack_call(), operands, {type});
  }

  void add_loop(std::size_t l) {
    const RolledLoop& loop = loops_[l];
    for (std::size_t i = loop.first; i < loop.end(); ++i) {
      if (loop.is_before[(i - loop.first) % loop.period]) copy_.copy(graph_.node(i));
    }
    std::vector<Draft> operands;
    Types types;
    for (const auto& c : loop.carried) {
      operands.push_back(draft(c.start));
      types.push_back(graph_.type(c.start));
    }
    for (const auto& row : loop.rows) operands.push_back(rows_of(loop, row));
    std::vector<GraphValue> invariants;
    for (const GraphValue v : loop.same) {
      if (v == kNoValue || graph_.is_constant(v)) continue;
      invariants.push_back(v);
      operands.push_back(draft(v));
    }
    for (const GraphValue v : loop.kept) types.push_back(rows_type(graph_.type(v), loop.count));
    const GraphRef step = step_of(graph_, loop, invariants);
    const OpCall call = scan_call(*step, static_cast<int64_t>(loop.carried.size()),
                                  static_cast<int64_t>(loop.rows.size()),
                                  static_cast<int64_t>(loop.count), loop.is_reverse);
    Draft at = add(loop, call, operands, types);
    for (const auto& c : loop.carried) copy_.set(loop.value(c.result, loop.count - 1), at++);
    for (std::size_t i = 0; i < loop.kept.size(); ++i) kept_[l].push_back(at++);
  }

  // Adds a node with the line where the loop begins.
  Draft add(const RolledLoop& loop, const OpCall& call, const std::vector<Draft>& operands,
            const Types& types) {
    copy_.build().set_frame(Graph::kNoFrame);
    return copy_.build().add_node(call.op, call.attrs, operands, types,
                                  graph_.node(loop.first).where);
  }

  const Graph& graph_;
  const std::vector<RolledLoop>& loops_;
  GraphCopy copy_;
  std::vector<std::vector<Draft>> kept_;  // by loop: its rows
  std::unordered_map<GraphValue, std::pair<std::size_t, std::size_t>>
      row_of_;  // loop, place in kept
  std::unordered_set<std::size_t> too_large_;
};

GraphRef roll_once(const Graph& graph) {
  std::vector<bool> stays(graph.size());
  for (;;) {
    const std::vector<RolledLoop> loops = find_loops(graph, stays);
    if (loops.empty()) return GraphRef(&graph);
    Rolling rolling(graph, loops);
    GraphRef made = rolling.run();
    if (rolling.too_large().empty()) {
      for (const RolledLoop& loop : loops) {
        report_decision("roll", "{} times {} calls from {} on are a loop", loop.count, loop.period,
                        call_text(graph.node(loop.first)));
      }
      return made;
    }
    for (const std::size_t l : rolling.too_large()) {
      std::fill_n(stays.begin() + static_cast<std::ptrdiff_t>(loops[l].first),
                  loops[l].end() - loops[l].first, true);
    }
  }
}

void count_nodes(const Graph& graph, std::unordered_set<const Graph*>& seen, std::size_t& count) {
  if (!seen.insert(&graph).second) return;
  count += graph.size();
  const auto look = [&](const RefPtr<const AttrObject>& object) {
    const auto* inner = dynamic_cast<const Graph*>(object.get());
    if (inner != nullptr) count_nodes(*inner, seen, count);
  };
  for (std::size_t i = 0; i < graph.size(); ++i) {
    for (const AttrValue& value : graph.node(i).attrs.values()) {
      if (const auto* one = std::get_if<RefPtr<const AttrObject>>(&value)) look(*one);
      if (const auto* list = std::get_if<std::vector<RefPtr<const AttrObject>>>(&value)) {
        for (const auto& each : *list) look(each);
      }
    }
  }
}

}  // namespace

GraphRef roll_repeats(const Graph& graph) {
  constexpr int kMostNested = 3;  // loops in loops
  GraphRef current(&graph);
  for (int i = 0; i < kMostNested; ++i) {
    GraphRef rolled = roll_once(*current);
    if (rolled.get() == current.get()) break;
    current = std::move(rolled);
  }
  return current;
}

std::size_t node_count(const Graph& graph) {
  std::unordered_set<const Graph*> seen;
  std::size_t count = 0;
  count_nodes(graph, seen, count);
  return count;
}

}  // namespace etude::internal
