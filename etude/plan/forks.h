// SPDX-License-Identifier: Apache-2.0
// Forks: parts of a plan whose independent steps run in parallel (docs/design/0022). They are found
// from the values of a graph and estimates of time. The planner separates the memory of their
// branches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "etude/base/internal/ref_ptr.h"
#include "etude/core/op/rules.h"
#include "etude/graph/graph.h"
#include "etude/plan/call_time.h"

namespace etude::internal {

// Whether plans have forks.
enum class Forks : uint8_t {
  kNever,
  kIfFaster,  // by estimated time and memory, on more than one thread
  kAlways,    // wherever steps are independent: for tests
};
// ETUDE_FORKS (docs/environment.md) decides, unless a setting was made. threads: thread-safe.
Forks forks_setting() noexcept;
void set_forks(Forks forks) noexcept;

// Nodes [first, end) of a graph. Branch b is nodes [starts[b], starts[b + 1]). The first branch
// starts at `first`, or after views that several branches read.
struct Fork {
  std::size_t first = 0, end = 0;
  static constexpr std::size_t kMostBranches = 8;
  std::vector<std::size_t> starts;  // of the branches, then `end`
  double saved_us = 0;              // estimated, on two threads
};

struct ForkedOrder {
  std::vector<uint32_t> nodes;  // an order of the nodes in which branches are contiguous
  std::vector<Fork> forks;      // in that order; empty: nothing is worth a fork

  // Removes the fork that saves least.
  void drop_least();
};
// The branch of a node in that order; fork -1: none.
struct ForkSpot {
  int32_t fork = -1, branch = -1;
};
std::vector<ForkSpot> spots_of(const ForkedOrder& order);

// `times` is by node. A node with an effect is in no fork, and no node moves across it.
ForkedOrder find_forks(const Graph& graph, std::span<const RefPtr<Prepared>> calls,
                       std::span<const CallTime> times, Forks setting);

// The graph with its nodes in this order.
GraphRef in_order(const Graph& graph, std::span<const uint32_t> nodes);

}  // namespace etude::internal
