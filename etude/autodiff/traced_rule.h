// SPDX-License-Identifier: Apache-2.0
// Calls with custom rules inside a trace. The rule is traced at the call, into a graph that the
// node stores (op custom_call), so that the enclosing graph can be differentiated.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "etude/autodiff/internal/custom_rule.h"
#include "etude/core/tensor.h"
#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Adds the call as a node to the innermost context, which is a trace, and returns the results under
// new ids. If the rule cannot be traced, the error is thrown when a derivative needs the rule.
std::vector<Tensor> trace_rule(const RuleCall& call);
// The value of such a node without derivatives: a graph that takes all operands and returns the
// first `count` of them.
GraphRef first_of(std::span<const Tensor> operands, std::size_t count);
// Whether x is differentiable.
inline bool moves(const Tensor& x) { return x.has_value() && is_differentiable(x.dtype()); }

}  // namespace internal
}  // namespace etude
