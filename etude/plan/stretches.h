// SPDX-License-Identifier: Apache-2.0
// The last part of planning: divides the steps of a plan into stretches, which are clusters or
// runs of other steps, and the stretches into sections, which are forks or run in turn.
#pragma once

#include <span>

#include "etude/core/op/rules.h"
#include "etude/graph/graph.h"
#include "etude/plan/plan.h"

namespace etude::internal {

// Needs the plan's steps and forks. `calls` are the prepared calls of the nodes of `graph`.
void find_stretches(Plan& plan, const Graph& graph, std::span<const RefPtr<Prepared>> calls);

}  // namespace etude::internal
