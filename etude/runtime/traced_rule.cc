// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/traced_rule.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/builtin.h"
#include "etude/core/graph_calls.h"
#include "etude/core/resource.h"
#include "etude/graph/builder.h"
#include "etude/runtime/trace.h"

namespace etude::internal {
namespace {

// The rule as a graph: cotangents of the results that have one, and kept values, to gradients of
// the inputs that have one.
class RuleGraph {
 public:
  explicit RuleGraph(const RuleCall& call) : call_(call) {
    try {
      trace();
    } catch (Error& error) {
      if (may_pass(error.code())) throw;
      error.locate(call.where);
      kept_.clear();
      fault_ = error.what();
    }
  }
  const Graph* graph() const { return graph_.get(); }
  const std::vector<Tensor>& kept() const { return kept_; }
  const std::string& fault() const { return fault_; }

 private:
  void trace() {
    const ReadersPause quiet;
    TraceContext context(std::string(call_.name) + "_rule", {});
    context.take_followed_values();
    const TracedGraph traced = context.finish(gradients(context));
    TraceContext::note_reads(traced.size_reads);
    ETUDE_REQUIRE(context.created().empty(),
                  "the pullback makes {}, but runs in a graph. Make it before",
                  context.created()[0].text);
    for (const Graph::Input& input : traced.graph->inputs()) {
      ETUDE_REQUIRE(input.role != InputRole::kKey,
                    "the pullback draws random numbers, but runs in a graph. Draw them before, and "
                    "let it capture them");
    }
    for (const TracedVariable& v : traced.variables) {
      ETUDE_REQUIRE(!v.is_written,
                    "the pullback assigns {}, but runs in a graph. Assign it outside of the rule",
                    v.name);
      kept_.push_back(variable_of(v.resource).read());
    }
    kept_.insert(kept_.end(), traced.captures.begin(), traced.captures.end());
    graph_ = traced.graph;
  }

  std::vector<Tensor> gradients(TraceContext& context) const {
    std::vector<Tensor> cotangents, out;
    for (const Tensor& y : call_.results) {
      cotangents.push_back(moves(y) ? context.add_argument("dy", y.type()) : Tensor());
    }
    const std::vector<Tensor> found = call_.pullback(cotangents);
    require_gradients(found, call_.inputs);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (moves(call_.inputs[i])) out.push_back(found[i]);
    }
    return out;
  }

  const RuleCall& call_;
  GraphRef graph_;
  std::vector<Tensor> kept_;
  std::string fault_;
};

}  // namespace

GraphRef first_of(std::span<const Tensor> operands, std::size_t count) {
  GraphBuilder build("value");
  std::vector<GraphBuilder::Draft> drafts;
  for (const Tensor& x : operands) {
    drafts.push_back(build.add_input("x" + std::to_string(drafts.size()), x.type()));
  }
  drafts.resize(count);
  return build.finish(drafts);
}

std::vector<Tensor> trace_rule(const RuleCall& call) {
  std::vector<Tensor> operands;
  for (const Tensor& y : call.results) {
    if (y.has_value()) operands.push_back(to_dense(y));
  }
  const std::size_t results = operands.size();
  for (const Tensor& x : call.inputs) {
    if (moves(x)) operands.push_back(to_dense(x));
  }
  const std::size_t inputs = operands.size() - results;
  std::vector<Tensor> out = call.results;
  if (inputs == 0 || std::ranges::none_of(call.results, moves)) {
    for (Tensor& y : out) y = y.has_value() ? identity(to_dense(y)) : y;
    return out;
  }
  const RuleGraph rule(call);
  operands.insert(operands.end(), rule.kept().begin(), rule.kept().end());
  const GraphRef value = first_of(operands, results);
  const OperandList list{std::span<const Tensor>(operands)};
  const Values made = custom_call(
      {value.get(), rule.graph(), static_cast<int64_t>(results), static_cast<int64_t>(inputs),
       call.is_for_forward, std::string(call.name), rule.fault()},
      list.view());
  std::size_t next = 0;
  for (Tensor& y : out) y = y.has_value() ? made[next++] : y;
  return out;
}

}  // namespace etude::internal
