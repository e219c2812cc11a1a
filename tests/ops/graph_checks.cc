// SPDX-License-Identifier: Apache-2.0
// Every call as a graph of one node: it passes the verifier, runs as the call does, and its text
// reads back as the same graph.
#include <fmt/format.h>

#include "etude/core/call/run.h"
#include "etude/core/internal/infer.h"
#include "etude/core/op/registry.h"
#include "etude/graph/binary.h"
#include "etude/graph/builder.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/graph/verify.h"
#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

// Keeps the operands of a call as contexts get them: cast if the record requires it.
class OperandsContext final : public Context {
 public:
  explicit OperandsContext(const Op& op) : op_(op) { ContextStack::push(*this); }
  ~OperandsContext() override { ContextStack::remove(*this); }

  Values execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) override {
    if (&op == &op_) {
      operands.clear();
      for (std::size_t i = 0; i < in.size(); ++i) operands.push_back(in[i]);
    }
    const ContextScope scope(*parent_, where);
    return parent_->execute(op, in, attrs, where);
  }

  std::vector<Tensor> operands;

 private:
  const Op& op_;
};

bool is_dense(const Tensor& x) { return !x.has_value() || !TensorAccess::is_sparse(x); }

// Operands are inputs and constants by turns; inputs go to `inputs`.
GraphRef graph_of(const Call& call, const std::vector<Tensor>& operands,
                  std::vector<Tensor>& inputs) {
  GraphBuilder build(std::string(call.op->name()));
  std::vector<GraphBuilder::Draft> drafts;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].has_value()) {
      drafts.push_back(GraphBuilder::kNoDraft);
    } else if (i % 2 == 1) {
      drafts.push_back(build.add_constant(operands[i]));
    } else {
      drafts.push_back(build.add_input(std::string(call.op->operand(i).name), operands[i].type()));
      inputs.push_back(operands[i]);
    }
  }
  const GraphBuilder::Draft first = build.add_node(*call.op, call.attrs, drafts, {"train.cc", 41});
  std::vector<const Type*> types;
  types.reserve(operands.size());
  for (const Tensor& x : operands) types.push_back(x.has_value() ? x.type() : nullptr);
  std::vector<GraphBuilder::Draft> outputs;
  for (std::size_t r = 0; r < infer_types(*call.op, types, call.attrs).size(); ++r) {
    outputs.push_back(first + static_cast<GraphBuilder::Draft>(r));
  }
  return build.finish(outputs, true);
}

// Recomputes the first result from the other ones, if the record has a call for this.
void check_again(const Call& call, const std::vector<Tensor>& operands, const Values& want) {
  const std::string_view again = call.op->def().again;
  if (again.empty()) return;
  const Op& op = Registry::global().at(again);
  if (!op.def().dtypes.contains(want[0].dtype())) return;
  OperandList list;
  for (const Tensor& x : operands) list.add(x);
  for (std::size_t r = 1; r < want.size(); ++r) list.add(want[r]);
  const Values got = internal::run_all(op, list, op.attrs(call.attrs.values()));
  expect(same_bits(got[0], want[0]), call.label("again"),
         [&] { return fmt::format("got {}, want {}", show(got[0]), show(want[0])); });
}

}  // namespace

void check_graph(const Call& call) {
  if (call.op->def().data != nullptr) return;  // sizes depend on data
  std::vector<Tensor> operands, inputs;
  Values want;
  {
    OperandsContext context(*call.op);
    want = run(call);
    operands = std::move(context.operands);
  }
  if (!std::ranges::all_of(operands, is_dense)) return;
  check_again(call, operands, want);
  const std::string label = call.label("graph");
  const GraphRef graph = graph_of(call, operands, inputs);
  verify(*graph);
  const std::string text = to_text(*graph);
  const GraphRef again = parse_graph(text);
  expect(to_text(*again) == text, label,
         [&] { return fmt::format("{}\nreads back as\n{}", text, to_text(*again)); });
  expect(again->same(*graph), label, [&] { return "what reads back differs from\n" + text; });
  const GraphRef copied = read_binary(to_binary(*graph));
  expect(copied->same(*graph), label,
         [&] { return "other bytes were read than written\n" + text; });
  for (const GraphRef& each : {graph, again, copied}) {
    const std::vector<Tensor> got = interpret(*each, inputs);
    expect(got.size() == want.size(), label, [&] { return "another number of results\n" + text; });
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
      expect(same_bits(got[i], want[i]), label, [&] {
        return fmt::format("result {}: got {}, want {}", i, show(got[i]), show(want[i]));
      });
    }
  }
}

}  // namespace etude::matrix
