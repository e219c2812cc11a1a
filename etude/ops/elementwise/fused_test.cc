// SPDX-License-Identifier: Apache-2.0
// Calls that fused_elementwise refuses, since its kernels read the operands and parameters of its
// program, all of one dtype.
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/graph/text/programs.h"
#include "etude/kernels/cpu/elementwise/elementwise.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using scalar::Fn;
using tests::expect_error;

// x0 + x1 + ... + x(n-1), a program that no record has: it has no compiled kernels. Programs are
// static below, since caches know them by address.
scalar::Program sum_of(int n) {
  scalar::Program program;
  const auto add = [&](scalar::Node node) {
    program.nodes[static_cast<std::size_t>(program.size)] = node;
    return static_cast<uint8_t>(program.size++);
  };
  uint8_t total = add({Fn::kOperand, {0}, 0});
  for (int i = 1; i < n; ++i) {
    const uint8_t x = add({Fn::kOperand, {static_cast<uint8_t>(i)}, 0});
    total = add({Fn::kAdd, {total, x}, 0});
  }
  program.operands = n;
  return program;
}

Tensor run(const ScalarDef& def, const std::vector<Tensor>& in) {
  const OperandList list{std::span<const Tensor>(in)};
  return internal::run_program(def, list.view(), {}, CallSite::here());
}

// spec: IM-12.a
TEST(Fused, TakesNoMoreOperandsThanItsKernels) {
  const auto most = static_cast<int>(kernels::cpu::kMaxOperands);
  static const scalar::Program fits = sum_of(most), large = sum_of(most + 1);
  static ScalarDef def;
  def.program = &fits;
  std::vector<Tensor> in(static_cast<std::size_t>(most), ones({40, 50}));
  in[1] = ones({50});  // expanded in tiles
  EXPECT_EQ(run(def, in).to_vector<float>(), std::vector<float>(2000, static_cast<float>(most)));
  static ScalarDef too_large;
  too_large.program = &large;
  in.push_back(ones({50}));
  expect_error(
      [&] { run(too_large, in); }, ErrorCode::kInvalidArgument,
      {"fused_elementwise: there are 7 operands, but at most 6 fit one pass", "fused_test.cc"});
}

TEST(Fused, RefusesFunctionsOfBitsOnFloats) {
  const ScalarDef* def = internal::find_program("bitwise_and(bitwise_or(x1, x2), x1)", 1);
  ASSERT_NE(def, nullptr);
  const Tensor n = ones({3}, {.dtype = kInt32}), x = ones({3});
  EXPECT_EQ(run(*def, {n, n}).to_vector<int>(), std::vector<int>(3, 1));
  expect_error(
      [&] {
        run(*def, {x, x});
      },
      ErrorCode::kInvalidArgument, {"the program calls bitwise_or, which does not take float32"});
}

// spec: IM-12.a
TEST(Fused, TakesWhatItsProgramReads) {
  static const scalar::Program two = sum_of(2);
  static ScalarDef def;
  def.program = &two;
  const Tensor x = ones({3});
  expect_error([&] { run(def, {x}); }, ErrorCode::kInvalidArgument,
               {"there are 1 operands, but the program reads 2"});
  expect_error(
      [&] {
        run(def, {x, x, x});
      },
      ErrorCode::kInvalidArgument, {"there are 3 operands, but the program reads 2"});
  expect_error(
      [&] {
        run(def, {x, astype(x, kFloat64)});
      },
      ErrorCode::kInvalidArgument, {"element 1 of 'xs' is float64, but must be float32"});
  static scalar::Program scaled = sum_of(1);
  scaled.nodes[1] = {Fn::kParam, {0}, 0};
  scaled.nodes[2] = {Fn::kMultiply, {0, 1}, 0};
  scaled.size = 3;
  scaled.params = 1;
  static ScalarDef by_number;
  by_number.program = &scaled;
  expect_error([&] { run(by_number, {x}); }, ErrorCode::kInvalidArgument,
               {"params has 0 numbers, but the program reads 1"});
}

}  // namespace
}  // namespace etude
