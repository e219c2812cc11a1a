// SPDX-License-Identifier: Apache-2.0
// Regions: runs of a plan's calls on a few elements each, or all steps of a loop of such calls,
// that are compiled to one function of machine code (docs/design/0016). The plan runs its steps
// until the code is compiled; both compute the same bits. Used by plans and loops (plan.h);
// codegen/ makes the code.
//
// Invariants, verified by check():
// * Each value is the result of a call, carried, or loaded: exactly one of these, once. A call is
//   after those that compute its operands.
// * A value is loaded before the first call that reads it, and stored after the call that computes
//   it. Loads and stores are in the order of the plan's steps, so that its places stay valid.
// * No value has more than kMostElements. All are float32, or bools in bytes of 0 and 1.
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

// The computation of a call in terms of its elements, so that it can be inlined. Kernels describe
// it (kernels/cpu/elementwise/small_calls.h): no op is named here.
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
  // By operand: the index of the element that element i of the result reads; "": index i. kMove:
  // one list, which numbers the elements of all operands consecutively.
  std::vector<List> at;
  // kProgram: applied to those elements.
  std::shared_ptr<const scalar::Program> program;
  std::vector<double> params;
  // kProduct: the sum, from 0, of `depth` products, each a fused multiply-add; each step advances
  // by `strides` elements.
  uint32_t depth = 0;
  std::array<uint32_t, 2> strides{};
  // kFold: reductions one after another, then a division.
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
  // The location of a value: `slot` is one of the pointer arguments of the function. In a loop,
  // step s adds s strides; a backward loop starts at the end.
  struct Place {
    uint32_t value = 0, slot = 0;
    int64_t offset = 0, stride = 0;  // bytes
  };
  // A carried value: `before` of a step is `after` of the previous one. The first step loads it,
  // and the last one stores it.
  struct Carried {
    uint32_t before = 0, after = 0;
    Place from, to;
  };

  std::vector<Value> values;
  std::vector<Call> calls;
  std::vector<Place> loads, stores;
  bool is_loop = false;  // else one step
  bool is_reverse = false;
  std::vector<Carried> carried;

  // An estimate of the number of vector instructions, which limits the size of a function.
  static std::size_t work(const SmallCall& call, std::size_t count);
  // All parameters, in the order of calls.
  std::vector<double> params() const;
};

// All but the parameters: regions with equal texts share a function.
std::string to_string(const Region& region);
// throws: kInternal if an invariant is broken.
void check(const Region& region);

class RegionCode;

// Describes calls and compiles code. A folder above this one sets it (codegen/serve.h). No function
// throws except `tell`, when out of memory.
struct RegionCompiler {
  // Whether a call can be inlined; describes it in `out`.
  bool (*tell)(const Prepared& call, std::span<const Type* const> operands, SmallCall& out);
  // The fixed tier; none: by run time.
  std::optional<Tier> (*fixed_tier)() noexcept;
  // Compiles this tier and calls RegionCode::set_code(), in the background or before it returns.
  void (*soon)(const RegionCode& region, Tier tier) noexcept;
  void (*now)(const RegionCode& region, Tier tier) noexcept;
};
// `compiler` must live for the rest of the process. thread-safe.
void set_region_compiler(const RegionCompiler& compiler) noexcept;
// Null: no code is made.
const RegionCompiler* region_compiler() noexcept;

// Whether plans look for regions.
inline bool makes_regions() noexcept {
  const RegionCompiler* const compiler = region_compiler();
  return compiler != nullptr && compiler->fixed_tier() != Tier::kNone;
}

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
