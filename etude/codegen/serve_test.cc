// SPDX-License-Identifier: Apache-2.0
// Programs that no record has: the same bits at all tiers, code after enough run time, and a child
// of fork().
#include "etude/codegen/serve.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/codegen/compile.h"
#include "etude/codegen/compiler.h"
#include "etude/codegen/test_programs.h"
#include "etude/codegen/worker.h"
#include "etude/core/op/registry.h"
#include "etude/graph/text/programs.h"
#include "etude/kernels/cpu/elementwise/fused_program.h"

namespace etude::codegen {
namespace {

using kernels::cpu::FusedProgram;
using scalar::Program;

const FusedProgram& fused(std::string_view text) {
  Registry::global();
  const ScalarDef* def = internal::find_program(text, 1);
  EXPECT_NE(def, nullptr) << text;
  const FusedProgram* program = FusedProgram::of(*def);
  EXPECT_NE(program, nullptr) << text;
  return *program;
}

struct Data {
  Data(const Program& program, std::size_t n, uint32_t seed) : program(program), n(n) {
    std::mt19937 draw(seed);
    operands = random_operands(program, draw, n);
    in = pointers(operands);
    for (int i = 0; i < program.params; ++i) params.push_back(0.25 * (i + 1) - 0.6);
  }
  template <class F>
  Bytes result(F&& run) const {
    Bytes out(n * (program.is_bool ? 1 : sizeof(float)));
    run(out.data(), in.data(), params.data(), n);
    return out;
  }
  bool is_same(const Bytes& a, const Bytes& b) const {
    return first_difference(a, b, program.is_bool) < 0;
  }
  const Program& program;
  std::size_t n;
  std::vector<Bytes> operands;
  std::vector<const void*> in;
  std::vector<double> params;
};

Bytes on_tiles(const FusedProgram& program, const Data& data) {
  return data.result([&](auto... args) { program.run_tiles(args...); });
}

constexpr const char* kTexts[] = {
    "v1 = multiply(x1, p1); add(v1, tanh(v1))",
    "where(greater(x1, x2), multiply(x1, 0.125), exp(x2))",
    "logical_and(less(x1, x2), x3)",
    "v1 = subtract(x1, x2); v2 = multiply(v1, v1); divide(v2, add(sqrt(v2), p1))",
    "add(add(add(add(add(x1, x2), x3), x4), x5), multiply(x6, p2))",
};

TEST(FusedProgram, HasTheSameBitsAtAllTiers) {
  for (const char* text : kTexts) {
    const FusedProgram& program = fused(text);
    for (const std::size_t n : {1, 3, 16, 1000, 1024, 1025, 5000}) {
      const Data data(program.program(), n, static_cast<uint32_t>(n));
      const auto want = on_tiles(program, data);
      for (const Tier tier : {Tier::kFast, Tier::kBest}) {
        const ProgramKernel code = program.code(tier);
        ASSERT_EQ(code != nullptr, is_available()) << text;
        if (code == nullptr) continue;
        EXPECT_TRUE(data.is_same(data.result(code), want)) << text << " of " << n;
      }
    }
  }
}

// Programs of up to the most nodes, which have to share the memory for values.
TEST(FusedProgram, RandomProgramsHaveTheSameBits) {
  std::mt19937 draw(3);
  int seen = 0;
  for (int i = 0; i < 60; ++i) {
    const Program raw = random_program(draw, 24);
    const ScalarDef* def = internal::find_program(scalar::to_string(raw), 1);
    if (def == nullptr || FusedProgram::of(*def) == nullptr) continue;
    const FusedProgram& program = *FusedProgram::of(*def);
    const Data data(program.program(), 1100, static_cast<uint32_t>(i));
    const auto want = on_tiles(program, data);
    if (const ProgramKernel code = program.code(Tier::kFast); code != nullptr) {
      EXPECT_TRUE(data.is_same(data.result(code), want)) << scalar::to_string(raw);
      ++seen;
    }
  }
  EXPECT_TRUE(!is_available() || seen > 30) << seen;
}

TEST(FusedProgram, MayGoOverAnOperand) {
  const FusedProgram& program = fused(kTexts[3]);
  const Data data(program.program(), 3000, 1);
  const auto want = on_tiles(program, data);
  Bytes over = data.operands[0];
  const void* in[] = {over.data(), data.operands[1].data()};
  program.run_tiles(over.data(), in, data.params.data(), data.n);
  EXPECT_TRUE(data.is_same(over, want));
}

// The first question of the kernel of element-wise calls.
TEST(FusedProgram, IsNoneForAnOperandAlone) {
  Registry::global();
  const ScalarDef* def = internal::find_program("x1", 1);
  ASSERT_NE(def, nullptr);
  EXPECT_EQ(FusedProgram::of(*def), nullptr);
}

class Served : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "this build generates no code";
    Registry::global();
  }
};

TEST_F(Served, CodeComesOnceItIsEarned) {
  const FusedProgram& program = fused("add(multiply(x1, 3.25), exp(x1))");
  const Data data(program.program(), 4096, 1);
  const auto want = on_tiles(program, data);
  const auto run = [&](auto... args) { program.run(args...); };
  EXPECT_TRUE(data.is_same(data.result(run), want));
  EXPECT_EQ(program.tier(), Tier::kNone);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(data.is_same(data.result(run), want));
  wait_for_compile();
  EXPECT_GE(program.tier(), Tier::kFast);
  for (int i = 0; i < 4000; ++i) data.result(run);
  wait_for_compile();
  EXPECT_EQ(program.tier(), Tier::kBest);
  EXPECT_TRUE(data.is_same(data.result(run), want));
  EXPECT_GE(compiler_report().best, 1u);
  EXPECT_EQ(compiler_report().failed, 0u);
  EXPECT_NE(to_string(compiler_report()).find("at Tier 2, made in"), std::string::npos);
}

TEST_F(Served, ManyThreadsRunOneProgramWhileItIsMade) {
  const FusedProgram& program = fused("subtract(multiply(x1, 1.75), tanh(x1))");
  const Data data(program.program(), 2048, 1);
  const auto want = on_tiles(program, data);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const Bytes got = data.result([&](auto... args) { program.run(args...); });
        if (!data.is_same(got, want)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  wait_for_compile();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(program.tier(), Tier::kFast);
}

TEST_F(Served, AChildOfForkMakesItsOwn) {
#ifdef ETUDE_TSAN
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child of fork";
#endif
  const FusedProgram& made = fused("add(multiply(x1, 4.5), exp(x1))");
  ASSERT_NE(made.code(Tier::kBest), nullptr);
  const FusedProgram& later = fused("add(multiply(x1, 5.5), exp(x1))");
  const Data data(made.program(), 4096, 1);
  const auto want = on_tiles(made, data), want_later = on_tiles(later, data);
  // Threads of both, and requests without a result, must exist when the process is split.
  const FusedProgram& hot = fused("add(multiply(x1, 6.5), exp(x1))");
  for (int i = 0; i < 1000; ++i) data.result([&](auto... args) { hot.run(args...); });
  const pid_t child = fork();
  if (child == 0) {
    const auto run = [&](const FusedProgram& program, const auto& right) {
      for (int i = 0; i < 1000; ++i) {
        const Bytes got = data.result([&](auto... args) { program.run(args...); });
        if (!data.is_same(got, right)) _exit(1);
      }
    };
    wait_for_compile();
    if (hot.tier() == Tier::kNone) _exit(2);
    run(made, want);
    run(later, want_later);
    wait_for_compile();
    _exit(later.tier() == Tier::kNone ? 3 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  wait_for_compile();
  EXPECT_GE(hot.tier(), Tier::kFast);
}

// As where the compiler is not there, or ends with each program.
TEST_F(Served, WhatCannotBeMadeRunsOnTiles) {
#ifdef ETUDE_TSAN
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child of fork";
#endif
  const FusedProgram& program = fused("add(multiply(x1, 8.5), exp(x1))");
  const Data data(program.program(), 4096, 1);
  const auto want = on_tiles(program, data);
  const std::size_t failed = compiler_report().failed;
  const pid_t child = fork();
  if (child == 0) {
    Worker::of_process().end();
    for (int i = 0; i < 1000; ++i) {
      const Bytes got = data.result([&](auto... args) { program.run(args...); });
      if (!data.is_same(got, want)) _exit(1);
    }
    wait_for_compile();
    const CompilerReport report = compiler_report();
    const bool is_told =
        report.failed == failed + 1 && to_string(report).find(
                                           " run on precompiled kernels; the latest since no "
                                           "code is made any more") != std::string::npos;
    _exit(!is_told ? 2 : program.tier() != Tier::kNone ? 3 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// While another thread has code made, so that the split comes at any point of that.
TEST_F(Served, ForksWhileCodeIsMade) {
#ifdef ETUDE_TSAN
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child of fork";
#endif
  std::atomic<bool> is_over{false};
  std::thread makes([&] {
    for (int i = 0; !is_over; ++i) {
      fused("add(multiply(x1, " + std::to_string(i) + ".75), exp(x1))").code(Tier::kFast);
    }
  });
  int wrong = 0;
  for (int i = 0; i < 20; ++i) {
    const FusedProgram& mine = fused("subtract(x1, " + std::to_string(i) + ".25)");
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(mine.code(Tier::kFast) != nullptr ? 0 : 1);
    }
    int status = 0;
    wrong += waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
  }
  is_over = true;
  makes.join();
  EXPECT_EQ(wrong, 0);
}

// At any point of starting the compiler and of compiling.
TEST_F(Served, TheProcessMayEndWhileCodeIsMade) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has compiled nothing yet
  for (const int wait_ms : {0, 2, 5, 10, 20, 40, 80}) {
    const auto end_while_waiting = [wait_ms] {
      const FusedProgram& hot = fused("add(multiply(x1, 7.5), exp(tanh(erf(x1))))");
      const Data data(hot.program(), 4096, 1);
      for (int i = 0; i < 1000; ++i) data.result([&](auto... args) { hot.run(args...); });
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      std::exit(0);
    };
    EXPECT_EXIT(end_while_waiting(), ::testing::ExitedWithCode(0), "") << wait_ms;
  }
}

}  // namespace
}  // namespace etude::codegen
