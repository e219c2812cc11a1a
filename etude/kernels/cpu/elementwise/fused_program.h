// SPDX-License-Identifier: Apache-2.0
// Scalar programs without a record, on float32: the fused element-wise calls of graphs. At first
// they run node by node on tiles that stay in the cache, with the kernels of the records of their
// functions (tier 0). After enough run time they run as machine code that codegen/ makes in the
// background (tier 1 compiles fast, tier 2 runs fastest). All tiers compute the same bits. Used by
// the kernel of element-wise calls (elementwise.cc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/core/op/tiered_code.h"

namespace etude::kernels::cpu {

// The float32 kernel of a record for the best instruction set that was compiled (simd/program.h);
// null: none.
ProgramKernel kernel_for_this_machine(const ScalarDef& def);

using internal::Tier;

// While alive, kernels that this thread prepares run new machine code, even if a record has a
// kernel of its own. Ahead-of-time compilation stores that code in its output.
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

// One object for each program. It lives until the process ends. threads: thread-safe.
class FusedProgram : public internal::TieredCode {
 public:
  // Null for a program with a function that has no kernel on float32.
  static const FusedProgram* of(const ScalarDef& def);
  // The same for any program. Only code() may be used, since tiles may lack a function of the
  // program.
  static const FusedProgram* for_code(const ScalarDef& def);

  explicit FusedProgram(const scalar::Program& program);

  const scalar::Program& program() const noexcept { return program_; }

  // Computes out[i] = program(in[0][i], ...) for n elements, by the best code so far; requests
  // better code after enough run time. `out` may be an operand.
  void run(void* out, const void* const* in, const double* params, std::size_t n) const {
    if (const auto code = reinterpret_cast<ProgramKernel>(best_code())) {
      code(out, in, params, n);
    } else {
      run_tiles(out, in, params, n);
    }
    note_run(estimate(n));
  }
  // The same, but always on tiles.
  void run_tiles(void* out, const void* const* in, const double* params, std::size_t n) const;

  // Returns the code of this tier, and compiles it first if it is missing. Null: this build makes
  // no code.
  ProgramKernel code(Tier tier) const { return reinterpret_cast<ProgramKernel>(code_of(tier)); }

 private:
  // A call of a function, with the slots of its operands and its result.
  struct Step {
    ProgramKernel run = nullptr;
    uint8_t operands = 0;
    uint8_t out = 0;  // a slot; kResult: the program's result
    std::array<uint8_t, 3> in{};
  };
  // A number that fills a slot before the steps.
  struct Number {
    uint8_t slot = 0;
    int16_t param = -1;  // its number; -1: `value`
    float value = 0;
  };
  static constexpr uint8_t kResult = 255;
  static constexpr uint8_t kFirstOperand = 128;  // operand i of the program

  void place_nodes();
  // The estimated time without code, in nanoseconds: 8 for each call of a function, and 0.25 for
  // each element. The time is not measured, since reading a clock takes as long as a small program.
  uint64_t estimate(std::size_t n) const noexcept { return (8 + n / 4) * steps_.size(); }

  const scalar::Program program_;
  std::vector<Step> steps_;
  std::vector<Number> numbers_;
  std::size_t slots_ = 0;
  std::size_t tile_ = 0;  // elements
};

}  // namespace etude::kernels::cpu
