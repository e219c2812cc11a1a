// SPDX-License-Identifier: Apache-2.0
// A call by a rule in a graph: the rule is traced where the call is, into a graph that the node
// carries (op custom_call), so that whoever has the graph can differentiate it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "etude/autodiff/custom_rule.h"
#include "etude/core/tensor.h"
#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The results under new identities, as a node of the innermost context, which is a trace. A rule
// that cannot be a graph is an error once a derivative goes by it, and not before.
std::vector<Tensor> trace_rule(const RuleCall& call);
// What such a node stands for where nobody differentiates: a graph of all operands, which gives the
// first `count` of them.
GraphRef first_of(std::span<const Tensor> operands, std::size_t count);
// Whether derivatives pass through it.
inline bool moves(const Tensor& x) { return x.has_value() && is_differentiable(x.dtype()); }

}  // namespace internal
}  // namespace etude
