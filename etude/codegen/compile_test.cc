// SPDX-License-Identifier: Apache-2.0
// Refused programs, cached programs, and compiling on many threads.
#include "etude/codegen/compile.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/codegen/check_program.h"
#include "etude/codegen/object_cache.h"
#include "etude/codegen/test_programs.h"
#include "etude/codegen/worker.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::codegen {
namespace {

using scalar::Fn;
using scalar::Program;
using tests::expect_error;

void expect_refused(const Program& program, ErrorCode code, std::string_view fragment) {
  expect_error([&] { compile(program); }, code, {fragment});
  expect_error([&] { compile_cached(program); }, code, {fragment});
  expect_error([&] { ir_text(program); }, code, {fragment});
}

TEST(Compile, RefusesProgramsThatAreNone) {
  const Program add = program_of(Fn::kAdd);
  Program p = add;
  p.size = 0;
  expect_refused(p, ErrorCode::kInvalidArgument, "the program has 0 nodes, but 1 to 64");
  p.size = 65;
  expect_refused(p, ErrorCode::kInvalidArgument, "the program has 65 nodes");
  p = add;
  p.nodes[1].args[0] = 2;
  expect_refused(p, ErrorCode::kInvalidArgument,
                 "node 1 of the program reads operand 2, but it has 2 operands");
  p = add;
  p.operands = 7;
  expect_refused(p, ErrorCode::kInvalidArgument, "7 operands, but at most 6 fit one pass");
  p = add;
  p.nodes[2].args[1] = 2;
  expect_refused(p, ErrorCode::kInvalidArgument,
                 "node 2 of the program, 'add', uses node 2, which is not before it");
  p = add;
  p.nodes[0] = {Fn::kParam, {3}, 0};
  expect_refused(p, ErrorCode::kInvalidArgument, "reads parameter 3, but it has 0 parameters");
  p = add;
  p.nodes[2].fn = static_cast<Fn>(250);
  expect_refused(p, ErrorCode::kInvalidArgument, "function number 250");
}

TEST(Compile, RefusesFunctionsWithoutKernels) {
  Program p = program_of(Fn::kAdd);
  p.nodes[2].fn = Fn::kFmod;
  expect_refused(p, ErrorCode::kUnimplemented, "'fmod', which has no kernel for float32");
  p.nodes[2].fn = Fn::kBitwiseAnd;
  expect_refused(p, ErrorCode::kUnimplemented, "'bitwise_and', which has no kernel for float32");
}

TEST(Compile, RefusesNumbersForTruths) {
  Program p = program_of(Fn::kWhere);
  p.bools = 0;
  expect_refused(p, ErrorCode::kInvalidArgument,
                 "'where', needs a bool for argument 0, but node 0 is a number");
  p = program_of(Fn::kAdd);
  p.bools = 2;
  expect_refused(p, ErrorCode::kInvalidArgument,
                 "'add', needs a number for argument 1, but node 1 is a bool");
  p = program_of(Fn::kLess);
  p.is_bool = false;
  expect_refused(p, ErrorCode::kInvalidArgument, "states that its result is a number");
}

TEST(Compile, RefusesOptionsOutOfRange) {
  const Program p = program_of(Fn::kAdd);
  expect_error([&] { compile(p, {.isa = static_cast<internal::Isa>(9)}); },
               ErrorCode::kInvalidArgument, {"code for an unknown instruction set"});
  if (internal::best_isa() != internal::Isa::kAvx512) {
    expect_error([&] { compile(p, {.isa = internal::Isa::kAvx512}); }, ErrorCode::kInvalidArgument,
                 {"code for avx512 was requested, but this machine"});
  }
  expect_error([&] { compile(p, {.tier = static_cast<Tier>(3)}); }, ErrorCode::kInvalidArgument,
               {"tier 3"});
  expect_error([&] { compile(p, {.layout = static_cast<Layout>(2)}); }, ErrorCode::kInvalidArgument,
               {"layout 2"});
}

TEST(Compile, SaysWhenThereIsNoBackend) {
  if (is_available()) GTEST_SKIP() << "this build generates code";
  expect_refused(program_of(Fn::kAdd), ErrorCode::kUnimplemented,
                 "no code is generated: " + Worker::of_process().why_absent());
}

TEST(Compile, KeysCompareWhatMatters) {
  Program a = program_of(Fn::kAdd), b = a;
  b.nodes[2].args[2] = 5;     // not used
  b.nodes[0].constant = 1;    // neither
  b.nodes[40].fn = Fn::kExp;  // beyond the end
  b.sources[0] = 3;
  EXPECT_EQ(key_of(a, {}), key_of(b, {}));
  b.nodes[2].args[1] = 0;
  EXPECT_NE(key_of(a, {}), key_of(b, {}));
  EXPECT_NE(key_of(a, {}), key_of(a, {.tier = Tier::kFast}));
  EXPECT_NE(key_of(a, {}), key_of(a, {.layout = Layout::kStrided}));
  a.nodes[1] = {Fn::kConstant, {}, 0.0};
  b = a;
  b.nodes[1].constant = -0.0;
  EXPECT_NE(key_of(a, {}), key_of(b, {}));
}

class Compiled : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "this build generates no code";
  }
};

TEST_F(Compiled, GivesTheKernelOfTheLayout) {
  const Program p = program_of(Fn::kAdd);
  EXPECT_NE(compile(p).dense(), nullptr);
  EXPECT_EQ(compile(p).strided(), nullptr);
  EXPECT_EQ(compile(p, {.layout = Layout::kStrided}).dense(), nullptr);
  EXPECT_NE(compile(p, {.layout = Layout::kStrided}).strided(), nullptr);
  EXPECT_GT(compile(p).object_bytes(), 100u);
}

TEST_F(Compiled, IsKeptByProgramAndOptions) {
  const Program p = program_of(Fn::kHypot);
  EXPECT_EQ(compile_cached(p), compile_cached(p));
  EXPECT_FALSE(compile_cached(p) == compile_cached(p, {.tier = Tier::kFast}));
  EXPECT_FALSE(compile(p) == compile(p));
}

TEST_F(Compiled, OldCodeIsForgottenButLivesWithItsHandles) {
  Program p = program_of(Fn::kAdd);
  p.nodes[1] = {Fn::kConstant, {}, 1000};
  p.operands = 1;
  const CompileOptions fast = {.tier = Tier::kFast, .isa = internal::Isa::kPortable};
  const CompiledProgram first = compile_cached(p, fast);
  for (int k = 0; k < 260; ++k) {
    p.nodes[1].constant = k;
    compile_cached(p, fast);
  }
  p.nodes[1].constant = 1000;
  EXPECT_FALSE(compile_cached(p, fast) == first);
  float x = 0.5;
  const void* in[] = {&x};
  first.dense()(&x, in, nullptr, 1);
  EXPECT_EQ(x, 1000.5f);
}

TEST_F(Compiled, HasTexts) {
  const Program p = program_of(Fn::kTanh);
  EXPECT_NE(ir_text(p).find("define void @etude_kernel(ptr"), std::string::npos) << ir_text(p);
  EXPECT_NE(ir_text(p, {}, false).find("llvm.fma.v"), std::string::npos);
  EXPECT_NE(assembly_text(p).find("ret"), std::string::npos);
  EXPECT_EQ(ir_text(p).find("fast"), std::string::npos);
  EXPECT_EQ(ir_text(p).find("contract"), std::string::npos);
}

// Eight threads compile, run and drop the same few programs.
TEST_F(Compiled, CompilesOnManyThreads) {
  constexpr std::size_t kCount = 100;
  std::mt19937 random(8);
  std::vector<Program> programs;
  std::vector<std::vector<Bytes>> operands;
  std::vector<Bytes> wants;
  const std::vector<double> params = {0.5, 2};
  for (int k = 0; k < 6; ++k) {
    programs.push_back(random_program(random, 3 + k));
    operands.push_back(random_operands(programs.back(), random, kCount));
    wants.push_back(
        run_precompiled(programs.back(), internal::best_isa(), operands.back(), params, kCount));
  }
  std::atomic<int> wrong{0};
  const auto work = [&](std::size_t thread) {
    for (std::size_t k = 0; k < 12; ++k) {
      const std::size_t which = (k + thread) % programs.size();
      const Program& p = programs[which];
      const CompileOptions options = {.tier = k % 2 == 0 ? Tier::kFast : Tier::kBest};
      const CompiledProgram code = k % 3 == 0 ? compile(p, options) : compile_cached(p, options);
      Bytes out(kCount * element_bytes(p.is_bool));
      code.dense()(out.data(), pointers(operands[which]).data(), params.data(), kCount);
      if (first_difference(out, wants[which], p.is_bool) >= 0) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Expects the right result for x = 2 in a separate process, by code that it makes or finds.
void expect_other_process_right(const Program& p) {
  const auto run = [&p] {
    const float x = 2;
    float y = 0;
    const void* in[] = {&x};
    compile_cached(p).dense()(&y, in, nullptr, 1);
    std::_Exit(y == 3.25f ? 0 : 1);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

// spec: Z55.a
TEST_F(Compiled, IsFoundByTheNextProcess) {
  namespace fs = std::filesystem;
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process from its start, with its own setting
  const char* inherited = std::getenv("ETUDE_TEST_KERNELS");  // the process of an EXPECT_EXIT
  std::optional<internal::TempFolder> made;
  if (inherited == nullptr) {
    made.emplace();
    setenv("ETUDE_TEST_KERNELS", made->path().c_str(), 1);
    setenv("ETUDE_KERNEL_CACHE", made->path().c_str(), 1);
  }
  const std::string folder = made ? made->path().string() : inherited;
  Program p = program_of(Fn::kAdd);
  p.nodes[1] = {Fn::kConstant, {}, 1.25};
  p.operands = 1;
  expect_other_process_right(p);
  const ObjectCache disk(folder);
  const std::string key = maker() + "\n" + key_of(p, {});
  const std::optional<std::string> first = disk.find(key);
  EXPECT_TRUE(first.has_value());  // no ASSERT: processes begun later come by here, too
  expect_other_process_right(p);
  EXPECT_EQ(disk.find(key), first);
  // A file that has the right checksum, but is no object file, is made again.
  EXPECT_TRUE(disk.store(key, "no object file"));
  expect_other_process_right(p);
  EXPECT_EQ(disk.find(key), first);
  // So is a truncated file.
  fs::resize_file(fs::directory_iterator(folder)->path(), 100);
  expect_other_process_right(p);
  EXPECT_EQ(disk.find(key), first);
  setenv("ETUDE_KERNEL_CACHE", "off", 1);
}

}  // namespace
}  // namespace etude::codegen
