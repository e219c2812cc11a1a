// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "etude/graph/graph.h"

namespace etude::internal {

// Rematerialisation: recomputes a cheap value before a late reader, instead of keeping it over the
// peak of live memory. Example: the result of a normalisation or of relu, which the backward part
// of a training step reads. Records mark cheap ops (OpDef::is_cheap). The repeated call reads
// values that are still live at that step, and returns the same bits.
//
// Relies on: plans run the nodes in order; no derivative is computed of the result, and equal nodes
// are not merged afterwards. Graphs whose values take less than 1 MiB are unchanged, and so are
// graphs whose peak would fall by less than 1 / 32.
GraphRef recompute_cheap(const Graph& graph);

// The same with other limits, for tests.
struct RecomputeLimits {
  int64_t least_peak = 1 << 20;  // peak bytes below which a plan is small enough
  int64_t least_bytes = 4096;    // of a recomputed value
  bool only_if_lower = true;     // the graph is unchanged unless its peak falls
  // The target, as a fraction of the peak: further reduction costs too much time for its gain.
  double enough = 0.66;
};
GraphRef recompute_cheap(const Graph& graph, const RecomputeLimits& limits);

}  // namespace etude::internal
