// SPDX-License-Identifier: Apache-2.0
// The estimated time of a call, by its bytes and operations. Used by the planner and forks.h. It is
// not measured. It decides about forks, so no result depends on it.
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

// Adds the time of a call whose kernel makes more than a few passes over its elements, such as a
// product. It depends on the prepared parameters. Returns false for other kernels. Defined in
// etude/startup.cc.
bool estimate_call(const Prepared& call, CallTime& time);

// The time of a node with this prepared call. If the call runs graphs in its attributes, they
// already have plans.
CallTime time_of(const Graph& graph, const Graph::Node& node, const Prepared& call);

}  // namespace etude::internal
