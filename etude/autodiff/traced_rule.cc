// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/traced_rule.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/graph_calls.h"
#include "etude/core/context/resource.h"
#include "etude/graph/builder.h"
#include "etude/stage/make_graph.h"
#include "etude/stage/trace.h"

namespace etude::internal {
namespace {

// A pullback as a graph. Its inputs are the cotangents that it takes, and then its residuals. Also
// a forward rule, whose inputs are tangents.
struct PullbackGraph {
  GraphRef graph;
  std::vector<Tensor> residuals;
};

// Ends the trace of a part of a rule, which errors call `what`.
PullbackGraph finish(TraceContext& context, const std::vector<Tensor>& outputs, const char* what) {
  TracedGraph traced = context.finish(outputs);
  TraceContext::note_reads(traced.size_reads);
  ETUDE_REQUIRE(context.created().empty(), "the {} makes {}, but runs in a graph. Make it before",
                what, context.created()[0].text);
  for (const Graph::Input& input : traced.graph->inputs()) {
    ETUDE_REQUIRE(input.role != InputRole::kKey,
                  "the {} draws random numbers, but runs in a graph. Draw them before, and let it "
                  "capture them",
                  what);
  }
  PullbackGraph out{std::move(traced.graph), {}};
  for (const GraphVariable& v : traced.variables) {
    ETUDE_REQUIRE(!v.is_written,
                  "the {} assigns {}, but runs in a graph. Assign it outside of the rule", what,
                  v.name);
    out.residuals.push_back(variable_of(v.resource).read());
  }
  out.residuals.insert(out.residuals.end(), traced.captures.begin(), traced.captures.end());
  return out;
}

// `taken`: by result, whether the pullback takes its cotangent.
PullbackGraph trace_pullback(const RuleCall& call, const std::vector<bool>& taken) {
  const ReadersPause quiet;
  TraceContext context(std::string(call.name) + "_rule", {});
  context.take_followed_values();
  std::vector<Tensor> cotangents, gradients;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    cotangents.push_back(taken[i] ? context.add_argument("dy", call.results[i].type()) : Tensor());
  }
  const std::vector<Tensor> found = call.pullback(cotangents);
  require_gradients(found, call.inputs);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (moves(call.inputs[i])) gradients.push_back(found[i]);
  }
  return finish(context, gradients, "pullback");
}

// The inputs of the graph are the tangents of the inputs that have one.
PullbackGraph trace_push(const RuleCall& call) {
  const ReadersPause quiet;
  TraceContext context(std::string(call.name) + "_jvp", {});
  context.take_followed_values();
  std::vector<Tensor> tangents, outputs;
  for (const Tensor& x : call.inputs) {
    tangents.push_back(moves(x) ? context.add_argument("dx", x.type()) : Tensor());
  }
  const std::vector<Tensor> found = push_by_rule(call, tangents);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!moves(call.results[i])) continue;
    const bool is_zero = !found[i].has_value();
    outputs.push_back(is_zero ? full(call.results[i].type(), 0) : to_dense(found[i]));
  }
  return finish(context, outputs, "jvp");
}

// A rule as graphs. The pullback may check which cotangents are present, so there is a graph for
// each set of cotangents that may arrive; one graph for all sets if it does not check, or if there
// would be too many.
class RuleGraphs {
 public:
  explicit RuleGraphs(const RuleCall& call) : call_(call) {
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      if (moves(call.results[i])) moving_.push_back(i);
    }
    const std::size_t count = moving_.size();
    if (!call.warns_of_missing || count == 1 || count > kMostResults) {
      add(kEvery);
    } else {
      for (int64_t set = (int64_t{1} << count) - 1; set > 0; --set) add(set);
    }
    if (traced_.size() == 1) residuals_ = traced_[0].residuals;
    for (const PullbackGraph& pullback : traced_) add_residuals(pullback);
    for (const PullbackGraph& pullback : traced_) {
      rules_.push_back(traced_.size() == 1 ? pullback.graph : with_all_residuals(pullback));
    }
    if (call.push != nullptr) add_push();  // after the rules, which take the first residuals
  }
  AttrObjects rules() const { return {rules_.begin(), rules_.end()}; }
  const std::vector<int64_t>& sets() const { return sets_; }
  const std::vector<Tensor>& residuals() const { return residuals_; }
  const std::string& fault() const { return fault_; }
  // The forward rule, or null; and the reason why it could not be traced, or nothing.
  const GraphRef& push() const { return push_; }
  const std::string& push_fault() const { return push_fault_; }

 private:
  static constexpr std::size_t kMostResults = 4;  // 15 sets
  static constexpr int64_t kEvery = -1;

  // If the pullback refuses a set, the error is thrown when a derivative needs the set, and not
  // before.
  void add(int64_t set) {
    std::vector<bool> taken(call_.results.size());
    for (std::size_t k = 0; k < moving_.size(); ++k) {
      taken[moving_[k]] = set == kEvery || ((set >> k) & 1) != 0;
    }
    try {
      traced_.push_back(trace_pullback(call_, taken));
      if (set != kEvery) sets_.push_back(set);
    } catch (Error& error) {
      if (may_pass(error.code())) throw;
      error.locate(call_.where);
      if (fault_.empty()) fault_ = error.what();
    }
  }

  void add_residuals(const PullbackGraph& of) {
    for (const Tensor& x : of.residuals) {
      if (place_of(x) == residuals_.size()) residuals_.push_back(x);
    }
  }

  void add_push() {
    try {
      const PullbackGraph traced = trace_push(call_);
      add_residuals(traced);
      push_ = with_all_residuals(traced);
    } catch (Error& error) {
      if (may_pass(error.code())) throw;
      error.locate(call_.where);
      push_fault_ = error.what();
    }
  }

  std::size_t place_of(const Tensor& residual) const {
    std::size_t i = 0;
    while (i < residuals_.size() && TensorAccess::id(residuals_[i]) != TensorAccess::id(residual))
      ++i;
    return i;
  }

  GraphRef with_all_residuals(const PullbackGraph& pullback) const {
    const std::size_t cotangents = pullback.graph->inputs().size() - pullback.residuals.size();
    const auto own = pullback.graph->inputs().first(cotangents);
    std::vector<Graph::Input> inputs(own.begin(), own.end());
    for (const Tensor& x : residuals_) inputs.push_back({"residual", x.type()});
    return make_graph(pullback.graph->name(), inputs, [&](std::span<const Tensor> in) {
      std::vector<Tensor> given(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(cotangents));
      for (const Tensor& x : pullback.residuals) given.push_back(in[cotangents + place_of(x)]);
      return interpret(*pullback.graph, given);
    });
  }

  const RuleCall& call_;
  std::vector<std::size_t> moving_;  // the results that have cotangents
  std::vector<PullbackGraph> traced_;
  std::vector<GraphRef> rules_;
  std::vector<int64_t> sets_;
  std::vector<Tensor> residuals_;
  std::string fault_;
  GraphRef push_;
  std::string push_fault_;
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
  const RuleGraphs rule(call);
  operands.insert(operands.end(), rule.residuals().begin(), rule.residuals().end());
  const GraphRef value = first_of(operands, results);
  const OperandList list{std::span<const Tensor>(operands)};
  const Values made =
      custom_call({value.get(), rule.rules(), rule.sets(), static_cast<int64_t>(results),
                   static_cast<int64_t>(inputs), call.is_for_forward, std::string(call.name),
                   rule.fault(), rule.push().get(), rule.push_fault()},
                  list.view());
  std::size_t next = 0;
  for (Tensor& y : out) y = y.has_value() ? made[next++] : y;
  return out;
}

}  // namespace etude::internal
