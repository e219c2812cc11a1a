// SPDX-License-Identifier: Apache-2.0
// Random programs against the precompiled kernels of their functions, one after the other.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "etude/codegen/test_programs.h"
#include "etude/device/cpu/float_mode.h"

namespace etude::codegen {
namespace {

class RandomPrograms : public testing::TestWithParam<internal::Isa> {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "this build generates no code";
  }
};

TEST_P(RandomPrograms, HaveTheBitsOfTheirNodes) {
  constexpr std::size_t kCount = 1003;  // whole vectors and a rest
  std::mt19937 random(11);
  int bools = 0;
  for (int round = 0; round < 60; ++round) {
    const scalar::Program program = random_program(random, 1 + round);
    bools += program.is_bool ? 1 : 0;
    const std::vector<Bytes> operands = random_operands(program, random, kCount);
    const std::vector<double> params = {0.75, -3.1};
#if !defined(__clang__)  // see functions_test.cc
    const FloatModeScope flush;
#endif
    const Bytes want = run_precompiled(program, GetParam(), operands, params, kCount);
    const CompileOptions options = {.tier = round % 2 == 0 ? Tier::kFast : Tier::kBest,
                                    .layout = round % 3 == 0 ? Layout::kStrided : Layout::kDense,
                                    .isa = GetParam()};
    const Bytes got = run_compiled(program, options, operands, params, kCount);
    ASSERT_EQ(first_difference(got, want, program.is_bool), -1)
        << "program " << round << ": " << to_string(program);
  }
  EXPECT_GT(bools, 5);
}

// Programs of few nodes keep several vectors in flight, long ones call shared functions.
TEST_P(RandomPrograms, HaveTheSameBitsInAllTiersAndLayouts) {
  constexpr std::size_t kCount = 517;
  std::mt19937 random(12);
  for (int calls : {1, 2, 3, 5, 8, 13, 21, 40}) {
    const scalar::Program program = random_program(random, calls);
    const std::vector<Bytes> operands = random_operands(program, random, kCount);
    const std::vector<double> params = {1e-3, 2};
    const Bytes want =
        run_compiled(program, {.isa = internal::Isa::kPortable}, operands, params, kCount);
    for (const Tier tier : {Tier::kFast, Tier::kBest}) {
      for (const Layout layout : {Layout::kDense, Layout::kStrided}) {
        const Bytes got = run_compiled(program, {.tier = tier, .layout = layout, .isa = GetParam()},
                                       operands, params, kCount);
        ASSERT_EQ(first_difference(got, want, program.is_bool), -1) << to_string(program);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codegen, RandomPrograms, testing::ValuesIn(isas()), isa_of);

}  // namespace
}  // namespace etude::codegen
