// SPDX-License-Identifier: Apache-2.0
// Makes plans. Used by Plan::of alone.
#pragma once

#include <cstdint>
#include <span>

#include "etude/graph/graph.h"
#include "etude/plan/plan.h"

namespace etude::internal {

// The plan of `graph`, which the passes made of `keeper`: with forks where they pay. `dying` as in
// Plan::of. throws: kUnimplemented for an op without a kernel, naming it and its line.
RefPtr<const Plan> best_plan(const Graph& keeper, const GraphRef& graph,
                             std::span<const uint8_t> dying);

}  // namespace etude::internal
