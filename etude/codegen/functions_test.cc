// SPDX-License-Identifier: Apache-2.0
// Every function of scalar programs, compiled here, against the kernel that was compiled with the
// library: the same bits on special values, on pairs of them, and on floats of all exponents.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/codegen/test_programs.h"
#include "etude/device/cpu/float_mode.h"

namespace etude::codegen {
namespace {

using scalar::Fn;

constexpr std::size_t kRandom = 100000;

// Whether denormals count as 0. By clang the kernels of different instruction sets then differ for
// denormal operands: it selects with instructions whose result for a denormal is 0.
#if defined(__clang__)
constexpr std::array kModes = {false};
#else
constexpr std::array kModes = {false, true};
#endif

Bytes bytes_of(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + values.size() * sizeof(float)};
}

// Pairs of special values, and then random ones.
std::vector<Bytes> operands_of(const scalar::Program& program, std::size_t& count) {
  std::mt19937 random(7);
  const std::vector<float> special = special_values();
  count = special.size() * special.size() + kRandom;
  std::vector<Bytes> operands = random_operands(program, random, count);
  std::size_t inner = 1;  // the first operand changes fastest
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].size() == count) continue;  // bools
    std::vector<float> values(special.size() * special.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = special[i / inner % special.size()];
    const Bytes bytes = bytes_of(values);
    std::copy(bytes.begin(), bytes.end(), operands[k].begin());
    inner = special.size();
  }
  return operands;
}

std::string show(const std::vector<Bytes>& operands, std::size_t count, std::ptrdiff_t at) {
  std::string text;
  for (const Bytes& operand : operands) {
    float x = 0;
    if (operand.size() == count) {
      x = static_cast<float>(operand[static_cast<std::size_t>(at)]);
    } else {
      std::memcpy(&x, operand.data() + at * 4, 4);
    }
    text += " " + std::to_string(x);
  }
  return text;
}

class Functions : public testing::TestWithParam<Fn> {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "this build generates no code";
  }
};

TEST_P(Functions, HaveTheBitsOfThePrecompiledKernel) {
  const scalar::Program program = program_of(GetParam());
  std::size_t count = 0;
  const std::vector<Bytes> operands = operands_of(program, count);
  for (const internal::Isa isa : isas()) {
    for (const Tier tier : {Tier::kFast, Tier::kBest}) {
      for (const bool flush : kModes) {
        std::unique_ptr<FloatModeScope> mode;
        if (flush) mode = std::make_unique<FloatModeScope>();
        const Bytes want = run_precompiled(program, isa, operands, {}, count);
        const Bytes got = run_compiled(program, {.tier = tier, .isa = isa}, operands, {}, count);
        mode.reset();
        const std::ptrdiff_t at = first_difference(got, want, program.is_bool);
        ASSERT_EQ(at, -1) << to_string(program) << " on " << internal::name(isa) << ", tier "
                          << static_cast<int>(tier) << (flush ? ", denormals are 0" : "") << ": at"
                          << show(operands, count, at);
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Fn>& info) {
  return std::string(scalar::info(info.param).op);
}

INSTANTIATE_TEST_SUITE_P(Codegen, Functions, testing::ValuesIn(float_functions()), name_of);

}  // namespace
}  // namespace etude::codegen
