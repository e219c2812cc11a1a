// SPDX-License-Identifier: Apache-2.0
// The machine code of regions (region.h). Used by plans and loops (plan.h); codegen/ makes it.
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
bool tell_call(const Prepared& call, std::span<const Type* const> operands, SmallCall& out);

// Whether plans look for regions.
inline bool makes_regions() noexcept { return fixed_tier() != Tier::kNone; }

// The code of one region, for the rest of the process. thread-safe.
class RegionCode : public TieredCode {
 public:
  // `slots` are laid out as the region states; `steps` is at least 1, and 1 unless it is a loop.
  using Run = void (*)(void* const* slots, const double* params, std::size_t steps);

  // The code for this text. Null if there are 4,096 others, so that programs that are made
  // repeatedly do not exhaust the memory. With a fixed tier its code is ready, unless it could not
  // be made.
  static const RegionCode* of(Region region);

  explicit RegionCode(Region region) : TieredCode(&region_), region_(std::move(region)) {}

  const Region& region() const noexcept { return region_; }

  // The best code so far, null: none, for a run whose calls would take about `ns`. Requests better
  // code once the accumulated time justifies it.
  Run take(uint64_t ns) const noexcept {
    const Run run = reinterpret_cast<Run>(best_code());
    note_run(ns);
#ifdef ETUDE_ASSERTIONS
    if (run != nullptr) runs_.fetch_add(1, std::memory_order_relaxed);
#endif
    return run;
  }

  // The number of runs of code in place of steps, over all regions; 0 in builds without assertions.
  static uint64_t runs() noexcept { return runs_.load(std::memory_order_relaxed); }

 private:
  const Region region_;
  static inline std::atomic<uint64_t> runs_{0};
};

}  // namespace etude::internal
