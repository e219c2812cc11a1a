// SPDX-License-Identifier: Apache-2.0
// The estimated time of a call, by its bytes and operations. Used by the planner and forks.h. Not a
// measurement: it decides about forks, and no bit depends on it.
#pragma once

#include "etude/core/op/rules.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Microseconds on one thread.
struct CallTime {
  double alone = 0;  // of work that one thread does
  double split = 0;  // of work that the kernel itself splits over threads

  CallTime& operator+=(const CallTime& other) {
    alone += other.alone;
    split += other.split;
    return *this;
  }
};

// Adds the time of a call whose kernel does more than a few passes over its elements, such as a
// product, by its prepared parameters. Returns false for other kernels. Defined in
// etude/startup.cc.
bool estimate_call(const Prepared& call, CallTime& time);

// The time of a node with this prepared call. Graphs in its attributes that the call runs have a
// plan already.
CallTime time_of(const Graph& graph, const Graph::Node& node, const Prepared& call);

}  // namespace etude::internal
