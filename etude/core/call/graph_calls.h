// SPDX-License-Identifier: Apache-2.0
// Calls of the ops that have graphs as attributes, for the contexts and their users. A graph is an
// AttrObject here, since the graph layer is above the core.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "etude/core/call/values.h"
#include "etude/core/op/attrs.h"
#include "etude/core/op/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

using AttrObjects = std::vector<RefPtr<const AttrObject>>;

// Runs branch number operands[0] on the other operands (op switch_case).
Values switch_graphs(const AttrObjects& branches, Operands operands, CallSite where);
// Runs `body` for each row (op scan). The first `carried` operands are carried from step to step.
// The next `rows` operands have `length` rows each.
Values scan_graph(const AttrObject& body, Operands operands, int64_t carried, int64_t rows,
                  int64_t length, CallSite where);
// The same call as a node of a graph, for passes. With `is_reverse` it runs from the last row to
// the first. Further nodes stack tensors to rows, split rows to tensors, and take the rows [first,
// end) (ops stack, unstack, slice).
struct OpCall {
  const Op& op;
  Attrs attrs;
};
OpCall scan_call(const AttrObject& body, int64_t carried, int64_t rows, int64_t length,
                 bool is_reverse);
OpCall stack_call();
OpCall unstack_call();
OpCall rows_call(int64_t first, int64_t end);
// Runs `body` while `condition` holds (op while_loop), at most `max_steps` times; a negative
// `max_steps` means no limit.
Values loop_graph(const AttrObject& condition, const AttrObjects& body, Operands operands,
                  int64_t carried, int64_t max_steps, CallSite where);

// The attributes of a call with a custom rule (op custom_call).
struct CustomCallAttrs {
  const AttrObject* value;  // a graph of all operands that returns the first `results` operands
  // Each rule maps cotangents of differentiable results and the first residuals to gradients of the
  // inputs. All rules take equally many residuals; `tangents` takes all. Empty: derivatives are
  // refused with the reason `fault`.
  AttrObjects rules;
  // The cotangents that each rule takes: bit i means differentiable result i. For other
  // combinations of cotangents the derivative is refused with the reason `fault`. Empty: there is
  // one rule, which takes all cotangents, with zeros for missing cotangents.
  std::vector<int64_t> sets;
  int64_t results, inputs;  // numbers of operands; the remaining operands are residuals
  bool is_for_forward;      // whether forward mode uses the rule as well
  std::string name;         // for messages
  std::string fault;
  // Maps tangents of the inputs and the residuals to tangents of the differentiable results. Null:
  // forward mode runs the transpose of the rule; with a reason `forward_fault` it is refused.
  const AttrObject* tangents = nullptr;
  std::string forward_fault = {};
};
// Returns the results as new values whose only derivative is the rule.
Values custom_call(const CustomCallAttrs& attrs, Operands operands);
// Returns x as a value that is computed after the others (op after).
Tensor after(const Tensor& x, std::span<const Tensor> others);

}  // namespace internal
}  // namespace etude
