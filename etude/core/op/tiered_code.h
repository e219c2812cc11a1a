// SPDX-License-Identifier: Apache-2.0
// Machine code by tiers, of a scalar program or of a cluster. At first there is none, and
// precompiled kernels run. Once enough time has gone into that, code of Tier 1 and later of Tier 2
// is requested, made in the background, and swapped in by one atomic store. All tiers compute the
// same bits. Used by FusedProgram (kernels/) and ClusterCode (plan/); codegen/ makes the code.
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
  // Sets code of this tier, owned by `owner`, for the rest of the process. The highest tier is
  // used. Null code: none will come.
  void set_code(Tier tier, void* code, std::shared_ptr<const void> owner) const;

 protected:
  explicit TieredCode(Source source) : source_(source) {}
  ~TieredCode() = default;

  // The best code so far; null: none.
  void* best_code() const noexcept { return best_.load(std::memory_order_acquire); }
  // Code of this tier, made at once if missing. Null: this build makes no code.
  void* code_of(Tier tier) const;
  // To be called after a run that takes about `ns` without code: requests better code once the sum
  // justifies it.
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
