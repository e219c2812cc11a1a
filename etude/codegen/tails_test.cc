// SPDX-License-Identifier: Apache-2.0
// Lengths from 0 on, with a protected page right after the last element, and operands of one
// element.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "etude/codegen/test_programs.h"

namespace etude::codegen {
namespace {

using scalar::Fn;

// Memory that ends with a page, before a page that faults.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t pages = (bytes + page - 1) / page + 1;
    size_ = (pages + 1) * page;
    base_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + pages * page, page, PROT_NONE);
    data_ = base_ + pages * page - bytes;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, size_); }
  void* data() const { return data_; }

 private:
  char* base_ = nullptr;
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

struct Case {
  const char* name;
  scalar::Program program;
};

// Programs with many vectors in flight, with a single vector, with four although they are long, and
// with calls; with and without bools.
std::vector<Case> cases() {
  std::vector<Case> all = {{"add", program_of(Fn::kAdd)},       {"tanh", program_of(Fn::kTanh)},
                           {"where", program_of(Fn::kWhere)},   {"less", program_of(Fn::kLess)},
                           {"atan2", program_of(Fn::kAtan2)},   {"sin", program_of(Fn::kSin)},
                           {"not", program_of(Fn::kLogicalNot)}};
  std::mt19937 random(3);
  all.push_back({"random", random_program(random, 20)});
  all.push_back({"chain of tanh", chain_of(Fn::kTanh, 8)});
  return all;
}

class Tails : public testing::TestWithParam<internal::Isa> {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "this build generates no code";
  }
};

// Runs on copies that end at guard pages, and looks at the bytes before the result.
Bytes run_guarded(const CompiledProgram& code, const scalar::Program& program,
                  const std::vector<Bytes>& operands, const std::vector<std::size_t>& strides,
                  std::size_t n) {
  const std::vector<double> params = {0.5, 2};
  std::vector<std::unique_ptr<Guarded>> copies;
  std::vector<const void*> in;
  for (const Bytes& operand : operands) {
    copies.push_back(std::make_unique<Guarded>(operand.size()));
    std::copy(operand.begin(), operand.end(), static_cast<std::byte*>(copies.back()->data()));
    in.push_back(copies.back()->data());
  }
  constexpr std::size_t kBefore = 64;
  const Guarded result(kBefore + n * element_bytes(program.is_bool));
  auto* bytes = static_cast<std::byte*>(result.data());
  std::memset(bytes, 0xa5, kBefore);
  void* out = bytes + kBefore;
  if (code.options().layout == Layout::kDense) {
    code.dense()(out, in.data(), params.data(), n);
  } else {
    code.strided()(out, in.data(), strides.data(), params.data(), n);
  }
  for (std::size_t i = 0; i < kBefore; ++i) EXPECT_EQ(bytes[i], std::byte{0xa5});
  return {bytes + kBefore, bytes + kBefore + n * element_bytes(program.is_bool)};
}

TEST_P(Tails, TouchNothingBehindTheLastElement) {
  std::mt19937 random(4);
  for (const Case& c : cases()) {
    for (const Tier tier : {Tier::kFast, Tier::kBest}) {
      const CompiledProgram code = compile(c.program, {.tier = tier, .isa = GetParam()});
      for (std::size_t n = 0; n <= 67; ++n) {
        const std::vector<Bytes> operands = random_operands(c.program, random, n);
        const Bytes want = run_precompiled(c.program, GetParam(), operands, {0.5, 2}, n);
        const Bytes got = run_guarded(code, c.program, operands, {}, n);
        ASSERT_EQ(first_difference(got, want, c.program.is_bool), -1) << c.name << ", n " << n;
      }
    }
  }
}

// Each operand in turn, and all of them, is one element.
TEST_P(Tails, SpreadOperandsOfOneElement) {
  std::mt19937 random(5);
  for (const Case& c : cases()) {
    const CompiledProgram code =
        compile(c.program, {.layout = Layout::kStrided, .isa = GetParam()});
    const auto operands_count = static_cast<std::size_t>(c.program.operands);
    for (std::size_t single = 0; single <= operands_count; ++single) {
      for (std::size_t n = 0; n <= 67; ++n) {
        std::vector<Bytes> operands = random_operands(c.program, random, n), spread = operands;
        std::vector<std::size_t> strides(operands_count, 1);
        for (std::size_t k = 0; k < operands_count; ++k) {
          if (k != single && single != operands_count) continue;
          const std::size_t bytes = element_bytes(((c.program.bools >> k) & 1) != 0);
          strides[k] = 0;
          operands[k].resize(std::min(operands[k].size(), bytes));
          for (std::size_t i = 0; i < n; ++i) {
            std::memcpy(spread[k].data() + i * bytes, operands[k].data(), bytes);
          }
        }
        const Bytes want = run_precompiled(c.program, GetParam(), spread, {0.5, 2}, n);
        const Bytes got = run_guarded(code, c.program, operands, strides, n);
        ASSERT_EQ(first_difference(got, want, c.program.is_bool), -1)
            << c.name << ", n " << n << ", one element in operand " << single;
      }
    }
  }
}

TEST_P(Tails, WriteOverAnOperand) {
  std::mt19937 random(6);
  for (const Case& c : cases()) {
    if (c.program.is_bool || (c.program.bools & 1) != 0) continue;
    const CompiledProgram code = compile(c.program, {.isa = GetParam()});
    for (std::size_t n : {5u, 64u, 131u}) {
      std::vector<Bytes> operands = random_operands(c.program, random, n);
      const std::vector<double> params = {0.5, 2};
      const Bytes want = run_precompiled(c.program, GetParam(), operands, params, n);
      code.dense()(operands[0].data(), pointers(operands).data(), params.data(), n);
      ASSERT_EQ(first_difference(operands[0], want, false), -1) << c.name << ", n " << n;
    }
  }
}

// Lengths around four vectors, and around multiples of four vectors.
TEST_P(Tails, OfLongChains) {
  std::mt19937 random(7);
  const auto block = static_cast<std::size_t>(4 * internal::lanes(GetParam()));
  for (const Fn fn : {Fn::kTanh, Fn::kExp, Fn::kLog, Fn::kSin, Fn::kAbs}) {
    const scalar::Program program = chain_of(fn, 12);
    for (const Tier tier : {Tier::kFast, Tier::kBest}) {
      const CompiledProgram code = compile(program, {.tier = tier, .isa = GetParam()});
      for (std::size_t n = 2 * block - 18; n <= 2 * block + 18; ++n) {
        const std::vector<Bytes> operands = random_operands(program, random, n);
        const Bytes want = run_precompiled(program, GetParam(), operands, {}, n);
        const Bytes got = run_guarded(code, program, operands, {}, n);
        ASSERT_EQ(first_difference(got, want, false), -1) << to_string(program) << ", n " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codegen, Tails, testing::ValuesIn(isas()), isa_of);

}  // namespace
}  // namespace etude::codegen
