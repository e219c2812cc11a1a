// SPDX-License-Identifier: Apache-2.0
// Scalar programs that no record has, on float32: what runs of element-wise calls in a graph
// become. At first they run node by node on tiles that stay in the cache, by the kernels of the
// records of their functions (Tier 0); once they have run for long enough, as machine code that
// codegen/ makes meanwhile (Tier 1 in little time, Tier 2 for good). All tiers give the same bits.
// Used by the kernel of element-wise calls (elementwise.cc).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/core/op/tier.h"

namespace etude::kernels::cpu {

// Of a record's float32 kernels the one for the best instruction set that was compiled
// (simd/program.h); null: it has none.
ProgramKernel kernel_for_this_machine(const ScalarDef& def);

using internal::Tier;

class FusedProgram;

// While one lives, kernels that its thread makes ready run machine code that is made then, also
// where a record has a kernel of its own: what is compiled ahead of time takes that code along.
class CodeScope {
 public:
  CodeScope() noexcept { ++open_; }
  CodeScope(const CodeScope&) = delete;
  CodeScope& operator=(const CodeScope&) = delete;
  ~CodeScope() { --open_; }
  static bool is_open() noexcept { return open_ > 0; }

 private:
  static inline thread_local constinit int open_ = 0;
};

// Who makes machine code (codegen/serve.h). Kernels know it by these functions alone.
struct FusedCompiler {
  // Code of this tier by FusedProgram::set_code(), soon or before it returns; neither throws.
  void (*soon)(const FusedProgram& program, Tier tier) noexcept;
  void (*now)(const FusedProgram& program, Tier tier) noexcept;
};
// Of an object that lives on; called before programs run. thread-safe.
void set_fused_compiler(const FusedCompiler& compiler) noexcept;

// Which tier kernels that are prepared from now on run at: what the environment variable ETUDE_TIER
// (0, 1 or 2) says, or a test; nothing: as earned. Where no code is made, tiles run in its place.
// thread-safe.
std::optional<Tier> fixed_tier() noexcept;
void fix_tier(std::optional<Tier> tier) noexcept;

// One for each program, for as long as the process runs. thread-safe.
class FusedProgram {
 public:
  // Null for a program with a function that has no kernel on float32.
  static const FusedProgram* of(const ScalarDef& def);
  // The same for any program, of which code() alone is asked: tiles may lack a function of it.
  static const FusedProgram* for_code(const ScalarDef& def);

  explicit FusedProgram(const scalar::Program& program);
  FusedProgram(const FusedProgram&) = delete;
  FusedProgram& operator=(const FusedProgram&) = delete;

  const scalar::Program& program() const noexcept { return program_; }

  // out[i] = program(in[0][i], ...) for n elements: by the best code that there is, which is asked
  // for as it is earned. `out` may be an operand.
  void run(void* out, const void* const* in, const double* params, std::size_t n) const {
    const ProgramKernel code = code_.load(std::memory_order_acquire);
    if (code == nullptr) return run_first(out, in, params, n);
    code(out, in, params, n);
    if (tier_.load(std::memory_order_relaxed) != Tier::kBest) note_work(n);
  }
  // The same, on tiles.
  void run_tiles(void* out, const void* const* in, const double* params, std::size_t n) const;

  // Code of this tier, which `owner` keeps; it stays for as long as the process runs. The highest
  // tier is the best. Null code: there will be none.
  void set_code(Tier tier, ProgramKernel code, std::shared_ptr<const void> owner) const;
  // Made at once if it is not there. Null: no code is made in this build.
  ProgramKernel code(Tier tier) const;
  // The best that there is.
  Tier tier() const noexcept { return tier_.load(std::memory_order_relaxed); }

 private:
  // A call of a function: where its operands and its result lie.
  struct Step {
    ProgramKernel run = nullptr;
    uint8_t operands = 0;
    uint8_t out = 0;  // a slot; kResult: the result of the program
    std::array<uint8_t, 3> in{};
  };
  // A number in all elements of a slot, before the steps.
  struct Number {
    uint8_t slot = 0;
    int16_t param = -1;  // its number; -1: `value`
    float value = 0;
  };
  static constexpr uint8_t kResult = 255;
  static constexpr uint8_t kFirstOperand = 128;  // operand i of the program

  void place_nodes();
  void run_first(void* out, const void* const* in, const double* params, std::size_t n) const;
  void note_work(std::size_t n) const;

  const scalar::Program program_;
  std::vector<Step> steps_;
  std::vector<Number> numbers_;
  std::size_t slots_ = 0;
  std::size_t tile_ = 0;  // elements

  mutable std::atomic<ProgramKernel> code_{nullptr};
  mutable std::atomic<Tier> tier_{Tier::kNone};
  mutable std::atomic<uint64_t> work_{0};  // estimated nanoseconds so far; some may be lost
  mutable std::atomic<Tier> asked_for_{Tier::kNone};
  mutable std::mutex mutex_;
  mutable std::array<ProgramKernel, 3> by_tier_{};
  mutable std::array<std::shared_ptr<const void>, 3> owners_{};
};

}  // namespace etude::kernels::cpu
