// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/lower.h"

#include <unordered_map>
#include <variant>
#include <vector>

#include "etude/core/call/builtin.h"
#include "etude/core/call/located.h"
#include "etude/core/context/context.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

// Records calls as nodes; the bottom of the context stack while a lowering runs.
class LoweringContext final : public Context {
 public:
  using Draft = GraphBuilder::Draft;

  LoweringContext(GraphBuilder& build, HasForm has_form) : build_(build), has_form_(has_form) {}

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
    for (const Tensor& y : lowered(op, list.view(), attrs, where)) out.push_back(number(y));
    return out;
  }

  Values execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) override {
    Types types;
    for (std::size_t i = 0; i < in.size(); ++i) types.push_back(in.has(i) ? in[i].type() : nullptr);
    if (!has_form_(op, {types.data(), types.size()}, attrs) && has_lowering(op)) {
      return lowered(op, in, attrs, where);
    }
    std::vector<Draft> operands;
    for (std::size_t i = 0; i < in.size(); ++i) operands.push_back(number(in[i]));
    const auto [first, count] = build_.append(op, attrs, operands, where);
    Values out;
    for (uint32_t r = 0; r < count; ++r) out.push_back(abstract_tensor(first + r));
    return out;
  }

 private:
  static constexpr Draft kNone = GraphBuilder::kNoDraft;

  Values lowered(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
    if (op.def().lower != nullptr) return lower(op, in, attrs, *this, where);
    std::vector<double> params;
    for (const AttrValue& value : attrs.values()) {
      if (const double* number = std::get_if<double>(&value)) params.push_back(*number);
    }
    return lower(program_op(), in, program_attrs(op.def().scalar, params), *this, where);
  }

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
  HasForm has_form_;
  std::unordered_map<uint64_t, Draft> drafts_;  // by value id
  std::vector<Tensor> held_;                    // so that ids stay theirs
};

}  // namespace

bool has_lowering(const Op& op) {
  if (op.def().lower != nullptr) return true;
  const scalar::Program* program = op.def().scalar.program;
  if (op.def().kind != Kind::kElementwise || program == nullptr) return false;
  if (!scalar::runs_on_tensors(*program)) return false;
  for (int i = 0; i < program->size; ++i) {  // its own function would be lowered to itself
    if (scalar::info(program->nodes[static_cast<std::size_t>(i)].fn).op == op.name()) return false;
  }
  return true;
}

GraphRef lower_to(const Graph& graph, HasForm has_form) {
  const auto is_lowered = [&](const Graph::Node& node) {
    return located(node.op, node.where, [&] {
      const Types types = operand_types(graph, node);
      return !has_form(node.op, {types.data(), types.size()}, node.attrs) && has_lowering(node.op);
    });
  };
  if (!has_node(graph, is_lowered)) return GraphRef(&graph);
  GraphCopy copy(graph);
  LoweringContext context(copy.build(), has_form);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    if (!is_lowered(node)) {
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

GraphRef lower_compositions(const Graph& graph) {
  return lower_to(graph, [](const Op& op, std::span<const Type* const> types, const Attrs& attrs) {
    return !op.is_composed(device_of(op, types, attrs));
  });
}

}  // namespace etude::internal
