// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Rematerialisation: computes again, before a late reader, a value that is cheap to compute and
// would else be kept for that reader over the steps at which most bytes are alive: the result of a
// normalisation or of relu until the backward part of a training step, for one. What is cheap is
// said by the records (OpDef::is_cheap); a call reads what is alive at that step anyway, and so
// gives the same bits.
//
// Relies on: plans run the nodes in their order; no derivative is taken of the result, and no equal
// nodes are merged afterwards. Graphs stay as they are whose values take less than 1 MiB, or where
// the most bytes alive would fall by less than 1 / 32.
GraphRef recompute_cheap(const Graph& graph);

// The same from other sizes on, for tests.
struct RecomputeLimits {
  int64_t least_peak = 1 << 20;  // bytes alive at once: below, a plan is small enough
  int64_t least_bytes = 4096;    // of a value that is computed again
  bool only_if_lower = true;     // the graph stays as it is unless its peak falls
  // Where it may end, as a part of the peak: what lies below costs most time for what it saves.
  double enough = 0.66;
};
GraphRef recompute_cheap(const Graph& graph, const RecomputeLimits& limits);

}  // namespace etude::internal
