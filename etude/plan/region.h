// SPDX-License-Identifier: Apache-2.0
// Regions: runs of a plan's calls on a few elements each, or all steps of a loop of such calls,
// that become one function of machine code (docs/design/0016). The plan runs its steps until that
// code is there; both give the same bits. Plans and loops use them (plan.h); codegen/ makes the
// code.
//
// Invariants, which check() looks at:
// * Each value is a call's result, carried, or loaded, one of these, and once. A call comes behind
//   those that give its operands.
// * A value is loaded before the first call that reads it, and stored behind the call that gives
// it:
//   loads and stores stand in the order of the plan's steps, so that its places serve unchanged.
// * No value has more than kMostElements. All are float32, or truths in bytes of 0 and 1.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/base/scalars/scalar_program.h"
#include "etude/core/op/rules.h"
#include "etude/core/op/tier.h"

namespace etude::internal {

// What a call computes, told of its elements, so that it can be written in line. Kernels tell it
// (kernels/cpu/elementwise/small_calls.h): no op is named here.
struct SmallCall {
  enum class Kind : uint8_t { kProgram, kProduct, kFold, kMove };
  enum class Fold : uint8_t { kSum, kProd, kMax, kMin };
  static constexpr std::size_t kMostTold = 64;  // elements of an operand or of the result
  using List = std::vector<uint16_t>;
  // [outer, size, inner] to [outer, inner], in the order of kernels/cpu/reduce/reduce.h.
  struct Axes {
    uint32_t outer, size, inner;
  };

  Kind kind = Kind::kMove;
  // By operand: which element of it is read for element i of the result; "": element i.
  // kMove: one list, which counts the elements of all operands one behind the other.
  std::vector<List> at;
  // kProgram: of those elements.
  std::shared_ptr<const scalar::Program> program;
  std::vector<double> params;
  // kProduct: the sum, from 0, of `depth` products, each a fused multiply-add; each further one
  // reads `strides` elements on.
  uint32_t depth = 0;
  std::array<uint32_t, 2> strides{};
  // kFold: one pass after the other, and then a division.
  Fold fold = Fold::kSum;
  std::vector<Axes> passes;
  float divisor = 1;
};

struct Region {
  static constexpr std::size_t kMostElements = SmallCall::kMostTold;  // four vectors of 16
  static constexpr std::size_t kMostSlots = 64;                       // of a loop
  static constexpr std::size_t kMostWork = 2000;  // of one function, in units of work()

  struct Value {
    uint32_t count = 1;
    bool is_truth = false;
  };
  struct Call {
    SmallCall what;
    std::vector<uint32_t> operands;  // values
    uint32_t result = 0;
  };
  // Where a value lies: `slot` is one of the pointers that the function is given. In a loop step s
  // finds it s strides further, or, from the end on, in a loop that goes backwards.
  struct Place {
    uint32_t value = 0, slot = 0;
    int64_t offset = 0, stride = 0;  // bytes
  };
  // What a step has as `before` is what the step before it left as `after`; the first one loads it,
  // and what the last one leaves is stored.
  struct Carried {
    uint32_t before = 0, after = 0;
    Place from, to;
  };

  std::vector<Value> values;
  std::vector<Call> calls;
  std::vector<Place> loads, stores;
  bool is_loop = false;  // else there is one step
  bool is_reverse = false;
  std::vector<Carried> carried;

  // About how many instructions on vectors: what decides how much becomes one function.
  static std::size_t work(const SmallCall& call, std::size_t count);
  // All parameters, in the order of calls.
  std::vector<double> params() const;
};

// All but the parameters: equal texts are served by one function.
std::string to_string(const Region& region);
// throws: kInternal if an invariant is broken.
void check(const Region& region);

class RegionCode;

// Who tells what calls compute, and makes code; what stands above this folder sets it
// (codegen/serve.h). None of the functions throws but `tell`, which runs out of memory.
struct RegionCompiler {
  // Whether a call is one that can be written in line.
  bool (*tell)(const Prepared& call, std::span<const Type* const> operands, SmallCall& out);
  // Which tier is fixed; nothing: as earned.
  std::optional<Tier> (*fixed_tier)() noexcept;
  // Code of this tier by RegionCode::set_code(), soon or before it returns.
  void (*soon)(const RegionCode& region, Tier tier) noexcept;
  void (*now)(const RegionCode& region, Tier tier) noexcept;
};
// Of an object that lives on. thread-safe.
void set_region_compiler(const RegionCompiler& compiler) noexcept;
// Null: no code is made.
const RegionCompiler* region_compiler() noexcept;

// Whether plans are to look for regions.
inline bool makes_regions() noexcept {
  const RegionCompiler* const compiler = region_compiler();
  return compiler != nullptr && compiler->fixed_tier() != Tier::kNone;
}

// The code of one region, for as long as the process runs. thread-safe.
class RegionCode {
 public:
  // `slots` lie where the region says; `steps` is at least 1, and 1 unless it is a loop.
  using Run = void (*)(void* const* slots, const double* params, std::size_t steps);

  // The one of this text. Null if there are 4,096 others, so that programs which are made again and
  // again do not fill the memory. With a fixed tier its code is there, unless it could not be made.
  static const RegionCode* of(Region region);

  explicit RegionCode(Region region) : region_(std::move(region)) {}
  RegionCode(const RegionCode&) = delete;
  RegionCode& operator=(const RegionCode&) = delete;

  const Region& region() const noexcept { return region_; }

  // The best code that there is, null: none yet; for a run in which the calls that it stands for
  // would take about so long. Asks for better code once that is earned.
  Run take(uint64_t ns) const noexcept {
    const Run run = run_.load(std::memory_order_acquire);
    if (tier_.load(std::memory_order_relaxed) != Tier::kBest) note(ns);
#ifdef ETUDE_ASSERTIONS
    if (run != nullptr) runs_.fetch_add(1, std::memory_order_relaxed);
#endif
    return run;
  }

  // Code of this tier, which `owner` keeps. The highest tier is the best.
  void set_code(Tier tier, Run run, std::shared_ptr<const void> owner) const;
  Tier tier() const noexcept { return tier_.load(std::memory_order_relaxed); }

  // How often code was taken in the place of steps, of all regions; 0 in builds without assertions.
  static uint64_t runs() noexcept { return runs_.load(std::memory_order_relaxed); }

 private:
  void note(uint64_t ns) const noexcept;

  const Region region_;
  mutable std::atomic<Run> run_{nullptr};
  mutable std::atomic<Tier> tier_{Tier::kNone};
  mutable std::atomic<uint64_t> work_{0};  // nanoseconds so far; some may be lost
  mutable std::atomic<Tier> asked_for_{Tier::kNone};
  mutable std::mutex mutex_;
  mutable std::array<std::shared_ptr<const void>, 3> owners_{};
  static inline std::atomic<uint64_t> runs_{0};
};

}  // namespace etude::internal
