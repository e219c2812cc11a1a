// SPDX-License-Identifier: Apache-2.0
// The machine code of regions (region.h). Used by plans and loops (plan.h); codegen/ makes it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "etude/core/op/rules.h"
#include "etude/core/op/tier.h"
#include "etude/plan/region.h"

namespace etude::internal {

class RegionCode;

// Whether a prepared call can be inlined; describes it in `out`. throws: when out of memory.
// Defined in etude/startup.cc, as are the next two.
bool tell_call(const Prepared& call, std::span<const Type* const> operands, SmallCall& out);
// Makes code of this tier and passes it to RegionCode::set_code(), in the background or before it
// returns. thread-safe.
void make_code_soon(const RegionCode& region, Tier tier) noexcept;
void make_code_now(const RegionCode& region, Tier tier) noexcept;

// Whether plans look for regions.
inline bool makes_regions() noexcept { return fixed_tier() != Tier::kNone; }

// The code of one region, for the rest of the process. thread-safe.
class RegionCode {
 public:
  // `slots` are laid out as the region states; `steps` is at least 1, and 1 unless it is a loop.
  using Run = void (*)(void* const* slots, const double* params, std::size_t steps);

  // The code for this text. Null if there are 4,096 others, so that programs that are made
  // repeatedly do not exhaust the memory. With a fixed tier its code is ready, unless it could not
  // be made.
  static const RegionCode* of(Region region);

  explicit RegionCode(Region region) : region_(std::move(region)) {}
  RegionCode(const RegionCode&) = delete;
  RegionCode& operator=(const RegionCode&) = delete;

  const Region& region() const noexcept { return region_; }

  // The best code so far, null: none, for a run whose calls would take about `ns`. Requests better
  // code once the accumulated time justifies it.
  Run take(uint64_t ns) const noexcept {
    const Run run = run_.load(std::memory_order_acquire);
    if (tier_.load(std::memory_order_relaxed) != Tier::kBest) note(ns);
#ifdef ETUDE_ASSERTIONS
    if (run != nullptr) runs_.fetch_add(1, std::memory_order_relaxed);
#endif
    return run;
  }

  // Sets code of this tier, owned by `owner`. The highest tier is used.
  void set_code(Tier tier, Run run, std::shared_ptr<const void> owner) const;
  Tier tier() const noexcept { return tier_.load(std::memory_order_relaxed); }

  // The number of runs of code in place of steps, over all regions; 0 in builds without assertions.
  static uint64_t runs() noexcept { return runs_.load(std::memory_order_relaxed); }

 private:
  void note(uint64_t ns) const noexcept;

  const Region region_;
  mutable std::atomic<Run> run_{nullptr};
  mutable std::atomic<Tier> tier_{Tier::kNone};
  mutable std::atomic<uint64_t> work_{0};  // nanoseconds so far; updates may be lost
  mutable std::atomic<Tier> asked_for_{Tier::kNone};
  mutable std::mutex mutex_;
  mutable std::array<std::shared_ptr<const void>, 3> owners_{};
  static inline std::atomic<uint64_t> runs_{0};
};

}  // namespace etude::internal
