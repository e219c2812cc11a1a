// SPDX-License-Identifier: Apache-2.0
// The machine code of clusters (cluster.h). Used by plans and loops (plan.h); codegen/ makes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "etude/core/op/rules.h"
#include "etude/core/op/tiered_code.h"
#include "etude/plan/cluster.h"

namespace etude::internal {

// Whether a prepared call can be inlined; describes it in `out`. throws: when out of memory.
// Defined in etude/startup.cc.
bool describe_call(const Prepared& call, std::span<const Type* const> operands, SmallCall& out);

// Whether plans look for clusters.
inline bool makes_clusters() noexcept { return fixed_tier() != Tier::kNone; }

// The machine code of one cluster. It is kept until the process ends. threads: thread-safe.
class ClusterCode : public TieredCode {
 public:
  // The layout of `slots` is in the cluster. `steps` is at least 1; it is 1 unless the cluster is a
  // loop.
  using Run = void (*)(void* const* slots, const double* params, std::size_t steps);

  // Returns the code of `cluster`, shared by all clusters with the same text. Null if the process
  // already holds 4,096 others: this bounds the memory of a program that makes new graphs
  // repeatedly. With a fixed tier its code is ready, unless compilation failed.
  static const ClusterCode* of(Cluster cluster);

  explicit ClusterCode(Cluster cluster) : TieredCode(&cluster_), cluster_(std::move(cluster)) {}

  const Cluster& cluster() const noexcept { return cluster_; }

  // Returns the best code so far (null: none) for a run that takes about `ns` without it. Requests
  // better code once the accumulated time justifies it.
  Run take(uint64_t ns) const noexcept {
    const Run run = reinterpret_cast<Run>(best_code());
    note_run(ns);
#ifdef ETUDE_ASSERTIONS
    if (run != nullptr) runs_.fetch_add(1, std::memory_order_relaxed);
#endif
    return run;
  }

  // The number of runs of code in place of steps, over all clusters; 0 in builds without
  // assertions.
  static uint64_t runs() noexcept { return runs_.load(std::memory_order_relaxed); }

 private:
  const Cluster cluster_;
  static inline std::atomic<uint64_t> runs_{0};
};

}  // namespace etude::internal
