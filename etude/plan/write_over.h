// SPDX-License-Identifier: Apache-2.0
// Results that a kernel may write over its operands, for the planner. The oracle of plans has a
// definition of its own (plan_check.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "etude/core/op/op.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Whether the kernel may write result r over operand o. An element-wise kernel reads an element
// before it writes there; for other kernels, no other operand may be the same value.
inline bool may_write_over(const Graph::Node& node, const Prepared& p, std::size_t o, uint32_t r) {
  const bool may = node.results == 1 ? ((p.in_place >> o) & 1) != 0
                                     : r < p.results_over.size() && p.results_over[r] >= 0 &&
                                           static_cast<std::size_t>(p.results_over[r]) == o;
  if (!may || node.op.def().kind == Kind::kElementwise) return may;
  return std::ranges::count(node.operands, node.operands[o]) == 1;
}

}  // namespace etude::internal
