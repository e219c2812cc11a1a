// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/inline.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "etude/base/check.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

using Draft = GraphBuilder::Draft;

bool is_call(const Op& op) { return !op.def().body.empty(); }

const Graph& body_of(const Graph::Node& node) {
  const auto* body = dynamic_cast<const Graph*>(&node.attrs.object(node.op.def().body));
  ETUDE_CHECK(body != nullptr, "the body of a call of '{}' is no graph", node.op.name());
  return *body;
}

// The sizes of graphs after inlining, in nodes; calls that stay count as one node.
class Sizes {
 public:
  // Calls of bodies with more than `large_body` nodes stay.
  explicit Sizes(std::size_t large_body) : large_body_(large_body) {}

  std::size_t of(const Graph& graph) {
    const auto known = known_.find(&graph);
    if (known != known_.end()) return known->second;
    std::size_t nodes = 0;
    for (std::size_t i = 0; i < graph.size() && nodes < kVast; ++i) {
      const Graph::Node node = graph.node(i);
      nodes += is_call(node.op) && !stays(graph, node) ? of(body_of(node)) : 1;
    }
    nodes = std::min(nodes, kVast);
    known_.emplace(&graph, nodes);
    return nodes;
  }
  bool stays(const Graph& graph, const Graph::Node& node) {
    if (!is_call(node.op)) return true;
    const Types results = result_types(graph, node);
    const auto device = device_of(node.op, operand_types(graph, node), node.attrs).kind();
    return node.op.kernel(device) != nullptr && std::ranges::count(results, nullptr) == 0 &&
           of(body_of(node)) > large_body_;
  }

 private:
  static constexpr std::size_t kVast = std::size_t{1} << 60;  // more than any memory holds

  std::size_t large_body_;
  std::unordered_map<const Graph*, std::size_t> known_;
};

class Inliner {
 public:
  // Without sizes, no call stays.
  explicit Inliner(GraphBuilder& build, Sizes* sizes = nullptr) : build_(build), sizes_(sizes) {}

  // Appends the nodes of `body` with the inputs `inputs`; returns its outputs.
  std::vector<Draft> splice(const Graph& body, std::span<const Draft> inputs, CallSite where,
                            uint32_t outer) {
    build_.keep_texts_of(body);
    const uint32_t frame = build_.add_frame({body.name(), where, outer});
    std::vector<Draft> drafts(inputs.begin(), inputs.end());
    drafts.resize(body.value_count(), GraphBuilder::kNoDraft);
    for (std::size_t c = 0; c < body.constants().size(); ++c) {
      drafts[body.first_constant() + c] = build_.add_constant(body.constants()[c]);
    }
    const std::vector<uint32_t> frames = add_frames(body, frame);
    const auto draft = [&](GraphValue v) { return v == kNoValue ? kNone : drafts[v]; };
    for (std::size_t i = 0; i < body.size(); ++i) {
      const Graph::Node node = body.node(i);
      std::vector<Draft> operands;
      for (const GraphValue v : node.operands) operands.push_back(draft(v));
      const CallSite line = node.where.known() ? node.where : where;
      const uint32_t own = node.frame == Graph::kNoFrame ? frame : frames[node.frame];
      const std::vector<Draft> results = append(body, node, operands, line, own);
      for (uint32_t r = 0; r < node.results; ++r) drafts[node.first_result + r] = results[r];
    }
    std::vector<Draft> out;
    for (const GraphValue v : body.outputs()) out.push_back(draft(v));
    return out;
  }

 private:
  static constexpr Draft kNone = GraphBuilder::kNoDraft;

  // Appends a node of `graph`, or the nodes of the graph that it calls; returns its results.
  std::vector<Draft> append(const Graph& graph, const Graph::Node& node,
                            std::span<const Draft> operands, CallSite where, uint32_t frame) {
    const bool stays = !is_call(node.op) || (sizes_ != nullptr && sizes_->stays(graph, node));
    if (!stays) return splice(body_of(node), operands, where, frame);
    build_.set_frame(frame);
    const Draft first =
        build_.add_node(node.op, node.attrs, operands, result_types(graph, node), where);
    std::vector<Draft> out;
    for (uint32_t r = 0; r < node.results; ++r) out.push_back(first + r);
    return out;
  }

  // Adds the frames of `body` inside its own frame.
  std::vector<uint32_t> add_frames(const Graph& body, uint32_t frame) {
    std::vector<uint32_t> out;
    for (Graph::Frame own : body.frames()) {
      own.outer = own.outer == Graph::kNoFrame ? frame : out[own.outer];
      out.push_back(build_.add_frame(std::move(own)));
    }
    return out;
  }

  GraphBuilder& build_;
  Sizes* const sizes_;
};

}  // namespace

std::vector<Draft> splice(GraphBuilder& build, const Graph& body, std::span<const Draft> inputs,
                          CallSite where, uint32_t outer) {
  return Inliner(build).splice(body, inputs, where, outer);
}

GraphRef inline_calls(const Graph& graph) { return inline_calls(graph, {}); }

GraphRef inline_calls(const Graph& graph, const InlineLimits& limits) {
  const bool is_small = Sizes(~std::size_t{0}).of(graph) <= limits.most_nodes;
  Sizes sizes(is_small ? ~std::size_t{0} : limits.large_body);
  const auto goes = [&](const Graph::Node& node) { return !sizes.stays(graph, node); };
  if (!has_node(graph, goes)) return GraphRef(&graph);
  GraphCopy copy(graph);
  Inliner inliner(copy.build(), &sizes);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    if (!goes(node)) {
      copy.copy(node);
      continue;
    }
    const std::vector<Draft> results =
        inliner.splice(body_of(node), copy.operands(node), node.where, node.frame);
    for (uint32_t r = 0; r < node.results; ++r) copy.set(node.first_result + r, results[r]);
  }
  return copy.finish();
}

}  // namespace etude::internal
