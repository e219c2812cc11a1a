// SPDX-License-Identifier: Apache-2.0
// The machine code of a scalar program or of a cluster, by tiers. At first precompiled kernels run.
// Once they have used enough time, code of tier 1 and later of tier 2 is compiled in the background
// and swapped in by one atomic store. All tiers compute the same bits. Used by FusedProgram
// (kernels/) and ClusterCode (plan/); codegen/ makes the code.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <variant>

#include "etude/base/scalars/scalar_program.h"
#include "etude/core/op/tier.h"

namespace etude::internal {

struct Cluster;  // plan/cluster.h

// An object lives for the rest of the process. threads: thread-safe.
class TieredCode {
 public:
  // The description that code is made from; it belongs to the derived class.
  using Source = std::variant<const scalar::Program*, const Cluster*>;

  TieredCode(const TieredCode&) = delete;
  TieredCode& operator=(const TieredCode&) = delete;

  const Source& source() const noexcept { return source_; }
  // The best tier so far.
  Tier tier() const noexcept { return tier_.load(std::memory_order_relaxed); }
  // Sets the code of this tier, which `owner` owns and keeps until the process ends. Runs use the
  // highest tier. Null code: no code will follow.
  void set_code(Tier tier, void* code, std::shared_ptr<const void> owner) const;

 protected:
  explicit TieredCode(Source source) : source_(source) {}
  ~TieredCode() = default;

  // The best code so far; null: none.
  void* best_code() const noexcept { return best_.load(std::memory_order_acquire); }
  // Returns the code of this tier, and compiles it first if it is missing. Null: this build makes
  // no code.
  void* code_of(Tier tier) const;
  // Call this after each run that takes about `ns` without machine code. It requests better code
  // once the sum of these times justifies it.
  void note_run(uint64_t ns) const noexcept {
    if (tier() != Tier::kBest) add_run(ns);
  }

 private:
  void* find(Tier tier) const;
  void add_run(uint64_t ns) const noexcept;

  const Source source_;
  mutable std::atomic<void*> best_{nullptr};
  mutable std::atomic<Tier> tier_{Tier::kNone};
  mutable std::atomic<uint64_t> spent_{0};  // nanoseconds so far; updates may be lost
  mutable std::atomic<Tier> asked_for_{Tier::kNone};
  mutable std::mutex mutex_;
  mutable std::array<void*, 3> by_tier_{};
  mutable std::array<std::shared_ptr<const void>, 3> owners_{};
};

// Makes code of this tier and passes it to set_code(), in the background or before it returns.
// Defined in etude/startup.cc. threads: thread-safe.
void make_code_in_background(const TieredCode& code, Tier tier) noexcept;
void make_code_now(const TieredCode& code, Tier tier) noexcept;

}  // namespace etude::internal
