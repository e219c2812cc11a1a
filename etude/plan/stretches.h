// SPDX-License-Identifier: Apache-2.0
// The last part of planning. It divides the steps of a plan into stretches, each a cluster or a
// sequence of other steps, and the stretches into sections. The stretches of a section form a fork
// or run in turn.
#pragma once

#include <span>

#include "etude/core/op/rules.h"
#include "etude/graph/graph.h"
#include "etude/plan/plan.h"

namespace etude::internal {

// Call it when the plan has its steps and forks. `calls` are the prepared calls of the nodes of
// `graph`.
void find_stretches(Plan& plan, const Graph& graph, std::span<const RefPtr<Prepared>> calls);

}  // namespace etude::internal
