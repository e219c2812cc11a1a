// SPDX-License-Identifier: Apache-2.0
// Steps of plans on devices with a queue. They enqueue their work under the op and line of their
// node, so that a late error names both (core/internal/late_calls.h).
#pragma once

#include "etude/core/op/rules.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// The call of node i with a note of its op, line and functions.
KernelState noted_state(const Graph& graph, std::size_t i, const RefPtr<Prepared>& call,
                        RefPtr<const RefCounted>& owner);
// Runs it.
bool run_noted(const KernelCall& call);

}  // namespace etude::internal
