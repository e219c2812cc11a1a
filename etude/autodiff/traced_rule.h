// SPDX-License-Identifier: Apache-2.0
// A call by a rule in a graph: the rule is traced at the call, into a graph that the node carries
// (op custom_call), so that the enclosing graph can be differentiated.
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

// The results under new ids, as a node of the innermost context, which is a trace. If the rule
// cannot be a graph, the error is thrown when a derivative needs it.
std::vector<Tensor> trace_rule(const RuleCall& call);
// The meaning of such a node without derivatives: a graph of all operands that returns the first
// `count` of them.
GraphRef first_of(std::span<const Tensor> operands, std::size_t count);
// Whether x is differentiable.
inline bool moves(const Tensor& x) { return x.has_value() && is_differentiable(x.dtype()); }

}  // namespace internal
}  // namespace etude
