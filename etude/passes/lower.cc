// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/lower.h"

#include <unordered_map>
#include <vector>

#include "etude/core/call/located.h"
#include "etude/core/context/context.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

// Records calls as nodes; the bottom of the context stack while a lowering runs.
class LoweringContext final : public Context {
 public:
  using Draft = GraphBuilder::Draft;

  explicit LoweringContext(GraphBuilder& build) : build_(build) {}

  // The results of a call.
  std::vector<Draft> run(const Op& op, const Attrs& attrs, std::span<const Draft> operands,
                         CallSite where) {
    OperandList list;
    const Tensor absent;
    std::vector<Tensor> abstract_tensors;
    for (const Draft d : operands)
      abstract_tensors.push_back(d == kNone ? absent : abstract_tensor(d));
    for (const Tensor& x : abstract_tensors) list.add(x);
    const BottomScope bottom(*this);
    std::vector<Draft> out;
    for (const Tensor& y : lower(op, list.view(), attrs, *this, where)) out.push_back(number(y));
    return out;
  }

  Values execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) override {
    if (op.is_composed(device_of(op, in, attrs))) return lower(op, in, attrs, *this, where);
    std::vector<Draft> operands;
    for (std::size_t i = 0; i < in.size(); ++i) operands.push_back(number(in[i]));
    const auto [first, count] = build_.append(op, attrs, operands, where);
    Values out;
    for (uint32_t r = 0; r < count; ++r) out.push_back(abstract_tensor(first + r));
    return out;
  }

 private:
  static constexpr Draft kNone = GraphBuilder::kNoDraft;

  Tensor abstract_tensor(Draft draft) {
    Tensor out = make_abstract(build_.type(draft));
    drafts_.emplace(TensorAccess::id(out), draft);
    return out;
  }
  Draft number(const Tensor& x) {
    if (!x.has_value()) return kNone;
    const auto [at, is_new] = drafts_.try_emplace(TensorAccess::id(x));
    if (is_new) {
      at->second = build_.add_constant(to_dense(x));
      held_.push_back(x);
    }
    return at->second;
  }

  GraphBuilder& build_;
  std::unordered_map<uint64_t, Draft> drafts_;  // by value id
  std::vector<Tensor> held_;                    // so that ids stay theirs
};

}  // namespace

GraphRef lower_compositions(const Graph& graph) {
  const auto is_composed = [&](const Graph::Node& node) {
    return node.op.is_composed(device_of(node.op, operand_types(graph, node), node.attrs));
  };
  if (!has_node(graph, is_composed)) return GraphRef(&graph);
  GraphCopy copy(graph);
  LoweringContext context(copy.build());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    if (!is_composed(node)) {
      copy.copy(node);
      continue;
    }
    copy.build().set_frame(node.frame);
    const auto results = located(node.op, node.where, [&] {
      return context.run(node.op, node.attrs, copy.operands(node), node.where);
    });
    for (uint32_t r = 0; r < node.results; ++r) copy.set(node.first_result + r, results[r]);
  }
  return copy.finish();
}

}  // namespace etude::internal
