// SPDX-License-Identifier: Apache-2.0
// Calls of the ops that carry graphs, for the contexts and for what is built on them. A graph is an
// AttrObject here, since graphs lie above the core.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "etude/core/attrs.h"
#include "etude/core/op.h"
#include "etude/core/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

using AttrObjects = std::vector<RefPtr<const AttrObject>>;

// Branch number operands[0], on the other operands (op switch_case).
Values switch_graphs(const AttrObjects& branches, Operands operands, CallSite where);
// `body` for each row (op scan): the first `carried` operands are carried from step to step, and
// the `rows` that follow have `length` rows each.
Values scan_graph(const AttrObject& body, Operands operands, int64_t carried, int64_t rows,
                  int64_t length, CallSite where);
// The same as a node of a graph, for passes; `is_reverse`: from the last row to the first one. And
// nodes that make rows of tensors, tensors of rows, and take rows [first, end) (ops stack, unstack,
// slice).
struct OpCall {
  const Op& op;
  Attrs attrs;
};
OpCall scan_call(const AttrObject& body, int64_t carried, int64_t rows, int64_t length,
                 bool is_reverse);
OpCall stack_call();
OpCall unstack_call();
OpCall rows_call(int64_t first, int64_t end);
// `body` as long as `condition` says (op while_loop), at most `max_steps` times if that is not
// negative.
Values loop_graph(const AttrObject& condition, const AttrObjects& body, Operands operands,
                  int64_t carried, int64_t max_steps, CallSite where);

// What a call by a rule carries (op custom_call).
struct CustomCallAttrs {
  const AttrObject* value;  // a graph of all operands, which gives the first `results` of them
  // Each takes cotangents of differentiable results and the kept values, and gives gradients of the
  // inputs. None: derivatives are refused for the reason `fault`.
  AttrObjects rules;
  // Which cotangents each rule takes, bit i for differentiable result i. Where others arrive, the
  // derivative is refused for the reason `fault`. Empty: the only rule takes all of them, and zeros
  // stand for missing ones.
  std::vector<int64_t> sets;
  int64_t results, inputs;  // how many operands these are; the others are kept values
  bool is_for_forward;      // whether forward mode goes by the rule as well
  std::string name;         // for messages
  std::string fault;
};
// The results under new identities, of which derivatives know by the rule alone.
Values custom_call(const CustomCallAttrs& attrs, Operands operands);
// x, once the others are known (op after).
Tensor after(const Tensor& x, std::span<const Tensor> others);

}  // namespace internal
}  // namespace etude
